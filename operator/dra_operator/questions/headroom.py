"""Headroom: how many more copies of a class or a template there is room for, and what is stranded.

Copies are placed first-fit until one is refused. Stranded are free devices that no further copy can take. Partitions
that draw on the same counters are not added up: of those that overlap only so many count as there can be at once.
Source: docs/library.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult
from dra_operator.explain import SliceDevices
from dra_operator.inventory import PoolKey, bits
from dra_operator.inventory.pool import CounterLayout
from dra_operator.questions.answers import (
    ABORTED,
    DECISION,
    Conclusion,
    LargestDevice,
    QuestionError,
    conclude,
)
from dra_operator.questions.copies import Pods, Subject, Template, find_pods, only_template
from dra_operator.questions.device_table import find_most_left
from dra_operator.questions.fit import ALL_AT_ONCE, FIRST_FIT, NodeCopies
from dra_operator.questions.gang_members import all_of, build_gangs, find_gangs
from dra_operator.questions.gangs import answer_gangs
from dra_operator.questions.placer import Placer, Quotas
from dra_operator.questions.state import ClusterState

MOST_COPIES: Final = 100_000
"""So many are placed; where there is room for more, the answer says so."""
MOST_PODS: Final = 10_000
"""So many pods of gangs are placed."""
_MOST_EXAMPLES: Final = 5
_IN_USE: Final = frozenset((Reason.DEVICE_IN_USE, Reason.CAPACITY_EXHAUSTED))
_OTHERWISE: Final[Mapping[Reason, str]] = {
    Reason.CONSTRAINT_UNSATISFIABLE: "left, but no further copy satisfies the constraints with it",
    Reason.REQUESTS_DO_NOT_FIT_TOGETHER: "left, but not all requests of a copy have devices beside it",
}
_Key: TypeAlias = tuple[PoolKey, str]
_LeftOnNodes: TypeAlias = Counter[str | None]
"""How many devices are left on each node for an alternative; None stands for those that several nodes see."""


@dataclass(frozen=True, slots=True)
class StrandedDevices:
    """Free devices that no further copy can take, with the first obstacle that each of them meets."""

    reason: str
    message: str
    devices: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeadroomAnswer:
    """How many more copies there is room for.

    `unlimited`: each further copy takes nothing away; `more` is then how many take something before. `is_capped`: more
    were not tried. `nodes` are what each node would have. If it is a gang, `more` are whole ones of so many `pods`.
    `stranded` is the number of devices of `obstacles`; `overlapping` are free partitions beside those that were
    counted, of which no copy can be made as well. `reason` and `message` are of the first copy that does not fit.
    `partial` and `assumed` are as in FitAnswer.
    """

    subject: str
    more: int
    unlimited: bool = False
    is_capped: bool = False
    nodes: tuple[NodeCopies, ...] = ()
    largest: LargestDevice | None = None
    stranded: int = 0
    obstacles: tuple[StrandedDevices, ...] = ()
    overlapping: int = 0
    reason: str = ""
    message: str = ""
    method: str = FIRST_FIT
    partial: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    pods: int = 1

    @property
    def conclusion(self) -> Conclusion:
        """Whether there is room for one more."""
        has_room = self.unlimited or self.more > 0
        return conclude(is_yes=has_room, is_partial=bool(self.partial))


def find_headroom(state: ClusterState, subject: Subject, by: str = "") -> HeadroomAnswer:
    """Return how many more copies of a template or a class there is room for. Raises QuestionError.

    `by` is the capacity by which the largest device is found, the class's first if it is empty.
    """
    state, pods = find_pods(state, subject)
    if find_gangs(state, all_of(pods)):
        return _headroom_of_gangs(state, pods)
    template = only_template(pods)
    missing = DECISION.find_missing(state.unread, template.find_kinds(state.inventory))
    largest = _find_largest(state, template, by)
    counts: Counter[str] = Counter()
    reason = message = ""
    stranded: _StrandedGroups | None = None
    unlimited = False
    with state.trial():
        placer = Placer(state, template, state.new_decider(), Quotas(state))
        while (more := counts.total()) < MOST_COPIES:
            found = placer.place(more + 1)
            if found is None:
                why = placer.explain(more + 1)
                reason, message = why.reason.value, printable(why.message)
                if not placer.refusal:
                    stranded = _StrandedGroups(placer, why.reason)
                    stranded.find()
                break
            # Admin access, or shares that consume nothing, can be had again and again.
            if unlimited := template.pod is None and all(map(_is_free, found.allocations.values())):
                break
            counts[found.node] += 1
    return HeadroomAnswer(
        template.subject,
        more,
        unlimited,
        more >= MOST_COPIES,
        tuple([NodeCopies(node, count) for node, count in sorted(counts.items())]),
        largest,
        0 if stranded is None else stranded.total,
        () if stranded is None else stranded.obstacles(),
        0 if stranded is None else stranded.overlapping,
        reason,
        message,
        partial=(
            *missing,
            *(template.find_unchecked() if more or unlimited else ()),
            *((ABORTED,) if placer.is_aborted else ()),
        ),
        assumed=template.assumed,
    )


def _headroom_of_gangs(state: ClusterState, pods: Pods) -> HeadroomAnswer:
    """Return how many more gangs there is room for, those of one replica together; all pods of each at once."""
    counts, more, failing = Counter[str](), 0, None
    size = sum(len(each.members) for each in build_gangs(state, pods, 0))
    with state.trial():
        while failing is None and (more + 1) * size <= MOST_PODS:
            before = counts.copy()
            answers = answer_gangs(state, build_gangs(state, pods, more))
            counts.update(pod.node for each in answers for pod in each.pods)
            failing = next((each for each in answers if each.state != "fits"), None)
            more += failing is None
    why = ("", "") if failing is None else (failing.reason, f"{failing.failing}: {failing.message}")
    kinds = dict.fromkeys(kind for each, _ in pods.templates for kind in each.find_kinds(state.inventory))
    missing = DECISION.find_missing(state.unread, kinds)
    return HeadroomAnswer(
        pods.subject,
        more,
        is_capped=failing is None,
        nodes=tuple(NodeCopies(*each) for each in sorted((counts if failing is None else before).items())),
        reason=why[0],
        message=why[1],
        method=ALL_AT_ONCE,
        partial=tuple(dict.fromkeys((*missing, *(failing.partial if failing is not None else ())))),
        pods=size,
    )


def _is_free(allocation: AllocationResult) -> bool:
    return all(
        result.admin_access
        or (result.share_id and all(amount.nano == 0 for amount in result.consumed_capacity.values()))
        for result in allocation.devices.results
    )


# --- the largest device


def _find_largest(state: ClusterState, template: Template, by: str) -> LargestDevice | None:
    """Return the device with the most left of a capacity, of those for the first request."""
    records = [(found.slice_, found.left) for found in _devices_for_first(state, template)]
    published = dict.fromkeys(name for record, _ in records for name in record.slice_.capacity)
    if by and published and by not in published:
        raise QuestionError(
            f'by: no device for it has a capacity "{by}": there is {", ".join(sorted(published))}'
        )
    devices = (
        (record.slice_, index, record.shared.get(index, {}))
        for record, left in records
        for index in bits.each(left)
    )
    best = find_most_left(devices, by or next(iter(published), ""))
    return None if best is None else best[1]


def _devices_for_first(state: ClusterState, template: Template) -> Iterator[SliceDevices]:
    """Yield the devices for the first alternative of the first request."""
    explainer, first = state.explainers[template.decider], None
    for claim in islice(template.build_claims(1).values(), 1):
        for item, found in explainer.find_devices(claim, decider=template.decider):
            first = first or item
            if item is not first:
                return
            yield found


# --- what is stranded


_Obstacle: TypeAlias = tuple[str, str]
"""A reason, and what is said of it."""


@dataclass(slots=True)
class _StrandedGroups:
    """The free devices that no further copy can take, by obstacle; `reason` is why the next copy does not fit."""

    placer: Placer
    reason: Reason
    groups: dict[_Obstacle, list[str]] = field(default_factory=dict)
    overlapping: int = 0
    _seen: set[_Key] = field(default_factory=set)
    _left: dict[CounterLayout, list[int]] = field(default_factory=dict)
    """What is left of counters beside the partitions that were counted."""

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(map(len, self.groups.values()))

    def obstacles(self) -> tuple[StrandedDevices, ...]:
        """Return the groups, the largest first."""
        ranked = sorted(self.groups.items(), key=lambda item: (-len(item[1]), item[0]))
        return tuple(
            [
                StrandedDevices(reason, message, len(names), tuple(names[:_MOST_EXAMPLES]))
                for (reason, message), names in ranked
            ]
        )

    def find(self) -> None:
        """Find the devices that are free in the state as it is."""
        template = self.placer.template
        unsuitable = self.placer.find_obstacles()
        explainer = self.placer.state.explainers[template.decider]
        for claim in template.build_claims(0).values():
            slices = list(explainer.find_devices(claim, decider=template.decider))
            lefts = defaultdict[int, _LeftOnNodes](Counter)
            for item, found in slices:
                nodes = found.slice_.slice_.effective_nodes
                lefts[id(item)].update(nodes(index).node_name for index in bits.each(found.left))
            for item, found in slices:
                free = ~(found.slice_.taken | found.slice_.sharing)
                for refusal in found.refusals:
                    if refusal.reason is Reason.COUNTERS_EXHAUSTED:
                        each = bits.each(refusal.devices & free)
                        self.overlapping += sum(self._is_new(found, index) for index in each)
                    elif refusal.reason not in _IN_USE:
                        text = printable(refusal.detail) or refusal.reason.value
                        self._add(found, refusal.devices & free, (refusal.reason.value, text))
                self._add_left(item, found, found.left & free, unsuitable, lefts[id(item)])

    def _add_left(
        self,
        item: Alternative,
        found: SliceDevices,
        devices: int,
        unsuitable: Mapping[str, str],
        left: _LeftOnNodes,
    ) -> None:
        """Add devices that nothing keeps from one device, and something from a whole copy."""
        slice_ = found.slice_.slice_
        for index in bits.each(devices):
            node = slice_.effective_nodes(index).node_name
            if node is not None and node in unsuitable:
                obstacle = Reason.NODE_UNSUITABLE.value, unsuitable[node]
            elif node is not None and item.count is not None and left[node] + left[None] < item.count:
                text = f"{left[node] + left[None]} left on a node, {item.count} requested"
                obstacle = Reason.NOT_ENOUGH_DEVICES.value, text
            else:
                text = _OTHERWISE.get(self.reason, "left, but not enough for a copy")
                obstacle = self.reason.value, text
            self._add(found, 1 << index, obstacle)

    def _add(self, found: SliceDevices, devices: int, obstacle: _Obstacle) -> None:
        slice_ = found.slice_.slice_
        for index in bits.each(devices):
            if not self._is_new(found, index):
                continue
            if not self._has_counters(found, index):
                self.overlapping += 1
                continue
            name = f"{slice_.driver}/{slice_.pool}/{slice_.names[index]}"
            self.groups.setdefault(obstacle, []).append(name)

    def _is_new(self, found: SliceDevices, index: int) -> bool:
        slice_ = found.slice_.slice_
        key = slice_.key, slice_.names[index]
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _has_counters(self, found: SliceDevices, index: int) -> bool:
        """Return whether a device could be had beside those that were counted, and count what it draws."""
        slice_, layout = found.slice_.slice_, found.slice_.counters
        if layout is None or not slice_.counted >> index & 1:
            return True
        left = self._left.get(layout)
        if left is None:
            allocator = self.placer.state.allocators[self.placer.template.decider]
            state = allocator.availability.find_counters(layout)
            left = self._left[layout] = list(layout.totals if state is None else state.left)
        draw = layout.draw(slice_, index)
        if any(left[position] < amount for position, amount in draw.amounts):
            return False
        for position, amount in draw.amounts:
            left[position] -= amount
        return True
