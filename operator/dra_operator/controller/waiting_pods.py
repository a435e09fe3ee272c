"""Pods that wait for devices, whoever allocates them: why they do, told by an Event on the pod and on their claims.

Nothing is decided for them here: it is found out without a write, after the decisions of a cycle, for at most
`EXPLAINING` seconds each. Pods of one workload in one situation are computed once. All writes together are paced.
Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush

from dra_operator.api.core import Pod
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.read import ObjectError
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import AnnotateWrite
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, annotation, is_pending, version_of
from dra_operator.controller.event_dedup import EventDeduplicator, EventRequest, Subject, one_line, warning
from dra_operator.controller.queue import InFlightWrites
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.smallest_change import Effort

YOUNG_SECONDS = 5.0
"""Of a pod so young nothing is said: kube-scheduler may be about to place it."""
AGAIN_SECONDS = 10.0
"""How long a reason stands before it is found out again, after something has changed."""
FITTING_SECONDS = 40.0
"""How long a pod must have fitted on a node before it is said that the scheduler has not placed it."""
DEFECT_SECONDS = 600.0
"""How long a pod waits that met a defect of ours."""
ANNOTATION_SECONDS = 60.0
"""Between two annotations of one claim."""
EXPLAINING = 0.03
"""Seconds for which a cycle explains pods: claims that arrive meanwhile wait for its end."""
EFFORT = Effort(decisions=300, seconds=0.1)
"""What it may cost to find out what would help a pod; the pods of its workload share the answer."""
BATCH = 4
BATCH_SECONDS = 0.21
"""At most `BATCH` writes in so many seconds, so at most 20 in any second."""
KINDS = frozenset(("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "DeviceClass"))
"""The kinds that say which nodes suit a pod."""
_NAME = "pods"


@dataclass(slots=True)
class _PodStatus:
    """What is known, and was told, of one waiting pod. `reason` and `text` are what is to be told now, if anything is.

    `fitting_since` is set while its claims fit; `told` is the reason that the last Event gave.
    """

    uid: str
    reason: str | None = None
    text: str = ""
    computed_at: float = float("-inf")
    fitting_since: float | None = None
    told: str | None = None


@dataclass(slots=True)
class WaitingPods:
    """Finds out why pods wait, and has it told.

    `record` has an Event recorded. `refresh_seconds` is how often an Event that is still true is recorded again;
    `clock` is monotonic, in seconds, `wall` the time of day in UTC.
    """

    cluster: ClusterPods
    explainer: PodExplainer
    claims: ClaimStore
    in_flight: InFlightWrites
    problems: EventDeduplicator
    record: Callable[[EventRequest], None]
    refresh_seconds: float
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    defect_logger: DefectLogger
    _pods: dict[Key, _PodStatus] = field(default_factory=dict)
    _due: list[tuple[float, Key]] = field(default_factory=list)
    """A heap of the pods to explain, and when; a pod that is gone stays in it until its time."""
    _settled: set[Key] = field(default_factory=set)
    """The pods whose reason holds until something changes."""
    _version: object = None
    _unadvised: dict[Key, None] = field(default_factory=dict)
    """The pods whose message has no end yet that says what would help."""
    _untold: dict[Key, None] = field(default_factory=dict)
    _told_at: dict[Key, float] = field(default_factory=dict)
    """When each pod got its last Event, in that order."""
    _texts: dict[Key, tuple[Key, str]] = field(default_factory=dict)
    """What each claim's annotation is to say, and the pod that it is about."""
    _told_by: dict[Key, frozenset[Key]] = field(default_factory=dict)
    """The claims whose annotation is about each pod."""
    _unwritten: dict[Key, None] = field(default_factory=dict)
    _written_at: dict[Key, float] = field(default_factory=dict)
    _next_batch_at: float = float("-inf")

    # --- taking in

    def apply(self, delta: Delta) -> None:
        """Take in one difference of the kinds in `KINDS`. An object that cannot be understood is reported."""
        subject = Subject(delta.kind, delta.namespace, delta.name)
        key = "unreadable", delta.kind, delta.namespace, delta.name
        if delta.body is None:
            self.cluster.remove(delta.kind, delta.namespace, delta.name)
            self.problems.clear(key)
            return
        try:
            self.cluster.put(delta.kind, delta.body)
            self.problems.clear(key)
        except ObjectError as error:
            self.problems.report_problem(key, subject, messages.EVENT_INVALID, str(error))

    def run(self, stopping: Callable[[], bool]) -> float | None:
        """Find out why pods wait, and have a batch of it told; return when time alone makes more of it due."""
        is_done = self._explain_due(stopping) and self._advise_all(stopping)
        self._report()
        return self._next_due() if is_done else self.clock()

    # --- finding out

    def _explain_due(self, stopping: Callable[[], bool]) -> bool:
        """Find out why pods wait for which that is due; return whether that is done for all of them."""
        self._admit()
        now = self.clock()
        version = self.explainer.version(), self.claims.version
        if version != self._version:
            self._version = version
            for key in self._settled:
                heappush(self._due, (max(now, self._pods[key].computed_at + AGAIN_SECONDS), key))
            self._settled.clear()
        until = now + EXPLAINING
        while self._due and self._due[0][0] <= self.clock():
            _, key = heappop(self._due)
            if (pod := self.cluster.waiting.get(key)) is not None and key in self._pods:
                self._explain_safely(key, pod)
            if self._due and (stopping() or self.clock() >= until):
                return False
        return True

    def _admit(self) -> None:
        """Begin with pods that have come to wait, and end with those that wait no more."""
        changed, self.cluster.changed = self.cluster.changed, set()
        for key in changed:
            pod, status = self.cluster.waiting.get(key), self._pods.get(key)
            if status is not None and (pod is None or pod.pod.metadata.uid != status.uid):
                self._forget(key)
                status = None
            if pod is None:
                continue
            if status is None:
                self._pods[key] = _PodStatus(pod.pod.metadata.uid)
                heappush(self._due, (self.clock() + self._young_for(pod.pod), key))
            elif key in self._settled:
                self._settled.discard(key)
                heappush(self._due, (max(self.clock(), status.computed_at + AGAIN_SECONDS), key))

    def _young_for(self, pod: Pod) -> float:
        created = pod.metadata.creation_timestamp
        if created is None:
            return YOUNG_SECONDS
        age = (self.wall() - datetime.fromisoformat(created)).total_seconds()
        # The API server cuts the time of creation to whole seconds.
        return min(max(0.0, YOUNG_SECONDS + 1.0 - age), YOUNG_SECONDS + 1.0)

    def _forget(self, key: Key) -> None:
        del self._pods[key]
        self._settled.discard(key)
        self._unadvised.pop(key, None)
        self._untold.pop(key, None)
        self._told_at.pop(key, None)
        self._set_texts(key, {})

    def _explain_safely(self, key: Key, waiting: WaitingPod) -> None:
        """Find out why a pod waits; after a defect of ours it is tried again later, and the others go on."""
        try:
            self._explain(key, waiting, self._pods[key])
        except Exception:
            self.defect_logger.exception(Defect.REPORT, report=_NAME, pod="/".join(key))
            heappush(self._due, (self.clock() + DEFECT_SECONDS, key))

    def _explain(self, key: Key, waiting: WaitingPod, status: _PodStatus) -> None:
        # kube-scheduler makes room for a pod that it has nominated, and writes its claims soon.
        is_nominated = bool(waiting.nominated_node)
        why = None if is_nominated else self.explainer.explain(waiting.pod, waiting.requirements)
        status.computed_at = now = self.clock()
        if why is None or not why.node:
            status.fitting_since = None
        elif status.fitting_since is None:
            status.fitting_since = now
        if status.fitting_since is not None and now < status.fitting_since + FITTING_SECONDS:
            heappush(self._due, (status.fitting_since + FITTING_SECONDS, key))
            why = None
        self._settled.add(key)
        self._set_texts(key, {} if why is None else self._texts_of(waiting, why))
        if why is None:
            status.reason = None
            self._unadvised.pop(key, None)
            self._untold.pop(key, None)
            return
        status.reason = why.reason.value
        status.text = messages.fitting(why.node, FITTING_SECONDS) if why.node else one_line(why.message)
        if not why.node:
            self._unadvised[key] = None
        elif status.told != status.reason:
            self._untold[key] = None

    def _advise_all(self, stopping: Callable[[], bool]) -> bool:
        """Find out what would help pods, which ends their messages; return whether that is done for all of them."""
        until = self.clock() + EXPLAINING
        while self._unadvised:
            key = next(iter(self._unadvised))
            del self._unadvised[key]
            pod, status = self.cluster.waiting.get(key), self._pods[key]
            if pod is not None and status.reason is not None:
                self._extend(key, status, self._advice(key, pod))
                if status.told != status.reason:
                    self._untold[key] = None
            if self._unadvised and (stopping() or self.clock() >= until):
                return False
        return True

    def _extend(self, key: Key, status: _PodStatus, advice: str) -> None:
        """Let the message of a pod, and that of a claim with the same one, end with what would help."""
        text = one_line(status.text + advice)
        for claim in self._told_by.get(key, ()):
            if self._texts[claim][1] == status.text:
                self._texts[claim] = key, text
                self._unwritten[claim] = None
        status.text = text

    def _advice(self, key: Key, waiting: WaitingPod) -> str:
        try:
            return self.explainer.advise(waiting.pod, waiting.requirements, EFFORT)
        except Exception:
            self.defect_logger.exception(Defect.REPORT, report=_NAME, pod="/".join(key))
            return ""

    def _texts_of(self, waiting: WaitingPod, why: PodExplanation) -> Mapping[Key, str]:
        """Return what the annotations of a pod's claims are to say."""
        namespace, names = waiting.pod.metadata.namespace, self.explainer.claims_of(waiting.pod)
        return {
            (namespace, names[entry]): one_line(explanation.message)
            for entry, explanation in why.claims.items()
            if entry in names
        }

    def _set_texts(self, pod: Key, texts: Mapping[Key, str]) -> None:
        """Set what is told of the claims of a pod. Of several pods that wait for one claim the first tells it."""
        for claim in self._told_by.pop(pod, frozenset()) - texts.keys():
            del self._texts[claim]
            self._unwritten[claim] = None
        own: set[Key] = set()
        for claim, text in texts.items():
            known = self._texts.get(claim)
            if known is None or known[0] == pod:
                own.add(claim)
                if known is None or known[1] != text:
                    self._texts[claim] = pod, text
                    self._unwritten[claim] = None
        if own:
            self._told_by[pod] = frozenset(own)

    # --- telling

    def _report(self) -> None:
        """Have a batch of Events and annotations written, Events first."""
        now = self.clock()
        for key, told_at in self._told_at.items():
            if now < told_at + self.refresh_seconds:
                break
            self._untold[key] = None
        if now >= self._next_batch_at:
            left = BATCH
            while left and self._untold:
                left -= self._record_event()
            for claim in list(self._unwritten) if left else ():
                left -= self._annotate(claim)
                if not left:
                    break
            if left < BATCH:
                self._next_batch_at = now + BATCH_SECONDS
        for key in [key for key, at in self._written_at.items() if now >= at + ANNOTATION_SECONDS]:
            del self._written_at[key]

    def _record_event(self) -> int:
        """Record the Event of the next pod that has one to be told; return how many writes that is."""
        key = next(iter(self._untold))
        del self._untold[key]
        self._told_at.pop(key, None)
        status = self._pods[key]
        if status.reason is None:
            return 0
        status.told = status.reason
        self._told_at[key] = self.clock()
        self.record(warning(Subject("Pod", *key, status.uid), status.reason, status.text))
        return 1

    def _annotate(self, key: Key) -> int:
        """Write the annotation of one claim if it is not right and may be written; return how many writes that is."""
        claim = self.claims.get(key)
        text = self._texts[key][1] if key in self._texts else None
        if claim is None or not is_pending(claim) or annotation(claim) == text or self.claims.is_waiting(key):
            del self._unwritten[key]
            return 0
        now = self.clock()
        if key in self._texts and self._texts[key][0] in self._unadvised:
            return 0
        if key in self.in_flight or now < self._written_at.get(key, float("-inf")) + ANNOTATION_SECONDS:
            return 0
        del self._unwritten[key]
        self._written_at[key] = now
        self.in_flight.submit(
            AnnotateWrite(
                *version_of(claim), annotation=PENDING_ANNOTATION, current=annotation(claim), text=text
            )
        )
        return 1

    def _next_due(self) -> float | None:
        now = self.clock()
        due = [self._due[0][0]] if self._due else []
        if self._untold:
            due.append(self._next_batch_at)
        elif self._unwritten:
            # Those that have to wait for their minute, or for an answer, are looked for once a second.
            due.append(max(self._next_batch_at, now + 1.0))
        if self._told_at:
            due.append(next(iter(self._told_at.values())) + self.refresh_seconds)
        return min(due, default=None)

    def counts(self) -> Counter[str]:
        """Return how many pods wait for each reason that is told."""
        return Counter([status.reason for status in self._pods.values() if status.reason is not None])
