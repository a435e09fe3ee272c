"""The tally: how many devices there are for a request, and what keeps each of them from it.

A device counts at the first obstacle it meets, in the order in which the allocator meets them, so that the numbers add
up: published, in the class, selected, and then down to those that are left. Devices are those of the newest generation
of each pool, whichever node they are on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dra_operator.allocator import comparison
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import Candidates, untolerated
from dra_operator.allocator.capacity import CapacityError, Consumed, has_room, written
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.types import DeviceTaint
from dra_operator.inventory import Inventory, PoolView, Slice, Verdict, bits
from dra_operator.inventory.pool import Judgement, Pool
from dra_operator.ledger import Availability

_MAX_DETAILS = 3
_MAX_TOLD = 65_536


@dataclass(slots=True)
class Obstacle:
    """What keeps devices from a request: a reason, how many it keeps, and details with their own counts.

    `failure` is a place where a selector fails: the selector's number, and a device as a slice and an index there.
    """

    reason: Reason
    count: int = 0
    details: Counter[str] = field(default_factory=Counter)
    failure: tuple[int, Slice, int] | None = None

    def detail(self) -> str:
        """Return the most frequent details, or nothing."""
        if not self.details:
            return ""
        ranked = sorted(self.details.items(), key=lambda item: (-item[1], item[0]))
        texts = [f"{text} on {count}" for text, count in ranked[:_MAX_DETAILS]]
        if len(ranked) > _MAX_DETAILS:
            texts.append(f"{len(ranked) - _MAX_DETAILS} more")
        return f" ({', '.join(texts)})"


@dataclass(slots=True)
class Tally:
    """The devices of one alternative: published, in its class, selected, kept away by obstacles in order, and left.

    `selectors` holds, for each request selector by number, the devices that it was the first to refuse. `left` counts
    the devices that are left by node, those usable on several nodes by each. `claims` are those that hold devices in
    use.
    """

    published: int = 0
    in_class: int = 0
    class_details: Obstacle = field(default_factory=lambda: Obstacle(Reason.CLASS_MATCHES_NO_DEVICE))
    selectors: list[Obstacle] = field(default_factory=list)
    obstacles: dict[Reason, Obstacle] = field(default_factory=dict)
    left: int = 0
    most_on_a_node: int = 0
    claims: set[tuple[str, str]] = field(default_factory=set)

    @property
    def selected(self) -> int:
        """The devices that all selectors select."""
        return self.in_class - sum(item.count for item in self.selectors)


@dataclass(frozen=True, slots=True)
class _Place:
    """A slice and where it can be reached: the verdict on its pool, and its offset in each view of a usable node."""

    pool: Pool
    judgement: Judgement
    content: Slice
    views: tuple[tuple[PoolView, int], ...]


Refusal = tuple[Reason, int, str]
"""A reason, the devices it refuses, and a detail."""


@dataclass(frozen=True, slots=True)
class TallyMaker:
    """Counts for an alternative.

    What it asks of selectors is kept with their other answers; `told` keeps what equal slices have been told to lack.
    """

    inventory: Inventory
    availability: Availability
    candidates: Candidates
    told: dict[object, Counter[str]] = field(default_factory=dict)

    def make(self, alternative: Alternative, budget: Budget) -> Tally:
        """Return the tally of an alternative. Raises AbortedError if the time is used up."""
        if len(self.told) > _MAX_TOLD:
            self.told.clear()
        tally = Tally()
        tally.selectors = [
            Obstacle(Reason.SELECTOR_MATCHES_NO_DEVICE) for _ in alternative.key.content.request_selectors
        ]
        by_view: Counter[int] = Counter()
        for key in sorted(self.inventory.pools):
            for place in self._places(self.inventory.pools[key]):
                selected = self._select(tally, alternative, place.content, budget)
                if selected:
                    left = self._obstruct(tally, alternative, place, selected)
                    tally.left += left.bit_count()
                    for view, offset in place.views if left else ():
                        by_view[view.serial] += (left & view.visible >> offset).bit_count()
        usable = self.availability.views.usable
        tally.most_on_a_node = max(
            (
                sum(by_view[pool.serial] for pool in view.pools)
                for view in self.availability.views.node_views()
                if view.nodes & usable
            ),
            default=0,
        )
        return tally

    def _places(self, pool: Pool) -> Iterator[_Place]:
        views = self.availability.views
        judgement = pool.judge_all(self.candidates.features)
        reached: dict[int, list[tuple[PoolView, int]]] = {}
        for view in views.of_pool.get(pool.key, {}).values():
            if view.nodes & views.usable:
                for content, offset in zip(view.slices, view.offsets, strict=True):
                    reached.setdefault(content.serial, []).append((view, offset))
        for content in pool.newest():
            yield _Place(pool, judgement, content, tuple(reached.get(content.serial, ())))

    # --- selectors

    def _select(self, tally: Tally, alternative: Alternative, content: Slice, budget: Budget) -> int:
        selected = bits.first(len(content.names))
        tally.published += selected.bit_count()
        for number, expression in enumerate(alternative.key.content.class_selectors):
            selected = self._ask(tally.class_details, number, expression, content, selected, budget=budget)
        tally.in_class += selected.bit_count()
        for number, expression in enumerate(alternative.key.content.request_selectors):
            obstacle = tally.selectors[number]
            selected = self._ask(obstacle, number, expression, content, selected, budget=budget)
        return selected

    def _ask(
        self,
        obstacle: Obstacle,
        number: int,
        expression: str,
        content: Slice,
        wanted: int,
        *,
        budget: Budget,
    ) -> int:
        if not wanted:
            return 0
        answers = self.candidates.selectors.get(expression)
        selected, failed = answers.ask(content, wanted, budget)
        if refused := wanted & ~selected:
            obstacle.count += refused.bit_count()
            if failed:
                obstacle.details.update(answers.errors(content, failed))
                obstacle.failure = obstacle.failure or (number, content, bits.lowest(failed))
            self._compare(obstacle, expression, content, refused & ~failed, budget)
        return selected

    def _compare(
        self, obstacle: Obstacle, expression: str, content: Slice, refused: int, budget: Budget
    ) -> None:
        """Add what the first false part of an expression compared, for the devices it refused."""
        parts = comparison.conjuncts(expression)
        for part in parts:
            if not refused:
                return
            passed = 0
            if len(parts) > 1:
                passed, _ = self.candidates.selectors.get(part).ask(content, refused, budget)
            if (compared := comparison.read(part)) is not None and refused & ~passed:
                obstacle.details.update(self._told(compared, content, refused & ~passed))
            refused = passed

    def _told(self, compared: comparison.Comparison, content: Slice, devices: int) -> Counter[str]:
        serials = tuple(column and column.serial for column in compared.columns(content))
        key = (compared, content.driver, serials, devices)
        if (found := self.told.get(key)) is None:
            found = self.told[key] = Counter(compared.tell(content, index) for index in bits.each(devices))
        return found

    # --- everything else

    def _obstruct(self, tally: Tally, alternative: Alternative, place: _Place, devices: int) -> int:
        """Count what keeps the selected devices of a slice away; return those that are left."""
        steps = (self._pool, self._amounts, self._taints, self._nodes, self._operations, self._uses)
        for step in (*steps, self._counters, self._shares):
            for reason, refused, detail in step(alternative, place, devices):
                obstacle = tally.obstacles.setdefault(reason, Obstacle(reason))
                obstacle.count += (refused & devices).bit_count()
                if detail:
                    obstacle.details[detail] += (refused & devices).bit_count()
                if reason in _USES:
                    self._add_owners(tally, place, refused & devices)
                devices &= ~refused
            if not devices:
                break
        return devices

    def _pool(self, _: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        if place.judgement.verdict is not Verdict.COMPLETE:
            incomplete = place.judgement.verdict is Verdict.INCOMPLETE
            reason = Reason.POOL_INCOMPLETE if incomplete else Reason.POOL_INVALID
            yield reason, devices, f"{'/'.join(place.pool.key)}: {place.judgement.reason}"

    def _amounts(self, alternative: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        if not alternative.key.requests and not place.content.capacity:
            return
        for index in bits.each(devices):
            consumed = self.candidates.consumed(alternative.key, place.content, index)
            if isinstance(consumed, CapacityError):
                yield Reason.CAPACITY_REQUEST_INVALID, 1 << index, str(consumed)
            elif consumed is None:
                detail = _too_small(alternative, place.content, index)
                yield Reason.CAPACITY_TOO_SMALL, 1 << index, detail

    def _taints(self, alternative: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        tolerated = self.candidates.tolerated(alternative.key, place.content, devices)
        for index in bits.each(devices & ~tolerated):
            taint = untolerated(place.content.taints[index], alternative.tolerations)
            assert taint is not None
            yield Reason.DEVICE_TAINTED, 1 << index, _taint_text(taint)

    def _nodes(self, _: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        reachable = 0
        for view, offset in place.views:
            reachable |= view.visible >> offset
        for index in bits.each(devices & ~reachable):
            yield Reason.NODE_UNUSABLE, 1 << index, self._why_not_reachable(place.content, index)

    def _why_not_reachable(self, content: Slice, index: int) -> str:
        name = content.effective_nodes(index).node_name
        if name is None:
            return "no usable node matches their node selector"
        node = self.inventory.nodes.get(name)
        return f"node {name} {'does not exist' if node is None else node.unusable or 'cannot be used'}"

    def _operations(self, _: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        if not place.content.skip_node_operations:
            return
        views = self.availability.views
        nodes = 0
        for view, _offset in place.views:
            nodes |= view.nodes
        supported = self.candidates.features.optional_node_operations and any(
            self.inventory.nodes[views.order[position]].skips_operations
            for position in bits.each(nodes & views.usable)
        )
        if not supported:
            yield Reason.NODE_OPERATIONS_UNSUPPORTED, devices, "their nodes cannot skip node operations"

    def _uses(self, alternative: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        ledger, key = self.availability.ledger, place.pool.key
        if alternative.admin_access or not (used := ledger.used(key)):
            return
        names = place.content.names
        taken = bits.of_positions(
            index
            for index in bits.each(devices)
            if names[index] in used and ledger.is_exclusive(key, names[index])
        )
        if taken:
            yield Reason.DEVICE_IN_USE, taken, ""

    def _counters(self, _: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        layout = place.judgement.counters
        state = None if layout is None else self.availability.find_counters(layout)
        if layout is None or state is None:
            return
        content = place.content
        for index in bits.each(devices & content.counted):
            device = content.names[index]
            if content.shareable >> index & 1 and self.availability.ledger.has_shares(place.pool.key, device):
                continue
            draw = layout.draw(content, index)
            placed = state.placed()
            if any((there := placed[number]) and not there.admits(groups) for number, groups in draw.groups):
                yield Reason.GROUP_INCOMPATIBLE, 1 << index, ""
                continue
            short = next((at for at, amount in draw.amounts if state.left[at] < amount), None)
            if short is not None:
                yield Reason.COUNTERS_EXHAUSTED, 1 << index, "/".join(layout.names[short])
            elif state.overdrawn:
                yield Reason.COUNTERS_EXHAUSTED, 1 << index, "a counter of the pool is overdrawn"

    def _shares(self, alternative: Alternative, place: _Place, devices: int) -> Iterator[Refusal]:
        ledger, key, content = self.availability.ledger, place.pool.key, place.content
        if not (used := ledger.used(key)):
            return
        for index in bits.each(devices):
            name = content.names[index]
            amounts = ledger.consumed(key, name) if name in used else {}
            consumed = self.candidates.consumed(alternative.key, content, index)
            if amounts and isinstance(consumed, Consumed) and not has_room(consumed, amounts, {}):
                yield Reason.CAPACITY_EXHAUSTED, 1 << index, _exhausted(consumed, amounts)

    def _add_owners(self, tally: Tally, place: _Place, devices: int) -> None:
        for index in bits.each(devices):
            owners = self.availability.ledger.owners(*place.pool.key, place.content.names[index])
            tally.claims.update(owners)


_USES = frozenset((Reason.DEVICE_IN_USE, Reason.CAPACITY_EXHAUSTED))


def _too_small(alternative: Alternative, content: Slice, index: int) -> str:
    for name, request in sorted(alternative.key.requests.items()):
        column = content.capacity.get(name)
        value = None if column is None else column.values[index]
        if value is None:
            return f"no capacity {name}"
        if value.value < request:
            return f"{name} {value.value.text} < {request.text}"
    return "the request policy of a capacity has no room for the amount"


def _exhausted(consumed: Consumed, used: Mapping[str, int]) -> str:
    for name, amount, value in consumed.amounts:
        left = value - used.get(name, 0)
        if left < amount.nano:
            return f"{name} {written(left, amount)} left < {amount.text}"
    return ""


def _taint_text(taint: DeviceTaint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
