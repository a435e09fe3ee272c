"""Candidates: which devices of a pool view could serve a request, whatever is in use.

A candidate key is what two requests have in common if the same devices can serve them: selectors, tolerations and
amounts. For each key and pool view the answer is computed once, at first need, and holds until the view is another: it
never depends on the ledger.
Source: docs/engine sections 2 and 3; docs/dra-semantics 3.2, 4.4, 5.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.capacity import CapacityError, Consumed, consume
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.derived import DerivedAttributes
from dra_operator.allocator.failures import in_class, in_request, selector_failure
from dra_operator.allocator.room import Room
from dra_operator.allocator.selectors import Selection, SelectorCache
from dra_operator.api.quantity import Quantity
from dra_operator.api.sealed import sealed
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Features, PoolView, Slice, bits
from dra_operator.inventory.barriers import Barred, Barrier, Barriers

_MAX_AMOUNTS = 16_384
_MAX_BARRIERS = 256
"""Of each key, and there are thousands of keys."""
_MAX_ANSWERS = 262_144
_PAIRS_A_DEVICE = 8
"""Where devices differ so much, to look at each takes no longer than to look at the sets in which they are equal."""


class KeyContent(NamedTuple):
    """What a candidate key stands for: expressions in order, tolerations, and amounts by capacity name.

    It is looked up for each request that is planned, and a tuple is hashed without a call.
    """

    class_selectors: tuple[str, ...]
    request_selectors: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]
    amounts: tuple[tuple[str, int, str], ...]


@sealed
class Answers:
    """The devices of a pool view, for one key, as sets of positions.

    `selectable`: selectors, capacity and node agree, whatever taints the device has. `mask`: those of them whose taints
    are tolerated. `errors`: an attempt that reaches one of these ends with an error. `unknown`: nobody needed these
    yet, and they are in no other set.
    """

    selectable: int
    mask: int
    errors: int
    unknown: int


@lru_cache(maxsize=4096)
def _no_devices(unknown: int) -> Answers:
    """Return what most views have for a claim that fits nowhere: not an object for each."""
    return Answers(0, 0, 0, unknown)


@dataclass(frozen=True, slots=True)
class _Amounts:
    """What a request consumes of each device of a slice, the devices that have it, and those where it is an error."""

    each: tuple[Consumed | CapacityError | None, ...]
    fit: int
    impossible: int


@dataclass(slots=True, eq=False)
class CandidateKey:
    """A key and its answers by serial number of the view. Its own number is never given to another.

    `selection` is by all expressions, from when they are first asked; `tolerated` tells what is known of barriers.
    """

    serial: int
    content: KeyContent
    expressions: tuple[str, ...]
    requests: Mapping[str, Quantity]
    answers: dict[int, Answers] = field(default_factory=dict)
    selection: Selection | None = None
    tolerated: dict[Barriers, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Candidates:
    """All candidate keys in use, and what they share: selectors, derived attributes, amounts, and room for answers."""

    features: Features
    selectors: SelectorCache
    maximum: int = 2048
    derived: DerivedAttributes = field(init=False)
    _serials: Iterator[int] = field(default_factory=count)
    _keys: dict[KeyContent, CandidateKey] = field(default_factory=dict)
    _amounts: dict[object, _Amounts] = field(default_factory=dict)
    _room: Room = field(default_factory=lambda: Room(_MAX_ANSWERS))

    def __post_init__(self) -> None:
        self.derived = DerivedAttributes(self.selectors)

    def key(self, content: KeyContent, requests: Mapping[str, Quantity]) -> CandidateKey:
        """Return the key with this content; `requests` are its amounts as quantities."""
        found = self._keys.get(content)
        if found is None:
            if len(self._keys) >= self.maximum:
                for old in list(self._keys)[: self.maximum // 2]:
                    self._room.leave(self._keys.pop(old).answers)
            expressions = content.class_selectors + content.request_selectors
            found = self._keys[content] = CandidateKey(next(self._serials), content, expressions, requests)
        return found

    def forget(self, views: Sequence[PoolView]) -> None:
        """Drop the answers about views that are gone."""
        if views:
            self._room.forget([view.serial for view in views])

    def ask(self, key: CandidateKey, view: PoolView, budget: Budget, needed: int = -1) -> Answers:
        """Return the answers of a key about a view, at least those about the needed devices.

        A selector that nobody else has, on values that no two devices have, is evaluated for each device; most are in
        use and need no answer. Raises AbortedError if the time is used up.
        """
        found = key.answers.get(view.serial)
        if found is None or needed & found.unknown:
            found = self.find(key, view, budget, needed)
        return found

    def find(self, key: CandidateKey, view: PoolView, budget: Budget, needed: int) -> Answers:
        """Find the answers of a key about a view, where they are not known: at least those about the needed devices."""
        selectable = errors = unknown = 0
        selection = key.selection or self._selection(key)
        for offset, content in view.placed:
            devices = content.every
            if content.binding:
                devices = self._without_binding(content)
            wanted = devices & needed >> offset
            if not wanted:
                unknown |= devices << offset
                continue
            known, selected, failed = selection.answer(content, wanted, budget)
            if failed:
                errors |= (devices & failed) << offset
            unknown |= (devices & ~known) << offset
            selected &= devices
            if not selected:
                continue
            visible = selected & (view.visible >> offset)
            if view.selector_errors:
                for index in bits.each(selected & ~visible):
                    if offset + index in view.selector_errors:
                        errors |= 1 << (offset + index)
            fit, impossible = self._fit(key, content, visible)
            errors |= impossible << offset
            if content.tainted:
                untold = fit & content.tainted & ~(needed >> offset)
                unknown |= untold << offset
                fit ^= untold
            selectable |= fit << offset
        mask = self._let_through(key, view.barred, selectable) if view.barred else selectable
        if view.serial not in key.answers:
            self._room.take(key.answers)
        found = key.answers[view.serial] = (
            Answers(selectable, mask, errors, unknown) if selectable or errors else _no_devices(unknown)
        )
        return found

    def consumed(self, key: CandidateKey, content: Slice, index: int) -> Consumed | CapacityError | None:
        """Return what a request consumes of a device: None if it is unfit, an error if the amounts are impossible."""
        return self.consumed_each(key, content)[index]

    def consumed_each(self, key: CandidateKey, content: Slice) -> Sequence[Consumed | CapacityError | None]:
        """Return the same for each device of a slice."""
        if self.features.consumable_capacity and content.capacity:
            return self._amounts_of(key, content).each
        unfit = self.features.consumable_capacity and key.requests
        return [None if unfit else _NOTHING] * len(content.names)

    def selector_error(
        self, key: CandidateKey, content: Slice, index: int, *, claim: str, request: str, class_name: str
    ) -> FatalError | None:
        """Return the error of the selector that fails on a device, or None if none does."""
        budget = _unlimited()
        for source, expressions in (
            (in_class(class_name, request), key.content.class_selectors),
            (in_request(claim, request), key.content.request_selectors),
        ):
            for number, expression in enumerate(expressions):
                answers = self.selectors.get(expression)
                selected, failed = answers.ask(content, 1 << index, budget)
                if failed:
                    return selector_failure(answers, source, number, content, index)
                if not selected:
                    return None
        return None

    def _amounts_of(self, key: CandidateKey, content: Slice) -> _Amounts:
        # The last of the serial numbers are those of capacity.
        memo = (key.content.amounts, content.schema, content.serials[len(content.attributes) :])
        found = self._amounts.get(memo)
        if found is None:
            if len(self._amounts) >= _MAX_AMOUNTS:
                self._amounts.clear()
            found = self._amounts[memo] = self._consume(key.requests, content)
        return found

    def _consume(self, requests: Mapping[str, Quantity], content: Slice) -> _Amounts:
        """Return what a request consumes of each device of a slice; most devices of a slice have equal capacity."""
        each: list[Consumed | CapacityError | None] = [None] * len(content.names)
        fit = impossible = 0
        for those in _alike(content):
            found = self._consume_of(requests, content, bits.lowest(those))
            for index in bits.each(those):
                each[index] = found
            if isinstance(found, Consumed):
                fit |= those
            elif found is not None:
                impossible |= those
        return _Amounts(tuple(each), fit, impossible)

    def _consume_of(
        self, requests: Mapping[str, Quantity], content: Slice, index: int
    ) -> Consumed | CapacityError | None:
        capacity = {
            name: value
            for name, column in content.capacity.items()
            if (value := column.values[index]) is not None
        }
        try:
            return consume(requests, capacity, fractional=self.features.fractional_capacity_range)
        except CapacityError as error:
            return error

    def select(self, key: CandidateKey, content: Slice, budget: Budget) -> int:
        """Return the devices of a slice that all selectors select."""
        devices = self._without_binding(content)
        selection = key.selection or self._selection(key)
        return devices & selection.answer(content, devices, budget)[1]

    def _without_binding(self, content: Slice) -> int:
        """Return the devices of a slice but those with binding conditions that are switched off."""
        if self.features.device_binding_and_status:
            return content.every
        return content.every & ~content.binding

    def _selection(self, key: CandidateKey) -> Selection:
        found = key.selection = self.selectors.together(
            key.content.class_selectors, key.content.request_selectors
        )
        return found

    def _fit(self, key: CandidateKey, content: Slice, devices: int) -> tuple[int, int]:
        if not self.features.consumable_capacity or (content.given_whole and not key.requests):
            return devices, 0
        if not content.capacity:
            return 0, 0
        amounts = self._amounts_of(key, content)
        return devices & amounts.fit, devices & amounts.impossible

    def tolerated(self, key: CandidateKey, content: Slice, devices: int) -> int:
        """Return those of the devices whose taints the request tolerates."""
        if not content.barred or not self.features.device_taints:
            return devices
        return self._let_through(key, content.barred, devices)

    def _let_through(self, key: CandidateKey, barred: Barred, devices: int) -> int:
        known = key.tolerated
        for barriers, behind in barred:
            if not behind & devices:
                continue
            found = known.get(barriers)
            if found is None:
                if len(known) >= _MAX_BARRIERS:
                    known.clear()
                found = known[barriers] = untolerated(barriers, key.content.tolerations) is None
            if not found:
                devices &= ~behind
        return devices


_NOTHING = Consumed(())


def _alike(content: Slice) -> Sequence[int]:
    """Return the devices of a slice as sets, each of those with equal capacity."""
    columns = [column for column in content.capacity.values() if len(column.sets) > 1]
    kinds = [content.every]
    for column in columns:
        if len(kinds) * len(column.sets) > _PAIRS_A_DEVICE * len(content.names):
            found: dict[object, int] = {}
            for index, key in enumerate(zip(*[column.keys for column in columns], strict=True)):
                found[key] = found.get(key, 0) | 1 << index
            return list(found.values())
        kinds = [both for those in kinds for equal in column.sets if (both := those & equal)]
    return kinds


def untolerated(barriers: Barriers, tolerations: Sequence[DeviceToleration]) -> Barrier | None:
    """Return the first barrier that keeps a device from a request, or None."""
    for barrier in barriers:
        for toleration in tolerations:
            if tolerates(toleration, barrier):
                break
        else:
            return barrier
    return None


def tolerates(toleration: DeviceToleration, taint: Barrier) -> bool:
    """True if a toleration covers a taint. Source: docs/dra-semantics 5.1."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False


def _unlimited() -> Budget:
    return Budget(Limits(None, None), lambda: 0.0)
