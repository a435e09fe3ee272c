"""Candidates: which devices of a pool view could serve a request, used or not.

Requests with the same selectors and tolerations (an ask) select the same devices. For each ask and pool view the answer
is computed once, when it is first needed, and holds until the view changes; it never depends on the ledger. Which of
these devices are fit for the amounts of a request is known by the make of a slice.
Source: docs/engine sections 2 and 3; docs/dra-semantics 3.2, 4.4, 5.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from dra_operator.allocator.budget import Budget, unlimited
from dra_operator.allocator.decision import IMPLIED, FatalError
from dra_operator.allocator.matching.capacity import (
    NOTHING,
    Amounts,
    AmountsCache,
    AskedAmount,
    CapacityError,
    Consumption,
    SliceConsumption,
)
from dra_operator.allocator.matching.derived import DerivedAttributes
from dra_operator.allocator.matching.equivalence import CacheLimit, drop_older_half
from dra_operator.allocator.matching.groups import Grouping
from dra_operator.allocator.matching.selectors import (
    Selection,
    SelectorCache,
    in_class,
    in_request,
    selector_failure,
)
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import Quantity
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Features, PoolView, Slice, bits
from dra_operator.inventory.taints import EffectiveTaint, EffectiveTaints, tolerates

_MAX_EFFECTIVE_TAINTS = 256
"""Of each key, and there are thousands of keys."""
_MAX_ANSWERS = 262_144


class AskContent(NamedTuple):
    """What an ask stands for: expressions in order, and tolerations.

    `implied` is the number of what is tolerated besides (`IMPLIED`). A tuple, as it is looked up for each request that
    is planned, and tuples are hashed fast.
    """

    class_selectors: tuple[str, ...]
    request_selectors: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]
    implied: int = 0

    def all_tolerations(self) -> tuple[DeviceToleration, ...]:
        """Return all that is tolerated, said or not."""
        return self.tolerations + IMPLIED[self.implied]


@fast_dataclass
class Answers:
    """The devices of a pool view, for an ask, or a key, which has amounts, as sets of positions.

    `selectable`: selectors, node and amounts agree, whatever taints the device has. `mask`: those of them whose taints
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


@dataclass(slots=True, eq=False)
class Ask:
    """An ask and its answers, by serial number of the view.

    `selection` joins all of its expressions, once they have been asked. `refused` are drivers whose devices they are
    known to refuse, if the devices can be read. `tolerated` holds what is known about effective taints.
    """

    content: AskContent
    expressions: tuple[str, ...]
    answers: dict[int, Answers] = field(default_factory=dict)
    selection: Selection | None = None
    refused: AbstractSet[str] = frozenset()
    tolerated: dict[EffectiveTaints, bool] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class CandidateKey:
    """An ask for some amounts. The serial number is never reused."""

    serial: int
    ask: Ask
    amounts: Amounts

    @property
    def content(self) -> AskContent:
        """The content of the ask."""
        return self.ask.content

    @property
    def requests(self) -> Mapping[str, Quantity]:
        """The amounts by capacity name."""
        return self.amounts.requests


@dataclass(slots=True)
class Candidates:
    """All asks and keys in use, and what they share: selectors, derived attributes, amounts, and room for answers.

    `groups` tells which devices agree in attributes, whoever asks for them.
    """

    features: Features
    selectors: SelectorCache
    maximum: int = 2048
    derived: DerivedAttributes = field(init=False)
    groups: Grouping = field(init=False)
    _serials: Iterator[int] = field(default_factory=count)
    _asks: dict[AskContent, Ask] = field(default_factory=dict)
    _keys: dict[tuple[AskContent, tuple[AskedAmount, ...]], CandidateKey] = field(default_factory=dict)
    _amounts: AmountsCache = field(init=False)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_ANSWERS))

    def __post_init__(self) -> None:
        self.derived = DerivedAttributes(self.selectors)
        self.groups = Grouping(self.features)
        self._amounts = AmountsCache(self.features.fractional_capacity_range, self.features.rules)

    def key(self, content: AskContent, amounts: tuple[AskedAmount, ...]) -> CandidateKey:
        """Return the key of an ask for some amounts."""
        found = self._keys.get((content, amounts))
        if found is None:
            if len(self._keys) >= self.maximum:
                drop_older_half(self._keys)
            key = CandidateKey(next(self._serials), self._ask(content), self._amounts.known(amounts))
            found = self._keys[content, amounts] = key
        return found

    def _ask(self, content: AskContent) -> Ask:
        found = self._asks.pop(content, None)
        if found is None:
            if len(self._asks) >= self.maximum:
                for old in drop_older_half(self._asks):
                    self._room.release(old.answers)
            found = Ask(content, content.class_selectors + content.request_selectors)
        self._asks[content] = found
        return found

    def forget(self, views: Sequence[PoolView]) -> None:
        """Drop the answers about views that are gone."""
        if views:
            self._room.forget([view.serial for view in views])

    def ask(self, key: CandidateKey, view: PoolView, budget: Budget) -> Answers:
        """Return the answers of a key about all devices of a view. Raises AbortedError if the time is used up."""
        found = key.ask.answers.get(view.serial)
        if found is None or found.unknown:
            found = self.find(key.ask, view, budget, -1)
        if not found.selectable:
            return found
        fit, impossible = self.fit(key, view, found.selectable)
        return Answers(found.selectable & fit, found.mask & fit, found.errors | impossible, 0)

    def fit(self, key: CandidateKey, view: PoolView, devices: int) -> tuple[int, int]:
        """Return which of some devices are fit for the amounts of a key, and of which the amounts are an error."""
        if not self.features.consumable_capacity:
            return devices, 0
        asked, by_shape = bool(key.requests), key.amounts.by_shape
        fit = impossible = 0
        for offset, slice_ in view.placed:
            here = devices >> offset & slice_.every
            if not here or (slice_.given_whole and not asked):
                fit |= here << offset
            elif slice_.capacity:
                found = by_shape.get(slice_.capacity_shape) or self._amounts.find(key.amounts, slice_)
                fit |= (here & found.fit) << offset
                impossible |= (here & found.impossible) << offset
        return fit, impossible

    def find(self, ask: Ask, view: PoolView, budget: Budget, needed: int) -> Answers:
        """Find the answers of an ask about a view, where they are not known: at least those about the needed devices.

        Most devices are in use and need no answer; if neither the selector nor the values are shared, each answer is an
        evaluation. Raises AbortedError if the time is used up.
        """
        selectable = mask = errors = unknown = skipped = 0
        selection = self.selection(ask)
        for offset, slice_ in view.placed:
            devices = slice_.every
            if slice_.binding:
                devices = self._without_binding(slice_)
            wanted = devices & needed >> offset
            if not wanted:
                skipped |= devices << offset
                continue
            known, selected, failed = selection.answer(slice_, wanted, budget)
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
            if slice_.tainted:
                untold = visible & slice_.tainted & ~(needed >> offset)
                unknown |= untold << offset
                visible ^= untold
                mask |= self._tolerated(ask, slice_, visible) << offset
            else:
                mask |= visible << offset
            selectable |= visible << offset
        before = ask.answers.get(view.serial)
        if before is None:
            self._room.reserve(ask.answers)
        elif kept := skipped & ~before.unknown:
            selectable |= before.selectable & kept
            mask |= before.mask & kept
            errors |= before.errors & kept
            skipped ^= kept
        unknown |= skipped
        found = ask.answers[view.serial] = (
            Answers(selectable, mask, errors, unknown) if selectable or errors else _no_devices(unknown)
        )
        return found

    def consumed(self, key: CandidateKey, slice_: Slice, index: int) -> Consumption | CapacityError | None:
        """Return what a request consumes of a device: None if it is unfit, an error if the amounts are impossible."""
        return self.consumed_each(key, slice_)[index]

    def consumed_each(self, key: CandidateKey, slice_: Slice) -> Sequence[Consumption | CapacityError | None]:
        """Return the same for each device of a slice."""
        if self.features.consumable_capacity:
            return self.amounts(key, slice_).each
        return [NOTHING] * len(slice_.names)

    def selector_error(
        self, key: CandidateKey, slice_: Slice, index: int, *, claim: str, request: str, class_name: str
    ) -> FatalError | None:
        """Return the error of the selector that fails on a device, or None if all of them select it."""
        budget = unlimited()
        for source, expressions in (
            (in_class(class_name, request), key.content.class_selectors),
            (in_request(claim, request), key.content.request_selectors),
        ):
            for number, expression in enumerate(expressions):
                answers = self.selectors.get(expression)
                _, failed = answers.ask(slice_, 1 << index, budget)
                if failed:
                    return selector_failure(answers, source, number, slice_, index)
        return None

    def selection(self, ask: Ask) -> Selection:
        """Return the selectors of an ask together."""
        found = ask.selection
        if found is None:
            content = ask.content
            found = ask.selection = self.selectors.together(
                content.class_selectors, content.request_selectors
            )
            ask.refused = (found.before or found).refused
        return found

    def amounts(self, key: CandidateKey, slice_: Slice) -> SliceConsumption:
        """Return what a request consumes of the devices of a slice."""
        return key.amounts.by_shape.get(slice_.capacity_shape) or self._amounts.find(key.amounts, slice_)

    def select(self, key: CandidateKey, slice_: Slice, budget: Budget) -> int:
        """Return the devices of a slice that all selectors select."""
        devices = self._without_binding(slice_)
        selection = self.selection(key.ask)
        return devices & selection.answer(slice_, devices, budget)[1]

    def _without_binding(self, slice_: Slice) -> int:
        """Return the devices of a slice but those with binding conditions that are switched off."""
        if self.features.device_binding_and_status:
            return slice_.every
        return slice_.every & ~slice_.binding

    def tolerated(self, key: CandidateKey, slice_: Slice, devices: int) -> int:
        """Return those of the devices whose taints the request tolerates."""
        return self._tolerated(key.ask, slice_, devices)

    def _tolerated(self, ask: Ask, slice_: Slice, devices: int) -> int:
        if not slice_.tainted_groups or not self.features.device_taints:
            return devices
        known = ask.tolerated
        for taints, tainted in slice_.tainted_groups:
            if not tainted & devices:
                continue
            found = known.get(taints)
            if found is None:
                if len(known) >= _MAX_EFFECTIVE_TAINTS:
                    known.clear()
                found = known[taints] = untolerated(taints, ask.content.all_tolerations()) is None
            if not found:
                devices &= ~tainted
        return devices


def untolerated(taints: EffectiveTaints, tolerations: Sequence[DeviceToleration]) -> EffectiveTaint | None:
    """Return the first taint that keeps a device from a request, or None."""
    for taint in taints:
        for toleration in tolerations:
            if tolerates(toleration, taint):
                break
        else:
            return taint
    return None
