"""The state of a search in one node: what this attempt has taken, and how to give it back.

One function takes a device, and another one, its exact reverse, gives it back. If a device is refused halfway, the same
code gives back what was taken so far. Nothing else is changed: ledger and views are only read.
Source: docs/dra-semantics 3.5 and 3.6.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.constraints import Constraint, fresh
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.capacity import Consumption, has_room
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import Features, NodeView, PoolView, Slice
from dra_operator.inventory.nodes import NodeRecord
from dra_operator.inventory.pool import CounterLayout, Draw
from dra_operator.ledger import Availability
from dra_operator.ledger.availability import SetOccupancy, join

DerivedValues = Callable[[str, str, str, Slice, int], AttributeValue]
"""Computes a derived attribute: (request, attribute name, expression, slice, index). Raises FatalError."""
_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(slots=True)
class Pick:
    """A device taken for a claim, with what is needed to give it back.

    `pool` is the position of its pool view in the node view, `position` its own there; `consumed` is None unless the
    pick is a share.
    """

    claim: int
    alternative: Alternative
    pool: int
    position: int
    slice_: Slice
    index: int
    consumed: Consumption | None = None
    draw: Draw | None = None
    placed: tuple[SetOccupancy | None, ...] = ()
    joined: int = 0
    marked: bool = False


@dataclass(slots=True)
class _Counters:
    """What this attempt leaves of one pool's counters, and what stands in its sets."""

    left: list[int]
    overdrawn: int
    placed: list[SetOccupancy | None]


@dataclass(slots=True)
class NodeState:
    """One attempt in one node for some claims.

    `picked` holds, by pool, the devices taken as a whole in this attempt; `picked_by` the same by claim.
    """

    plans: Sequence[ClaimPlan]
    node: NodeRecord
    view: NodeView
    availability: Availability
    candidates: Candidates
    derived: DerivedValues
    picks: list[list[Pick]] = field(init=False)
    picked: list[int] = field(init=False)
    picked_by: list[list[int]] = field(init=False)
    constraints: list[list[Constraint]] = field(init=False)
    _shares: dict[tuple[int, int], list[Pick]] = field(default_factory=dict)
    _amounts: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    _counters: dict[CounterLayout, _Counters] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pools = len(self.view.pools)
        lists = self.features.list_type_attributes
        self.picks = [[] for _ in self.plans]
        self.picked = [0] * pools
        self.picked_by = [[0] * pools for _ in self.plans]
        self.constraints = [[fresh(item, lists=lists) for item in plan.constraints] for plan in self.plans]

    @property
    def features(self) -> Features:
        """The features that are on."""
        return self.candidates.features

    def available(self, claim: int, alternative: Alternative, pool: int) -> int:
        """Return the devices of a pool that a request may take as far as use is concerned.

        Admin access may take what others use, and what other claims of this attempt have taken.
        """
        if alternative.admin_access:
            return ~self.picked_by[claim][pool]
        return self.availability.states[self.view.pools[pool].serial].free & ~self.picked[pool]

    def has_room(self, pool: int, position: int, slice_: Slice, index: int, consumed: Consumption) -> bool:
        """True if committed and in-flight shares leave the device enough."""
        view = self.view.pools[pool]
        used = self.availability.ledger.consumed(view.key, slice_.names[index])
        in_flight = self._amounts.get((pool, position), _NO_AMOUNTS)
        return (not used and not in_flight) or has_room(consumed, used, in_flight)

    def pick(
        self, claim: int, alternative: Alternative, pool: int, position: int, *, strict: bool = False
    ) -> Pick | None:
        """Take a device, or return None and leave everything as it was.

        With `strict`, as for a request that needs this very device, a constraint that refuses it is an error.
        Raises FatalError, with everything as it was.
        """
        slice_, index = self.view.pools[pool].locate(position)
        pick = Pick(claim, alternative, pool, position, slice_, index)
        try:
            if self._pick(pick, strict=strict):
                return pick
        except FatalError as error:
            error.claim = self.plans[claim].key
            self._undo(pick)
            raise
        self._undo(pick)
        return None

    def give_back(self, pick: Pick) -> None:
        """Undo the last pick of its claim."""
        self.picks[pick.claim].pop()
        self._undo(pick)

    def is_prepared(self, slice_: Slice) -> bool:
        """True if the node can do without what a slice tells it to skip."""
        return not slice_.skip_node_operations or (
            self.features.optional_node_operations and self.node.skips_operations
        )

    def is_shareable(self, slice_: Slice, index: int) -> bool:
        """True if shares of the device are allocated rather than the device."""
        return self.features.consumable_capacity and bool(slice_.shareable >> index & 1)

    def _pick(self, pick: Pick, *, strict: bool) -> bool:
        slice_, index, pool = pick.slice_, pick.index, pick.pool
        bit = 1 << pick.position
        shareable = self.is_shareable(slice_, index)
        consumed = self.candidates.consumed(pick.alternative.key, slice_, index)
        assert isinstance(consumed, Consumption)
        # Where another device would do, one that is full is passed over before anything else is asked of it; for a
        # request that needs it, a constraint that refuses it comes first, since that is an error.
        if not strict and not self.has_room(pool, pick.position, slice_, index, consumed):
            return False
        # Only a request that needs this device comes here with one that is taken.
        if not self.available(pick.claim, pick.alternative, pool) & bit or not self.is_prepared(slice_):
            return False
        if slice_.counted >> index & 1:
            if not self.features.partitionable_devices:
                return False
            if not (shareable and self._has_share(pick)) and not self._charge(pick):
                return False
        if not self.candidates.tolerated(pick.alternative.key, slice_, 1 << index):
            return False
        if not self._join_constraints(pick, strict=strict):
            return False
        if not shareable:
            pick.marked = True
            self.picked[pool] |= bit
            self.picked_by[pick.claim][pool] |= bit
        if strict and not self.has_room(pool, pick.position, slice_, index, consumed):
            return False
        if shareable:
            self._consume(pick, consumed)
        self.picks[pick.claim].append(pick)
        return True

    def _has_share(self, pick: Pick) -> bool:
        if self._shares.get((pick.pool, pick.position)):
            return True
        view = self.view.pools[pick.pool]
        return pick.slice_.names[pick.index] in self.availability.ledger.shared(view.key)

    def _charge(self, pick: Pick) -> bool:
        """Take the device's counters, and a place in its counter sets; False if there is none."""
        view = self.view.pools[pick.pool]
        layout = view.counters
        assert layout is not None
        counters = self._counters_of(layout, view)
        draw = layout.draw(pick.slice_, pick.index)
        after: dict[int, SetOccupancy] = {}
        for number, groups in draw.groups:
            # A set named twice, which no API server admits, has to admit the device twice.
            placed = after.get(number, counters.placed[number])
            if placed is not None and not placed.admits(groups):
                return False
            after[number] = join(placed, groups)
        left = counters.left
        if any(left[position] < amount for position, amount in draw.amounts):
            return False
        # One negative counter, whoever made it so, closes the pool to all that use counters.
        if counters.overdrawn and not _settles(left, draw):
            return False
        pick.draw = draw
        pick.placed = tuple(counters.placed[number] for number, _ in draw.groups)
        for position, amount in draw.amounts:
            left[position] -= amount
        for number, joined in after.items():
            counters.placed[number] = joined
        return True

    def _counters_of(self, layout: CounterLayout, view: PoolView) -> _Counters:
        found = self._counters.get(layout)
        if found is None:
            committed = self.availability.counters(layout)
            concerned = frozenset(item.serial for item in view.slices if layout.has_groups)
            found = _Counters(list(committed.left), committed.overdrawn, list(committed.placed(concerned)))
            self._counters[layout] = found
        return found

    def _join_constraints(self, pick: Pick, *, strict: bool) -> bool:
        alternative = pick.alternative
        plan = self.plans[pick.claim]
        for number in alternative.constraints:
            value = self.value(alternative, plan.constraints[number].attribute, pick.slice_, pick.index)
            if value is None or not self.constraints[pick.claim][number].add(value):
                if strict:
                    device = pick.slice_.path(pick.index)
                    why = ", which lacks the attribute" if value is None else " beside those before it"
                    raise FatalError(
                        f"request {alternative.name}: asks for all devices, but constraint #{number} "
                        f"({plan.constraints[number]}) does not admit device {device}{why}",
                        Reason.CONSTRAINT_CONFLICT,
                        request=alternative.name,
                    )
                return False
            pick.joined += 1
        return True

    def value(
        self, alternative: Alternative, attribute: str, slice_: Slice, index: int
    ) -> AttributeValue | None:
        """Return an attribute of a device as a request sees it, or None if it has none. Raises FatalError."""
        if (expression := alternative.derived.get(attribute)) is not None:
            return self.derived(alternative.name, attribute, expression, slice_, index)
        return slice_.attribute(index, attribute)

    def _consume(self, pick: Pick, consumed: Consumption) -> None:
        pick.consumed = consumed
        key = (pick.pool, pick.position)
        self._shares.setdefault(key, []).append(pick)
        amounts = self._amounts.setdefault(key, {})
        for name, amount, _ in consumed.amounts:
            amounts[name] = amounts.get(name, 0) + amount

    def _undo(self, pick: Pick) -> None:
        """Give back, in reverse, what a pick has taken, all or part of it."""
        if pick.consumed is not None:
            key = (pick.pool, pick.position)
            self._shares[key].pop()
            in_flight = self._amounts[key]
            for name, amount, _ in pick.consumed.amounts:
                in_flight[name] -= amount
            pick.consumed = None
        if pick.marked:
            self._unmark(pick)
        for number in reversed(pick.alternative.constraints[: pick.joined]):
            self.constraints[pick.claim][number].undo()
        pick.joined = 0
        if pick.draw is not None:
            layout = self.view.pools[pick.pool].counters
            assert layout is not None
            counters = self._counters[layout]
            for position, amount in pick.draw.amounts:
                counters.left[position] += amount
            for (number, _), placed in zip(pick.draw.groups, pick.placed, strict=True):
                counters.placed[number] = placed
            pick.draw = None

    def _unmark(self, pick: Pick) -> None:
        bit = 1 << pick.position
        self.picked_by[pick.claim][pick.pool] &= ~bit
        # Admin access may have taken what another claim of this attempt has: then it stays taken.
        if not any(taken[pick.pool] & bit for taken in self.picked_by):
            self.picked[pick.pool] &= ~bit
        pick.marked = False


def _settles(left: Sequence[int], draw: Draw) -> bool:
    """True if taking a draw leaves no counter negative; only one that takes less than nothing can do that."""
    after = list(left)
    for position, amount in draw.amounts:
        after[position] -= amount
    return min(after) >= 0
