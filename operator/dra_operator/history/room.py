"""Room over time: from each hour of a span, how long it was until there was room for one copy of something.

It follows the record from change to change. While there is no room, only nodes are asked again where something may fit
by now that did not before. Source: docs/history.md, "headroom".
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.decision import Allocated, Failed
from dra_operator.api.names import ENDED_PHASES
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.history.reader import Span, StateRow, time_text
from dra_operator.history.schema import MICRO
from dra_operator.history.sweep import HOUR
from dra_operator.history.timeline import EVERYWHERE, History, Timeline, read_events, read_object
from dra_operator.pods.node_fit import PodRequirements, PodUse, read_requirements
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.copies import Template

ROOM: Final = "room"
NONE: Final = "none"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class RoomHour:
    """Whether there was room from an hour on, after `wait` seconds; `none` to the end; or `unknown`, in a gap."""

    at: str
    room: str
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class PastHeadroom:
    """From each hour of a span, how long until there was room for one copy; `unsure`: searches that took too long."""

    subject: str
    since: str
    until: str
    hours: tuple[RoomHour, ...]
    unsure: int = 0

    def count(self, room: str) -> int:
        """Return how many hours are so."""
        return sum(each.room == room for each in self.hours)

    @property
    def at_once(self) -> int:
        """In how many hours there was room at once."""
        return sum(each.wait == 0 for each in self.hours)

    @property
    def longest(self) -> float:
        """The longest wait of those that ended."""
        return max((each.wait or 0 for each in self.hours), default=0)


def find_past_headroom(history: History, span: Span, template: Template, every: int = HOUR) -> PastHeadroom:
    """Return how long, at the beginning of a span and each hour after, it was until a copy had room.

    Raises QuestionError for a template of which copies share something, and StoreError.
    """
    if template.named or template.asks:
        raise QuestionError(
            f"{template.subject}: names claims or extended resources: over time, ask about a template or a class"
        )
    room = _Room(history, span, template)
    times = [span.since, *range(span.since // every * every + every, span.until, every)]
    waits = room.run(times)
    hours = [RoomHour(time_text(at), *waits.get(at, (NONE, None))) for at in times]
    return PastHeadroom(
        template.subject, time_text(span.since), time_text(span.until), tuple(hours), room.unsure
    )


@dataclass(slots=True)
class _Room:
    """The cluster of a record as time goes on, with what claims and pods have."""

    history: History
    span: Span
    template: Template
    unsure: int = 0
    _claims: list[ResourceClaim] = field(init=False)
    _requirements: PodRequirements | None = field(init=False)
    """What the pod of a copy asks of nodes; None without a pod."""
    _held: dict[str, AllocationResult] = field(default_factory=dict)
    _uses: dict[str, tuple[str, PodUse]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pod = self.template.pod
        self._claims = [*self.template.build_claims(1).values()]
        self._requirements = None if pod is None else replace(read_requirements(pod.body), volume_claims=())

    def run(self, times: Iterable[int]) -> dict[int, tuple[str, float | None]]:
        """Return whether and after how many seconds there was room, from each of some times, which are in order."""
        timeline, found = Timeline(self.history, self.span), dict[int, tuple[str, float | None]]()
        events = read_events(self.history, self.span, "ResourceClaim", "Pod")
        event, hours = next(events, None), deque(times)
        waiting, is_open = list[int](), True
        while hours or waiting:
            next_times = [hours[0]] if hours else []
            next_times += [event[0]] if event is not None else []
            next_times += [timeline.next_at] if timeline.next_at is not None else []
            if (at := min(next_times, default=self.span.until)) >= self.span.until:
                break
            timeline.advance(at)
            while event is not None and event[0] <= at:
                self._follow(timeline, event[1], begins=event[2])
                event = next(events, None)
            is_hour = bool(hours) and hours[0] == at
            waiting += [hours.popleft()] if is_hour else []
            if self.history.find_gap(at) is not None:
                found |= {waiting.pop(): (UNKNOWN, None)} if is_hour else {}
            elif waiting and (is_open or timeline.has_changed):
                has_room = self._has_room(timeline, is_open=is_open)
                is_open = has_room is not False
                if has_room:
                    found |= {hour: (ROOM, (at - hour) / MICRO) for hour in waiting}
                    waiting.clear()
        return found

    def _follow(self, timeline: Timeline, row: StateRow, *, begins: bool) -> None:
        """Take in what a claim has from now on, or a pod, or that it has it no more."""
        status = row.body.get("status") or {}
        if row.kind == "ResourceClaim" and begins and status.get("allocation"):
            self._held[row.uid] = read_object(row.body).status.allocation
            timeline.state.ledger.assume("", row.uid, self._held[row.uid])
        elif row.kind == "ResourceClaim" and row.uid in self._held and not begins:
            timeline.state.ledger.withdraw("", row.uid)
            timeline.give_back(self._held.pop(row.uid))
        node = row.body["spec"].get("nodeName")
        if row.kind == "Pod" and begins and node and status.get("phase") not in ENDED_PHASES:
            self._uses[row.uid] = node, timeline.state.pods.read_use(row.body)
            timeline.change_use(*self._uses[row.uid], 1)
        elif row.kind == "Pod" and row.uid in self._uses and not begins:
            timeline.change_use(*self._uses.pop(row.uid), -1)

    def _has_room(self, timeline: Timeline, *, is_open: bool) -> bool | None:
        """Return whether a copy fits, on any node or where something changed; None if that is not found out."""
        fit = None if self._requirements is None else timeline.find_fit(self._requirements)
        nodes = EVERYWHERE if is_open else timeline.touched | (0 if fit is None else fit.reopened)
        nodes = nodes & timeline.everything if fit is None else timeline.suitable(fit, nodes)
        timeline.forget_changes()
        if not nodes or not self._claims:
            return bool(nodes)
        decider = self.template.decider
        allocator = timeline.state.allocators[decider]
        if fit is None:
            decision = allocator.allocate(self._claims, nodes, decider=decider)
        else:
            decision = allocator.allocate_for_pod(self._claims, ~nodes, decider=decider)
        self.unsure += isinstance(decision, Failed)
        return None if isinstance(decision, Failed) else isinstance(decision, Allocated)
