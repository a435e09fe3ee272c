"""Candidates: which devices of a pool view could serve a request, used or not.

Requests with the same selectors, tolerations and amounts can be served by the same devices. These three are the
candidate key. For each key and pool view the answer is computed once, when it is first needed, and holds until the view
changes; it never depends on the ledger.
Source: docs/engine sections 2 and 3; docs/dra-semantics 3.2, 4.4, 5.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from dra_operator.allocator.budget import Budget, unlimited
from dra_operator.allocator.decider import IMPLIED
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.capacity import NOTHING, CapacityError, Consumption
from dra_operator.allocator.matching.consumption import (
    AskedAmount,
    ConsumptionCache,
    RequestedAmounts,
    SliceConsumption,
)
from dra_operator.allocator.matching.derived import DerivedAttributes
from dra_operator.allocator.matching.equivalence import CacheLimit, drop_older_half
from dra_operator.allocator.matching.failures import in_class, in_request, selector_failure
from dra_operator.allocator.matching.groups import Grouping
from dra_operator.allocator.matching.selectors import Selection, SelectorCache
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import Quantity
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory import Features, PoolView, Slice, bits
from dra_operator.inventory.taints import EffectiveTaint, EffectiveTaints, tolerates

_MAX_EFFECTIVE_TAINTS = 256
"""Of each key, and there are thousands of keys."""
_MAX_ANSWERS = 262_144


class KeyContent(NamedTuple):
    """What a candidate key stands for: expressions in order, tolerations, and amounts by capacity name.

    `implied` is the number of what is tolerated besides (`IMPLIED`). A tuple, as it is looked up for each request that
    is planned, and tuples are hashed fast.
    """

    class_selectors: tuple[str, ...]
    request_selectors: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]
    amounts: tuple[AskedAmount, ...]
    implied: int = 0

    def all_tolerations(self) -> tuple[DeviceToleration, ...]:
        """Return all that is tolerated, said or not."""
        return self.tolerations + IMPLIED[self.implied]


@fast_dataclass
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


@dataclass(slots=True, eq=False)
class CandidateKey:
    """A key and its answers, by serial number of the view. The key's own serial number is never reused.

    `known` holds what is known about its amounts. `selection` joins all of its expressions, once they have been asked.
    `refused` are drivers whose devices they are known to refuse, if the devices can be read. `tolerated` holds what is
    known about effective taints.
    """

    serial: int
    content: KeyContent
    expressions: tuple[str, ...]
    requests: Mapping[str, Quantity]
    known: RequestedAmounts
    answers: dict[int, Answers] = field(default_factory=dict)
    selection: Selection | None = None
    refused: AbstractSet[str] = frozenset()
    tolerated: dict[EffectiveTaints, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Candidates:
    """All candidate keys in use, and what they share: selectors, derived attributes, amounts, and room for answers.

    `groups` tells which devices agree in attributes, whoever asks for them.
    """

    features: Features
    selectors: SelectorCache
    maximum: int = 2048
    derived: DerivedAttributes = field(init=False)
    groups: Grouping = field(init=False)
    _serials: Iterator[int] = field(default_factory=count)
    _keys: dict[KeyContent, CandidateKey] = field(default_factory=dict)
    _amounts: ConsumptionCache = field(init=False)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_ANSWERS))

    def __post_init__(self) -> None:
        self.derived = DerivedAttributes(self.selectors)
        self.groups = Grouping(lists=self.features.list_type_attributes)
        self._amounts = ConsumptionCache(self.features.fractional_capacity_range)

    def key(self, content: KeyContent, requests: Mapping[str, Quantity]) -> CandidateKey:
        """Return the key with this content; `requests` are its amounts as quantities."""
        found = self._keys.get(content)
        if found is None:
            if len(self._keys) >= self.maximum:
                for old in drop_older_half(self._keys):
                    self._room.release(old.answers)
            expressions = content.class_selectors + content.request_selectors
            found = self._keys[content] = CandidateKey(
                next(self._serials),
                content,
                expressions,
                requests,
                self._amounts.known(content.amounts, requests),
            )
        return found

    def forget(self, views: Sequence[PoolView]) -> None:
        """Drop the answers about views that are gone."""
        if views:
            self._room.forget([view.serial for view in views])

    def ask(self, key: CandidateKey, view: PoolView, budget: Budget) -> Answers:
        """Return the answers of a key about all devices of a view. Raises AbortedError if the time is used up."""
        found = key.answers.get(view.serial)
        if found is None or found.unknown:
            found = self.find(key, view, budget, -1)
        return found

    def find(self, key: CandidateKey, view: PoolView, budget: Budget, needed: int) -> Answers:
        """Find the answers of a key about a view, where they are not known: at least those about the needed devices.

        Most devices are in use and need no answer; if neither the selector nor the values are shared, each answer is an
        evaluation. Raises AbortedError if the time is used up.
        """
        selectable = mask = errors = unknown = skipped = 0
        selection = self.selection(key)
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
            fit, impossible = self._fit(key, slice_, visible)
            errors |= impossible << offset
            if slice_.tainted:
                untold = fit & slice_.tainted & ~(needed >> offset)
                unknown |= untold << offset
                fit ^= untold
                mask |= self.tolerated(key, slice_, fit) << offset
            else:
                mask |= fit << offset
            selectable |= fit << offset
        before = key.answers.get(view.serial)
        if before is None:
            self._room.reserve(key.answers)
        elif kept := skipped & ~before.unknown:
            selectable |= before.selectable & kept
            mask |= before.mask & kept
            errors |= before.errors & kept
            skipped ^= kept
        unknown |= skipped
        found = key.answers[view.serial] = (
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

    def selection(self, key: CandidateKey) -> Selection:
        """Return the selectors of a key together."""
        found = key.selection
        if found is None:
            content = key.content
            found = key.selection = self.selectors.together(
                content.class_selectors, content.request_selectors
            )
            key.refused = (found.before or found).refused
        return found

    def amounts(self, key: CandidateKey, slice_: Slice) -> SliceConsumption:
        """Return what a request consumes of the devices of a slice."""
        return key.known.by_shape.get(slice_.capacity_shape) or self._amounts.find(key.known, slice_)

    def has_rules(self, slice_: Slice) -> bool:
        """True if no device of a slice is fit for an ordinary amount that is unfit for a smaller one."""
        return self._amounts.has_rules(slice_)

    def select(self, key: CandidateKey, slice_: Slice, budget: Budget) -> int:
        """Return the devices of a slice that all selectors select."""
        devices = self._without_binding(slice_)
        selection = self.selection(key)
        return devices & selection.answer(slice_, devices, budget)[1]

    def _without_binding(self, slice_: Slice) -> int:
        """Return the devices of a slice but those with binding conditions that are switched off."""
        if self.features.device_binding_and_status:
            return slice_.every
        return slice_.every & ~slice_.binding

    def _fit(self, key: CandidateKey, slice_: Slice, devices: int) -> tuple[int, int]:
        if not self.features.consumable_capacity or (slice_.given_whole and not key.requests):
            return devices, 0
        if not slice_.capacity:
            return 0, 0
        amounts = self.amounts(key, slice_)
        return devices & amounts.fit, devices & amounts.impossible

    def tolerated(self, key: CandidateKey, slice_: Slice, devices: int) -> int:
        """Return those of the devices whose taints the request tolerates."""
        if not slice_.tainted_groups or not self.features.device_taints:
            return devices
        known = key.tolerated
        for taints, tainted in slice_.tainted_groups:
            if not tainted & devices:
                continue
            found = known.get(taints)
            if found is None:
                if len(known) >= _MAX_EFFECTIVE_TAINTS:
                    known.clear()
                found = known[taints] = untolerated(taints, key.content.all_tolerations()) is None
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
