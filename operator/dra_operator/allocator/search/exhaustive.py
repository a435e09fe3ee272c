"""The exhaustive search: upstream's order, one device at a time, with all its errors. The oracle of all others.

Depth first over claims, requests, alternatives and devices; the first complete solution wins. An explicit stack of
generators, so Python's recursion limit does not bound the number of devices: each is one level of upstream's recursion,
and goes on each time the level below has failed. Devices are taken and given back by a function and its exact reverse.
Source: docs/dra-semantics 3.3 to 3.6.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import Constraint, ConstraintPlan, cannot_be_joined, fresh
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.candidates import Answers, Candidates
from dra_operator.allocator.matching.capacity import CapacityError, Consumption, has_room
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan, too_many
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.problem import Solution
from dra_operator.api.attributes import AttributeValue, typed_text
from dra_operator.inventory import Features, NodeView, PoolView, Slice, Verdict, bits
from dra_operator.inventory.nodes import NodeRecord
from dra_operator.inventory.pool import CounterLayout, Draw, surplus_advice
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
        self.picks = [[] for _ in self.plans]
        self.picked = [0] * pools
        self.picked_by = [[0] * pools for _ in self.plans]
        self.constraints = [[fresh(item, self.features) for item in plan.constraints] for plan in self.plans]

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

    def can_skip_operations(self, slice_: Slice) -> bool:
        """True if a slice skips no node operations, or the node can do without."""
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
        is_available = self.available(pick.claim, pick.alternative, pool) & bit
        if not is_available or not self.can_skip_operations(slice_):
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
            attribute = plan.constraints[number].attribute
            value = self.value(alternative, attribute, pick.slice_, pick.index)
            if value is not None and cannot_be_joined(
                value, self.features, derived=attribute in alternative.derived
            ):
                raise _not_comparable(value, pick, number, plan.constraints[number])
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


class DeadEnd(Enum):
    """Why a level failed: no device, or more devices than a claim can have, which skips to the next alternative."""

    NO = "no"
    TOO_MANY = "too many"


@dataclass(frozen=True, slots=True)
class Descend:
    """The next level: a request of a claim, or with `pick` the next device of an alternative."""

    claim: int
    request: int
    alternative: int = -1
    count: int = 0
    start: tuple[int, int] = (0, 0)


Step: TypeAlias = Descend | DeadEnd
_Frame: TypeAlias = Generator[Step, DeadEnd, None]
"""A level of the search: yields the next step, and is sent how that ended; its own dead end is the last it yields."""


@dataclass(slots=True)
class ExpandedAlternative:
    """An alternative on one node: how many devices, and for All which ones, as (pool, position)."""

    alternative: Alternative
    answers: list[Answers | None]
    count: int
    every: tuple[tuple[int, int], ...] | None


@dataclass(slots=True)
class ExhaustiveSearch:
    """One search in one node. After success the picks are those of `state`."""

    state: NodeState
    budget: Budget
    chosen: list[dict[int, int]] = field(init=False)
    _choices: list[list[list[ExpandedAlternative]]] = field(init=False)

    def run(self) -> bool:
        """Search; return whether all claims fit. Raises FatalError or AbortedError."""
        if (broken := self.state.view.error) is not None:
            raise _selector_error(broken.slice, broken.why)
        self.chosen = [{} for _ in self.state.plans]
        self._choices = []
        for number in range(len(self.state.plans)):
            expanded = self._expand_claim(number)
            if expanded is None:
                return False
            self._choices.append(expanded)
        return self._solve()

    def found(self) -> Solution:
        """Return what a search that succeeded has found."""
        pools = self.state.view.pools
        return [
            [
                (
                    alternative,
                    [(pools[pick.pool], pick.position) for pick in taken if pick.alternative is alternative],
                )
                for alternative in self.chosen_alternatives(claim)
            ]
            for claim, taken in enumerate(self.state.picks)
        ]

    def chosen_alternatives(self, claim: int) -> list[Alternative]:
        """Return the alternative that was chosen for each request of a claim."""
        requests = self.state.plans[claim].requests
        return [request.alternatives[self.chosen[claim][number]] for number, request in enumerate(requests)]

    # --- what each request can choose from

    def _expand_claim(self, number: int) -> list[list[ExpandedAlternative]] | None:
        """Return what the requests of a claim can choose from, or None if it cannot be served on the node."""
        plan = self.state.plans[number]
        left = MAX_DEVICES
        choices: list[list[ExpandedAlternative]] = []
        try:
            for request in plan.requests:
                expanded: list[ExpandedAlternative] = []
                for item in request.alternatives:
                    choice = self._expand(number, item)
                    if choice is None:
                        return None
                    expanded.append(choice)
                choices.append(expanded)
                least = min(choice.count for choice in expanded)
                if least > left:
                    raise too_many(request.name, least, MAX_DEVICES - left)
                left -= least
        except FatalError as error:
            error.claim = plan.key
            raise
        return choices

    def _expand(self, claim: int, alternative: Alternative) -> ExpandedAlternative | None:
        pools = self.state.view.pools
        if alternative.count is not None:
            return ExpandedAlternative(alternative, [None] * len(pools), alternative.count, None)
        choice = ExpandedAlternative(alternative, [None] * len(pools), 0, None)
        every: list[tuple[int, int]] = []
        for pool, view in enumerate(pools):
            if view.verdict is not Verdict.COMPLETE:
                if self.state.features.rules.all_by_node:
                    return None
                raise self._incomplete(alternative, view)
            answers = self.answers_of(choice, pool)
            if answers.errors:
                raise self.error_at(claim, alternative, pool, bits.lowest(answers.errors))
            every += ((pool, position) for position in bits.each(answers.selectable))
        choice.count = len(every)
        choice.every = tuple(every)
        return choice

    def _incomplete(self, alternative: Alternative, view: PoolView) -> FatalError:
        path = "/".join(view.key)
        incomplete = view.verdict is Verdict.INCOMPLETE
        wrong = f"is currently {view.verdict.value}: {view.reason}"
        if view.has_surplus:
            published = self.state.availability.views.inventory.pools[view.key]
            wrong = f"has {view.reason}; {surplus_advice(published)}"
        return FatalError(
            f"request {alternative.name}: asks for all devices, but resource pool {path} {wrong}",
            Reason.POOL_INCOMPLETE if incomplete else Reason.POOL_INVALID,
            request=alternative.name,
            subject=("ResourcePool", path),
        )

    def answers_of(self, choice: ExpandedAlternative, pool: int) -> Answers:
        """Return which devices of a pool could serve an alternative."""
        found = choice.answers[pool]
        if found is None:
            view = self.state.view.pools[pool]
            found = choice.answers[pool] = self.state.candidates.ask(
                choice.alternative.key, view, self.budget
            )
        return found

    def error_at(self, claim: int, alternative: Alternative, pool: int, position: int) -> FatalError:
        """Return the error of a device that an attempt has reached."""
        view = self.state.view.pools[pool]
        slice_, index = view.locate(position)
        plan = self.state.plans[claim]
        candidates = self.state.candidates
        error = candidates.selector_error(
            alternative.key,
            slice_,
            index,
            claim=plan.title,
            request=alternative.name,
            class_name=alternative.device_class.metadata.name,
        )
        if error is None and (text := view.selector_errors.get(position)) is not None:
            error = _selector_error(slice_.name, text, alternative.name)
        if error is None:
            problem = candidates.consumed(alternative.key, slice_, index)
            assert isinstance(problem, CapacityError)
            error = FatalError(
                f"request {alternative.name}: checking capacity of device {slice_.path(index)}: {problem}",
                Reason.CAPACITY_REQUEST_INVALID,
                request=alternative.name,
            )
        error.claim = plan.key
        return error

    # --- the search

    def _solve(self) -> bool:
        frames: list[_Frame] = []
        step: Step = Descend(0, 0)
        while True:
            if isinstance(step, Descend):
                frame = self._open(step)
                if frame is None:
                    return True
                frames.append(frame)
                step = next(frame)
            else:
                frames.pop()
                if not frames:
                    return False
                step = frames[-1].send(step)

    def _open(self, step: Descend) -> _Frame | None:
        """Return the frame of a level, or None if there is nothing left to do."""
        plans = self.state.plans
        if step.claim == len(plans):
            return None
        if step.request == len(plans[step.claim].requests):
            return self._next_claim(step.claim)
        if step.alternative < 0:
            return self._each_alternative(step.claim, step.request)
        choice = self._choices[step.claim][step.request][step.alternative]
        return (self._each_device if choice.every is None else self._all_devices)(step, choice)

    @staticmethod
    def _next_claim(claim: int) -> _Frame:
        """Go on with the next claim: too many devices in a later claim are a plain no for the earlier ones."""
        yield Descend(claim + 1, 0)
        yield DeadEnd.NO

    def _each_alternative(self, claim: int, number: int) -> _Frame:
        """Try the alternatives of a request, in order."""
        request = self.state.plans[claim].requests[number]
        all_too_many = True
        for place in range(len(request.alternatives)):
            self.chosen[claim][number] = place
            failure = yield Descend(claim, number, place)
            if not request.prioritized:
                yield failure
            all_too_many = all_too_many and failure is DeadEnd.TOO_MANY
        yield DeadEnd.TOO_MANY if all_too_many else DeadEnd.NO

    def _each_device(self, step: Descend, choice: ExpandedAlternative) -> _Frame:
        """Try as the k-th device of a request for a number of them each that fits, in order, behind the one before."""
        state, claim, alternative = self.state, step.claim, choice.alternative
        if step.count == choice.count:
            yield (yield Descend(claim, step.request + 1))
        if len(state.picks[claim]) + choice.count - step.count > MAX_DEVICES:
            yield DeadEnd.TOO_MANY
        if not self._has_enough(step, choice):
            yield DeadEnd.NO
        first, start = step.start
        for pool in range(first, len(state.view.pools)):
            answers = self.answers_of(choice, pool)
            wanted = (answers.mask | answers.errors) & state.available(claim, alternative, pool)
            if pool == first:
                wanted &= -(1 << start)
            while wanted:
                self.budget.step()
                position = bits.lowest(wanted)
                wanted &= wanted - 1
                if answers.errors >> position & 1:
                    raise self.error_at(claim, alternative, pool, position)
                if (pick := state.pick(claim, alternative, pool, position)) is not None:
                    behind = (pool, position + 1)
                    failure = yield Descend(claim, step.request, step.alternative, step.count + 1, behind)
                    state.give_back(pick)
                    if failure is DeadEnd.TOO_MANY:
                        yield failure
        yield DeadEnd.NO

    def _has_enough(self, step: Descend, choice: ExpandedAlternative) -> bool:
        """False if there are too few candidates left, and none that could end the attempt with an error.

        Upstream would try all combinations of those there are before it says no.
        """
        state = self.state
        if choice.alternative.derived or self._any_list_fails(choice.alternative):
            return True
        first, start = step.start
        missing = choice.count - step.count
        for pool in range(first, len(state.view.pools)):
            answers = self.answers_of(choice, pool)
            available = state.available(step.claim, choice.alternative, pool)
            if pool == first:
                available &= -(1 << start)
            errors = answers.errors
            if choice.alternative.constraints and state.features.rules.unknown_values_fail:
                errors |= state.view.pools[pool].unreadable
            if errors & available:
                return True
            missing -= (answers.mask & available).bit_count()
            if missing <= 0:
                return True
        return False

    def _any_list_fails(self, alternative: Alternative) -> bool:
        features = self.state.features
        is_error = features.rules.unknown_values_fail and not features.list_type_attributes
        return is_error and bool(alternative.constraints)

    def _all_devices(self, step: Descend, choice: ExpandedAlternative) -> _Frame:
        """Take the k-th device of a request for all devices: this one or none."""
        state, claim, every = self.state, step.claim, choice.every
        if not every:
            yield DeadEnd.NO
        assert every is not None
        if step.count == len(every):
            yield (yield Descend(claim, step.request + 1))
        if len(state.picks[claim]) + len(every) - step.count > MAX_DEVICES:
            yield DeadEnd.TOO_MANY
        self.budget.step()
        pool, position = every[step.count]
        pick = state.pick(claim, choice.alternative, pool, position, strict=True)
        if pick is None:
            yield DeadEnd.NO
        else:
            failure = yield Descend(claim, step.request, step.alternative, step.count + 1)
            state.give_back(pick)
            yield failure


def _not_comparable(value: AttributeValue, pick: Pick, number: int, constraint: ConstraintPlan) -> FatalError:
    """Return the error of a constraint that is asked about a value that it cannot compare."""
    return FatalError(
        f"request {pick.alternative.name}: constraint #{number} ({constraint}) cannot compare the value of device "
        f"{pick.slice_.path(pick.index)}: {typed_text(value)}",
        Reason.CONSTRAINT_CONFLICT,
        request=pick.alternative.name,
    )


def _selector_error(name: str, why: str, request: str | None = None) -> FatalError:
    """Return the error of a slice with a node selector that cannot be parsed."""
    return FatalError(
        f"ResourceSlice {name}: {why}",
        Reason.NODE_SELECTOR_INVALID,
        request=request,
        subject=("ResourceSlice", name),
    )
