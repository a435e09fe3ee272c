"""Stages: how many devices there are for a request, and what keeps each of the others from it.

A device counts at the first stage that it fails, in the order of the allocator, so that the numbers add up: published,
in the class, selected, and then down to those that are left. The slices of the newest generation count, and older ones
that a usable node still sees.
Source: docs/dra-semantics 2.3, 3 and 4.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Final, NamedTuple, TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates, untolerated
from dra_operator.allocator.matching.capacity import (
    CapacityError,
    Consumption,
    has_room,
    origin,
    refusal,
    requested,
)
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.node_selector import describe
from dra_operator.api.quantity import Quantity, family, format_amount, format_beside
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceCapacity
from dra_operator.explain.comparison import first_false
from dra_operator.explain.relax import Kept
from dra_operator.inventory import NodeView, PoolKey, PoolView, Slice, Verdict, Views, bits
from dra_operator.inventory.pool import CounterLayout, Draw, Judgement, Pool
from dra_operator.inventory.taints import FENCED, UNOWNED, taint_text
from dra_operator.inventory.views import is_known
from dra_operator.ledger import Availability, ClaimKey
from dra_operator.ledger.availability import CounterState

Side: TypeAlias = int
"""A view as nodes see it that can do without node operations, or as the others do: its serial number and a bit.

If nothing of it skips node operations, all nodes are among the former.
"""


def published_slices(views: Views) -> Iterator[Slice]:
    """Yield the slices that count, of each pool those of its newest generation first; views must be up to date."""
    for pool in views.inventory.pools.values():
        yield from pool.newest()
        yield from _old_slices(pool, views)


def _old_slices(pool: Pool, views: Views) -> dict[Slice, CounterLayout | None]:
    """Return the slices of older generations that usable nodes still see, by name, with the counters they draw on."""
    generations = pool.generations()
    if len(generations) == 1:
        return {}
    newest = max(generations)
    found = {
        slice_: view.counters
        for view in views.of_pool.get(pool.key, {}).values()
        if view.nodes & views.usable
        for slice_ in view.slices
        if slice_.generation != newest
    }
    return {slice_: found[slice_] for slice_ in sorted(found, key=lambda slice_: slice_.name)}


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A slice and what is known of its devices.

    `slots` holds, for each side of a view of usable nodes that has the slice, the side and the devices that are usable
    there; `reachable` are those that are visible at all, and `unreachable` says why each other device is not.
    `operations` are the devices for which a node supports what the slice skips. `taken` are the devices in use as a
    whole, `sharing` those with shares in use, and `shared` what these consume, by index. `counters` are those that its
    devices draw on; `old` says that it is of an older generation, which nodes still see.
    """

    slice_: Slice
    slots: tuple[tuple[Side, int], ...]
    reachable: int
    unreachable: Mapping[int, str]
    operations: int
    taken: int
    sharing: int
    shared: Mapping[int, Mapping[str, int]]
    counters: CounterLayout | None
    old: bool


@dataclass(slots=True, eq=False)
class PoolRecord:
    """A pool as it was when it last changed. `counts` is for whoever counts its devices, by what is asked for.

    `state` is all that it depends on, but for why devices are not reachable: that holds for a version of the inventory.
    """

    pool: Pool
    judgement: Judgement
    slices: tuple[SliceRecord, ...]
    state: object
    version: int
    counts: Kept = field(default_factory=lambda: Kept(_MOST_KEPT))


@dataclass(slots=True)
class PoolRecords:
    """The records of all pools; availability must be up to date whenever they are asked for."""

    availability: Availability
    _records: dict[PoolKey, PoolRecord] = field(default_factory=dict)
    _nodes: list[tuple[tuple[Side, ...], str]] = field(default_factory=list)
    _version: object = None
    _inventory_version: int = -1

    def pools(self) -> Sequence[PoolRecord]:
        """Return the records of the pools as they are now, by driver and name."""
        self._refresh()
        return list(self._records.values())

    def nodes(self) -> Sequence[tuple[tuple[Side, ...], str]]:
        """Return the sides of the pools that some usable nodes see, and the first of these nodes by name."""
        self._refresh()
        return self._nodes

    def _refresh(self) -> None:
        views, ledger = self.availability.views, self.availability.ledger
        inventory = views.inventory
        version = inventory.version, ledger.version
        if version == self._version:
            return
        self._version = version
        before, self._records = self._records, {}
        for key in sorted(inventory.pools):
            pool, known = inventory.pools[key], before.get(key)
            state = self._state(pool)
            if known is None or known.state != state or self._is_outdated(known):
                known = self._record(pool, state)
            self._records[key] = known
        if inventory.version != self._inventory_version:
            self._inventory_version = inventory.version
            self._nodes = [
                (
                    tuple([pool.serial << 1 | (skips or not pool.skips_operations) for pool in view.pools]),
                    views.order[bits.lowest(nodes)],
                )
                for view in views.node_views()
                for skips, nodes in _sides(view, views).items()
            ]

    def _is_outdated(self, record: PoolRecord) -> bool:
        """True if it may be for another reason now that devices are not reachable."""
        return record.version != self.availability.views.inventory.version and any(
            each.unreachable for each in record.slices
        )

    def _state(self, pool: Pool) -> object:
        views, ledger = self.availability.views, self.availability.ledger
        slices, seen = pool.slices.values(), views.of_pool.get(pool.key, {}).values()
        used = [ledger.in_use(slice_.key, slice_.names) for slice_ in slices]
        return (
            [slice_.serial for slice_ in slices],
            [(view.serial, *(_sides(view, views).items())) for view in seen],
            [(taken, {index: dict(amounts) for index, amounts in shared.items()}) for taken, shared in used],
        )

    def _record(self, pool: Pool, state: object) -> PoolRecord:
        views = self.availability.views
        judgement = pool.judge_all(views.features)
        seen = list(views.of_pool.get(pool.key, {}).values())
        old = _old_slices(pool, views)
        newest = dict.fromkeys(pool.newest())
        published: dict[Slice, CounterLayout | None] = newest | dict.fromkeys(
            judgement.slices, judgement.counters
        )
        if judgement.verdict is not Verdict.COMPLETE:
            # A node that sees as many slices as are announced looks no further.
            published |= {each: view.counters for view in seen for each in view.slices if each in newest}
        slices = [
            self._record_slice(slice_, seen, counters, old=slice_ in old)
            for slice_, counters in (published | old).items()
        ]
        return PoolRecord(pool, judgement, tuple(slices), state, views.inventory.version)

    def _record_slice(
        self, slice_: Slice, seen: Sequence[PoolView], counters: CounterLayout | None, *, old: bool
    ) -> SliceRecord:
        views = self.availability.views
        visible = {
            view: view.visible >> offset & slice_.every
            for view in seen
            for offset, placed in view.placed
            if placed.serial == slice_.serial
        }
        usable = slice_.every & ~self._switched_off(slice_)
        slots: list[tuple[Side, int]] = []
        reachable = operations = 0
        for view, devices in visible.items():
            for skips in _sides(view, views):
                here = devices & usable
                able = 0 if slice_.skip_node_operations and not skips else here
                reachable |= here
                operations |= able
                slots.append((view.serial << 1 | skips, able))
        hidden = [(devices, view.nodes & ~views.usable) for view, devices in visible.items()]
        unreachable = {
            index: self._why_unreachable(slice_, index, hidden)
            for index in bits.each(slice_.every & ~reachable)
        }
        taken, used = self.availability.ledger.in_use(slice_.key, slice_.names)
        # The ledger changes its amounts in place, and makes others anew for a device that was free in between.
        shared = {index: dict(amounts) for index, amounts in used.items()}
        sharing = bits.from_positions(shared)
        # Of a device that is no longer shareable, a share is as good as the device.
        if views.features.consumable_capacity:
            taken |= sharing & ~slice_.shareable
        return SliceRecord(
            slice_, tuple(slots), reachable, unreachable, operations, taken, sharing, shared, counters, old
        )

    def _why_unreachable(self, slice_: Slice, index: int, hidden: Sequence[tuple[int, int]]) -> str:
        """Return why no usable node sees a device; `hidden` are devices that other nodes see, and these nodes."""
        views = self.availability.views
        if not is_known(slice_, views.features):
            return f"ResourceSlice {slice_.name} uses a feature that is switched off"
        if self._switched_off(slice_) >> index & 1:
            return "they use a feature that is switched off"
        fields, records = slice_.effective_nodes(index), views.inventory.nodes
        if not fields.is_set:
            # The API server admits no such slice, but a file, or a newer API, may have one.
            what = "the device" if slice_.per_device_nodes else f"ResourceSlice {slice_.name}"
            return f"{what} names no node"
        if (name := fields.node_name) is not None:
            if name not in records:
                return f"node {name} does not exist"
            return f"node {name} {records[name].unusable or 'cannot be used'}"
        nodes = 0
        for visible, seeing in hidden:
            nodes |= seeing if visible >> index & 1 else 0
        causes: dict[str | None, list[str]] = {}
        for each in bits.each(nodes):
            causes.setdefault(records[views.order[each]].unusable, []).append(views.order[each])
        if causes:
            texts = [f"{listed(names)} {cause}" for cause, names in causes.items()]
            return f"node{'s' if nodes.bit_count() != 1 else ''} {', '.join(texts)}"
        written = fields.selector and describe(fields.selector)
        return "no usable node matches their node selector" + (f' "{written}"' if written else "")

    def _switched_off(self, slice_: Slice) -> int:
        """Return the devices of a slice that use what is switched off, and that are left out where the slice is not."""
        features = self.availability.views.features
        off = 0 if features.device_binding_and_status else slice_.binding
        return off if features.partitionable_devices else off | slice_.counted


def _sides(view: PoolView | NodeView, views: Views) -> dict[bool, int]:
    """Return the usable nodes of a view: those that can do without node operations, as far as it skips any, and others.

    A side without nodes is left out.
    """
    nodes = able = view.nodes & views.usable
    if view.skips_operations:
        records, switched_on = views.inventory.nodes, views.features.optional_node_operations
        able = bits.from_positions(
            position
            for position in bits.each(nodes)
            if switched_on and records[views.order[position]].skips_operations
        )
    return {skips: side for skips, side in ((True, able), (False, nodes & ~able)) if side}


CLASS: Final = -1
"""The stage of the first selector of the class; those of the next ones count down from it."""
USES: Final = frozenset(
    (
        Reason.DEVICE_IN_USE,
        Reason.CAPACITY_EXHAUSTED,
        Reason.COUNTERS_EXHAUSTED,
        Reason.GROUP_INCOMPATIBLE,
    )
)
"""The stages that no device would fail if none were in use."""
PASSING: Final = USES | {Reason.DEVICE_TAINTED}
"""The stages that whoever waits waits for: uses end, and taints may."""
TITLES: Final = {
    Reason.POOL_INCOMPLETE: "in incomplete pools",
    Reason.POOL_INVALID: "in invalid pools",
    Reason.CAPACITY_REQUEST_INVALID: "on which the capacity request is impossible",
    Reason.CAPACITY_TOO_SMALL: "whose capacity does not fit",
    Reason.DEVICE_NOT_OWNED: "not owned by this operator",
    Reason.DEVICE_TAINTED: "tainted",
    Reason.NODE_UNUSABLE: "on nodes that cannot be used",
    Reason.NODE_OPERATIONS_UNSUPPORTED: "on nodes that lack a feature",
    Reason.DEVICE_IN_USE: "in use",
    Reason.GROUP_INCOMPATIBLE: "incompatible with devices in use",
    Reason.COUNTERS_EXHAUSTED: "without enough left of their counters",
    Reason.CAPACITY_EXHAUSTED: "without enough capacity left",
}
"""How the stages behind the selectors are told, in order."""
_MAX_DETAILS: Final = 3
_MOST_KEPT: Final = 32
"""So many counts are kept of a pool, and so many of all pools, until something is published or used."""

Stage: TypeAlias = int | Reason
"""Where devices are kept away: by a selector of the class, by one of the request by its number, or as a reason says."""
_Users: TypeAlias = tuple[int, ...] | None


class Failure(NamedTuple):
    """A device on which the selector of a number fails; the first by these fields is told."""

    number: int
    pool: PoolKey
    place: int
    device: int
    slice_: Slice


@dataclass(slots=True)
class Refusals:
    """How many devices a stage keeps away, details with their own counts, and a device on which a selector fails.

    `failed` is on how many of them it fails.
    """

    count: int = 0
    failed: int = 0
    details: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None

    def add(self, other: "Refusals") -> None:
        """Add what the stage keeps away in another pool."""
        self.count += other.count
        self.failed += other.failed
        self.details.update(other.details)
        if other.failure is not None and (self.failure is None or other.failure[:4] < self.failure[:4]):
            self.failure = other.failure

    def detail(self, more: str = "") -> str:
        """Return the most frequent details, other drivers' last, and a clause that goes on with them, or nothing.

        What the others have in common is how many devices they are on, so that the numbers add up.
        """
        if not self.details:
            return ""
        # Devices of other drivers were hardly meant: a class tells more by those that it names the driver of.
        ranked = sorted(self.details.items(), key=lambda item: (_is_of_another(item[0]), -item[1], item[0]))
        texts = [f"{text} on {count}" for text, count in ranked[:_MAX_DETAILS]]
        if len(ranked) > _MAX_DETAILS:
            texts.append(f"others on {sum([count for _, count in ranked[_MAX_DETAILS:]])}")
        return f" ({', '.join(texts)}{more})"


class Figures(NamedTuple):
    """Numbers of devices for an alternative, of a pool or of all.

    `left` are left by node, those usable on several nodes by each; `rivals` are those of them that draw on counters, so
    that one may leave too little for the next. Of those that are left, or kept away by uses or taints alone, `drawing`
    draw on counters.
    """

    published: int = 0
    in_class: int = 0
    left: int = 0
    rivals: int = 0
    drawing: int = 0

    def plus(self, numbers: Iterable[int]) -> "Figures":
        """Return these numbers with others, in their order, added."""
        return Figures(*map(add, self, numbers))


class Refusal(NamedTuple):
    """A reason, the devices it refuses, and a detail.

    `users` holds the devices in use that it is due to, a set for each slice of the pool; None where it is uses of those
    that it refuses, or no use at all.
    """

    reason: Reason
    devices: int
    detail: str = ""
    users: _Users = None


class SliceDevices(NamedTuple):
    """The devices of a slice that the selectors of an alternative select: who keeps some away, and those left."""

    pool: PoolRecord
    slice_: SliceRecord
    refusals: tuple[Refusal, ...]
    left: int


@dataclass(slots=True)
class _PoolCounts:
    """The counts of one pool.

    `held` has for each stage that is due to uses the devices whose uses these are, a set for each slice; `left_on` the
    number of those left by the number of a slot, and `idle_on` what that would be if none were in use or tainted.
    """

    figures: Figures = field(default_factory=Figures)
    refusals: dict[Stage, Refusals] = field(default_factory=dict)
    held: dict[Reason, list[int]] = field(default_factory=dict)
    left_on: list[int] = field(default_factory=list)
    idle_on: list[int] = field(default_factory=list)


@dataclass(slots=True)
class DeviceCounts:
    """The devices for one alternative: published, in its class, selected, kept away by stages, and left.

    `most_on_a_node` are left on one node, the first of which is `node`; `most_if_idle` would be if no device were in
    use and none were tainted, each judged by itself. `holders` are, by stage, the claims whose devices it is due to.
    `incomplete` are the pools whose devices have to wait for slices.
    """

    figures: Figures
    refusals: dict[Stage, Refusals]
    most_on_a_node: int
    node: str
    most_if_idle: int
    holders: dict[Reason, set[ClaimKey]]
    incomplete: list[PoolRecord]

    def of_stage(self, stage: Stage) -> Refusals:
        """Return what a stage keeps away."""
        return self.refusals.get(stage) or Refusals()

    def of_class(self) -> Refusals:
        """Return what all selectors of the class keep away; of failures the first."""
        found = Refusals()
        for stage, each in self.refusals.items():
            if isinstance(stage, int) and stage <= CLASS:
                found.add(each)
        return found


@dataclass(slots=True)
class DeviceCounter:
    """Counts devices for alternatives. Availability must be up to date; what takes too long raises AbortedError."""

    availability: Availability
    candidates: Candidates
    records: PoolRecords = field(init=False)
    _known: Kept = field(default_factory=lambda: Kept(_MOST_KEPT))

    def __post_init__(self) -> None:
        self.records = PoolRecords(self.availability)

    def version(self) -> object:
        """Return the version of what is published and in use."""
        return self.availability.views.inventory.version, self.availability.ledger.version

    def count(self, alternative: Alternative, budget: Budget) -> DeviceCounts:
        """Return the counts of an alternative. Raises AbortedError if the time is used up."""
        asked = (alternative.key.serial, alternative.admin_access)
        return self._known.find(self.version(), asked, lambda: self._count(alternative, budget))

    def find_devices(self, alternative: Alternative, budget: Budget) -> Iterator[SliceDevices]:
        """Yield the devices that the selectors of an alternative select, slice by slice.

        Raises AbortedError if the time is used up.
        """
        for pool in self.records.pools():
            stages = _Stages(self, alternative, pool, budget)
            for record in pool.slices:
                selected = left = self.candidates.select(alternative.key, record.slice_, budget)
                if selected:
                    refusals = tuple(stages.each(record, selected))
                    for refused in refusals:
                        left &= ~refused.devices
                    yield SliceDevices(pool, record, refusals, left)

    def _count(self, alternative: Alternative, budget: Budget) -> DeviceCounts:
        left_on: dict[Side, int] = {}
        idle_on: dict[Side, int] = {}
        figures = Figures()
        refusals: dict[Stage, Refusals] = {}
        holders: dict[Reason, set[ClaimKey]] = {}
        incomplete: list[PoolRecord] = []
        for record in self.records.pools():
            stages = _Stages(self, alternative, record, budget)
            counts = record.counts.find(
                None, (alternative.key.serial, alternative.admin_access), stages.count
            )
            figures = figures.plus(counts.figures)
            for stage, refused in counts.refusals.items():
                refusals.setdefault(stage, Refusals()).add(refused)
            if Reason.POOL_INCOMPLETE in counts.refusals:
                incomplete.append(record)
            for reason, devices in counts.held.items():
                holders.setdefault(reason, set()).update(self._holders(record, devices))
            slots = [side for each in record.slices for side, _ in each.slots]
            for side, left, idle in zip(slots, counts.left_on, counts.idle_on, strict=True):
                if idle:
                    left_on[side] = left_on.get(side, 0) + left
                    idle_on[side] = idle_on.get(side, 0) + idle
        most, node = self._most_on_a_node(left_on)
        idle, _ = self._most_on_a_node(idle_on)
        return DeviceCounts(figures, refusals, most, node, idle, holders, incomplete)

    def _most_on_a_node(self, numbers: Mapping[Side, int]) -> tuple[int, str]:
        """Return the largest sum of what sides have that a node sees, and the first such node."""
        if not numbers:
            return 0, ""
        sums = [
            (-sum([numbers.get(side, 0) for side in sides]), name) for sides, name in self.records.nodes()
        ]
        most, node = min(sums, default=(0, ""))
        return -most, node if most else ""

    def _holders(self, record: PoolRecord, devices: Sequence[int]) -> set[ClaimKey]:
        """Return the claims that hold some devices of a pool, a set of them for each slice."""
        names = [
            each.slice_.names[index]
            for each, wanted in zip(record.slices, devices, strict=True)
            for index in bits.each(wanted & (each.taken | each.sharing))
        ]
        return self.availability.ledger.holders(record.pool.key, names)


@dataclass(slots=True)
class _Stages:
    """The stages of one pool for one alternative."""

    counter: DeviceCounter
    alternative: Alternative
    pool: PoolRecord
    budget: Budget
    counts: _PoolCounts = field(default_factory=_PoolCounts)

    def count(self) -> _PoolCounts:
        """Return the counts of the pool."""
        counts, content = self.counts, self.alternative.key.content
        for place, record in enumerate(self.pool.slices):
            slice_ = record.slice_
            in_class = slice_.every
            for number, expression in enumerate(content.class_selectors):
                in_class = self._ask(CLASS - number, (number, expression), place, in_class)
            selected = in_class
            for number, expression in enumerate(content.request_selectors):
                selected = self._ask(number, (number, expression), place, selected)
            left, freed = self._obstruct(place, selected)
            idle, counted = left | freed, slice_.counted
            sets = (slice_.every, in_class, left, left & counted, idle & counted)
            counts.figures = counts.figures.plus(devices.bit_count() for devices in sets)
            counts.left_on += [(left & usable).bit_count() for _, usable in record.slots]
            counts.idle_on += [(idle & usable).bit_count() for _, usable in record.slots]
        return counts

    def _ask(self, stage: Stage, selector: tuple[int, str], place: int, devices: int) -> int:
        """Return those of some devices of a slice that a selector, with its number, selects; count the others."""
        if not devices:
            return 0
        number, expression = selector
        slice_ = self.pool.slices[place].slice_
        answers = self.counter.candidates.selectors.get(expression)
        selected, failed = answers.ask(slice_, devices, self.budget)
        if refused := devices & ~selected:
            refusals = self.counts.refusals.setdefault(stage, Refusals())
            refusals.count += refused.bit_count()
            refusals.failed += failed.bit_count()
            if failed:
                refusals.details.update(answers.errors(slice_, failed))
                found = Failure(number, self.pool.pool.key, place, bits.lowest(failed), slice_)
                refusals.failure = refusals.failure or found
            others = refused & ~failed
            told = 0
            for text, count in first_false(
                self.counter.candidates.selectors, expression, slice_, others, self.budget
            ):
                refusals.details[text] += count
                told += count
            if unknown := others.bit_count() - told:
                refusals.details[f"selector #{number} is false"] += unknown
        return selected

    def _obstruct(self, place: int, devices: int) -> tuple[int, int]:
        """Count what keeps the selected devices of a slice away, and what that is due to.

        Returns those left, and those that would be left as well if no device were in use and none were tainted.
        """
        freed = 0
        for reason, refused, detail, users in self.each(self.pool.slices[place], devices):
            refusals = self.counts.refusals.setdefault(reason, Refusals())
            refusals.count += refused.bit_count()
            if detail:
                refusals.details[detail] += refused.bit_count()
            if reason in PASSING and (users is None or any(users)):
                freed |= refused
            if reason in USES:
                sets = self.counts.held.setdefault(reason, [0] * len(self.pool.slices))
                if users is None:
                    sets[place] |= refused
                else:
                    sets[:] = [one | other for one, other in zip(sets, users, strict=True)]
            devices &= ~refused
        return devices, freed

    def each(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        """Yield what keeps some devices of a slice away behind the selectors; no device is refused twice."""
        steps = (
            self._pool,
            self._amounts,
            self._taints,
            self._nodes,
            self._uses,
            self._counters,
            self._shares,
        )
        for step in steps:
            if not devices:
                break
            for found in step(record, devices):
                devices &= ~found.devices
                yield found

    def _pool(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        judgement = self.pool.judgement
        # What a node reaches is in a pool that is complete as far as that node can see.
        refused = devices & ~record.reachable
        if judgement.verdict is not Verdict.COMPLETE and not record.old and refused:
            incomplete = judgement.verdict is Verdict.INCOMPLETE
            reason = Reason.POOL_INCOMPLETE if incomplete else Reason.POOL_INVALID
            yield Refusal(reason, refused, f"{'/'.join(self.pool.pool.key)}: {judgement.reason}")

    def _amounts(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        candidates, key, slice_ = self.counter.candidates, self.alternative.key, record.slice_
        if not key.requests and not slice_.capacity:
            return
        fractional, rules = candidates.features.fractional_capacity_range, candidates.features.rules
        requests = requested(key.requests, slice_.driver, rules)
        for index in bits.each(devices):
            consumed = candidates.consumed(key, slice_, index)
            if isinstance(consumed, CapacityError):
                yield Refusal(Reason.CAPACITY_REQUEST_INVALID, 1 << index, str(consumed))
            elif consumed is None:
                text = refusal(requests, slice_.capacity_of(index), fractional=fractional, rules=rules)
                yield Refusal(Reason.CAPACITY_TOO_SMALL, 1 << index, text)

    def _taints(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        key = self.alternative.key
        refused = devices & ~self.counter.candidates.tolerated(key, record.slice_, devices)
        for taints, tainted in record.slice_.tainted_groups if refused else ():
            if here := refused & tainted:
                taint = untolerated(taints, key.content.all_tolerations())
                assert taint is not None
                if taint.effect == UNOWNED:
                    yield Refusal(Reason.DEVICE_NOT_OWNED, here, taint.value)
                else:
                    # What is fenced is tainted as well, and only the fence keeps it from who tolerates that taint.
                    shown = taint._replace(effect="NoSchedule") if taint.effect == FENCED else taint
                    yield Refusal(Reason.DEVICE_TAINTED, here, taint_text(shown))

    def _nodes(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        for index in bits.each(devices & ~record.reachable):
            yield Refusal(Reason.NODE_UNUSABLE, 1 << index, record.unreachable[index])
        if refused := devices & record.reachable & ~record.operations:
            text = "their nodes cannot skip node operations"
            yield Refusal(Reason.NODE_OPERATIONS_UNSUPPORTED, refused, text)

    def _uses(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        if not self.alternative.admin_access and (taken := devices & record.taken):
            yield Refusal(Reason.DEVICE_IN_USE, taken)

    def _counters(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        state = self.counter.availability.find_counters(record.counters)
        if state is None:
            return
        layout, slice_ = state.layout, record.slice_
        shares = self.counter.candidates.features.consumable_capacity
        paid = slice_.shareable & record.sharing if shares else 0
        users: dict[tuple[Reason, int], _Users] = {}
        for index in bits.each(devices & slice_.counted & ~paid):
            lack = _lack_of(state, layout.draw(slice_, index))
            if lack is None:
                continue
            reason, text, number = lack
            due_to: _Users = (0,) * len(self.pool.slices)
            if number is not None and (due_to := users.get((reason, number))) is None:
                due_to = users[reason, number] = _find_users(self.pool, layout, number, reason)
            yield Refusal(reason, 1 << index, text, due_to)

    def _shares(self, record: SliceRecord, devices: int) -> Iterator[Refusal]:
        key, slice_ = self.alternative.key, record.slice_
        requests = requested(key.requests, slice_.driver, self.counter.candidates.features.rules)
        for index in bits.each(devices & record.sharing):
            amounts = record.shared[index]
            consumed = self.counter.candidates.consumed(key, slice_, index)
            if amounts and isinstance(consumed, Consumption) and not has_room(consumed, amounts, {}):
                text = _exhausted(consumed, amounts, requests, slice_.capacity_of(index))
                yield Refusal(Reason.CAPACITY_EXHAUSTED, 1 << index, text)


def _lack_of(state: CounterState, draw: Draw) -> tuple[Reason, str, int | None] | None:
    """Return why a device does not fit what is left of its pool's counters, in words too; None if it does.

    The number is that of the counter, or for groups that of the counter set, whose users keep it away; None if none do.
    """
    placed, layout = state.placed(), state.layout
    for number, groups in draw.groups:
        if (there := placed[number]) and not there.admits(groups):
            return Reason.GROUP_INCOMPATIBLE, f"{_groups(groups)} beside {_groups(there.shared)}", number
    for number, amount in draw.amounts:
        left, total, name = state.left[number], layout.totals[number], layout.names[number]
        if left < amount:
            if total < amount:
                return Reason.COUNTERS_EXHAUSTED, _compared(name, total, "in all", amount), None
            return Reason.COUNTERS_EXHAUSTED, _compared(name, left, "left", amount), number
    if not state.overdrawn:
        return None
    number = next(at for at, left in enumerate(state.left) if left < 0)
    text = f"counter {'/'.join(layout.names[number])} of the pool is overdrawn"
    return Reason.COUNTERS_EXHAUSTED, text, number


def _find_users(pool: PoolRecord, layout: CounterLayout, number: int, reason: Reason) -> tuple[int, ...]:
    """Return the devices in use that draw on a counter, or on a counter set, by slice."""

    def draws(record: SliceRecord, index: int) -> bool:
        draw = layout.draw(record.slice_, index)
        if reason is Reason.GROUP_INCOMPATIBLE:
            return any(number == at for at, _ in draw.groups)
        return any(number == at and amount for at, amount in draw.amounts)

    return tuple(
        [
            bits.from_positions(
                index
                for index in bits.each(record.slice_.counted & (record.taken | record.sharing))
                if record.counters is layout and draws(record, index)
            )
            for record in pool.slices
        ]
    )


def _groups(names: frozenset[str]) -> str:
    """Return the compatibility groups of a device, or those that the devices in use share."""
    return f"group{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}" if names else "no group"


def _compared(counter: tuple[str, str], there: int, how: str, wanted: int) -> str:
    """Return what is there of a counter and what a device takes, in nano-units: memory shows by its round numbers."""
    have, takes = format_beside(there, wanted)
    return f"{'/'.join(counter)} {have} {how} < {takes}"


def _exhausted(
    consumed: Consumption,
    used: Mapping[str, int],
    requests: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
) -> str:
    quantities = consumed.quantities()
    for name, wanted, value in consumed.amounts:
        left = value - used.get(name, 0)
        if left < wanted:
            amount = quantities[name]
            shown = f"{amount.text}{origin(requests.get(name), capacity[name], amount)}"
            return f"{name} {format_amount(left, family(amount))} left < {shown}"
    return ""


def _is_of_another(detail: str) -> bool:
    return detail.startswith("driver ") and " != " in detail
