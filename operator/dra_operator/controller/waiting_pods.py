"""Pods that wait for devices, whoever allocates them: why they do, told by an Event on the pod and on their claims.

Nothing is decided for them here: it is found out without a write, after the decisions of a cycle, for at most
`EXPLAINING` seconds each. Pods of one workload in one situation are computed once. All writes together are paced.
Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush
from typing import Protocol

from dra_operator.allocator import Reason
from dra_operator.api.core import Pod
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.read import ObjectError
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import annotate
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, annotation
from dra_operator.controller.event_dedup import EventDeduplicator, EventRequest, Subject, one_line, warning
from dra_operator.controller.queue import InFlightWrites
from dra_operator.controller.timers import BatchLimit
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.smallest_change import Effort

YOUNG_SECONDS = 5.0
"""Of a pod so young nothing is said: kube-scheduler may be about to place it."""
AGAIN_SECONDS = 10.0
"""How long a reason stands before it is found out again, after something has changed."""
FITTING_SECONDS = 40.0
"""How long a pod must have fitted on a node before it is said that the scheduler has not placed it."""
ABORTED_SECONDS = 60.0
"""How much longer a pod waits whose search took too long."""
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
VOLUMES = ("PersistentVolume", "PersistentVolumeClaim")
"""The kinds that say where volumes keep pods; nothing but explanations depends on them."""
KINDS = frozenset(("Pod", "Node", "DeviceClass", *VOLUMES))
"""The kinds that say which nodes suit a pod."""
_NAME = "pods"


@dataclass(frozen=True, slots=True)
class PodReason:
    """Why a pod waits: a reason and one line of text, and the text for each of its claims, by entry.

    `node` is set if nothing is in the way: the first node on which its claims fit.
    """

    reason: str
    message: str
    claims: Mapping[str, str]
    node: str = ""


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
    advised: tuple[str, str] = ("", "")
    """The last message to which an ending was looked for, and that ending."""


class PodReasons(Protocol):
    """Finds the pods that wait, and says why they do: `controller.gated_reasons`."""

    def find(self, key: Key) -> WaitingPod | None:
        """Return a pod that waits, and of which it is to be said why."""

    def explain(self, waiting: WaitingPod) -> PodReason | None:
        """Return why a pod waits; None for one of which nothing is to be said now."""

    def advise(self, waiting: WaitingPod, effort: Effort) -> str:
        """Return what would help a pod, as the end of its message; nothing if that is not known."""

    def claims_of(self, pod: Pod) -> Mapping[str, str]:
        """Return the names of the claims of a pod, by entry."""

    def version(self) -> object:
        """Return what every answer depends on."""


@dataclass(slots=True)
class WaitingPods:
    """Finds out why pods wait, and has it told.

    `record` has an Event recorded. `refresh_seconds` is how often an Event that is still true is recorded again;
    `clock` is monotonic, in seconds, `wall` the time of day in UTC. `pace` limits all writes about pods and templates;
    `hears_volumes` says whether volumes and their claims are up to date.
    """

    cluster: ClusterPods
    explainer: PodReasons
    claims: ClaimStore
    in_flight: InFlightWrites
    problems: EventDeduplicator
    record: Callable[[EventRequest], None]
    refresh_seconds: float
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    defect_logger: DefectLogger
    pace: BatchLimit
    templates_version: Callable[[], int]
    hears_volumes: Callable[[], bool]
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

    def refresh(self) -> None:
        """Take in whether volumes and their claims are up to date."""
        self.cluster.set_volumes_known(known=self.hears_volumes())

    def explain_again(self, key: Key) -> None:
        """Have it found out again why a pod waits, as something has become of it."""
        self.cluster.changed.add(key)

    def run(self, stopping: Callable[[], bool]) -> float | None:
        """Find out why pods wait, and have a batch of it told; return when time alone makes more of it due."""
        is_explained, is_advised = self._explain_due(stopping), self._advise_all(stopping)
        is_batch_full = self._report()
        return self._next_due(is_batch_full=is_batch_full) if is_explained and is_advised else self.clock()

    # --- finding out

    def _explain_due(self, stopping: Callable[[], bool]) -> bool:
        """Find out why pods wait for which that is due; return whether that is done for all of them."""
        self._admit()
        now = self.clock()
        version = self.explainer.version(), self.claims.version, self.templates_version()
        if version != self._version:
            self._version = version
            for key in list(self._settled):
                self._explain_again(key, self._pods[key])
        until = now + EXPLAINING
        while self._due and self._due[0][0] <= self.clock():
            _, key = heappop(self._due)
            if (pod := self.explainer.find(key)) is not None and key in self._pods:
                self._explain_safely(key, pod)
            if self._due and (stopping() or self.clock() >= until):
                return False
        return True

    def _admit(self) -> None:
        """Begin with pods that have come to wait, and end with those that wait no more."""
        changed = self.cluster.changed
        while changed:
            key = changed.pop()
            pod, status = self.explainer.find(key), self._pods.get(key)
            if status is not None and (pod is None or pod.pod.metadata.uid != status.uid):
                self._forget(key)
                status = None
            if pod is None:
                continue
            if status is None:
                self._pods[key] = _PodStatus(pod.pod.metadata.uid)
                heappush(self._due, (self.clock() + self._young_for(pod.pod), key))
            else:
                self._explain_again(key, status)

    def _explain_again(self, key: Key, status: _PodStatus) -> None:
        if key in self._settled:
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
        why = self.explainer.explain(waiting)
        status.computed_at = now = self.clock()
        if why is not None and why.reason == Reason.SEARCH_ABORTED:
            # What takes so long is not to be found out all the time.
            status.computed_at += ABORTED_SECONDS
        if why is None or not why.node:
            status.fitting_since = None
        elif status.fitting_since is None:
            status.fitting_since = now
        if status.fitting_since is not None and now < status.fitting_since + FITTING_SECONDS:
            heappush(self._due, (status.fitting_since + FITTING_SECONDS, key))
            why = None
        self._settled.add(key)
        namespace, names = key[0], self.explainer.claims_of(waiting.pod)
        told = {} if why is None else why.claims
        texts = {(namespace, names[entry]): each for entry, each in told.items() if entry in names}
        self._set_texts(key, texts)
        self._find_left_behind([(namespace, name) for name in names.values()])
        if why is None:
            status.reason = None
            self._unadvised.pop(key, None)
            self._untold.pop(key, None)
            return
        status.reason = why.reason
        status.text = messages.fitting(why.node, FITTING_SECONDS) if why.node else why.message
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
            pod, status = self.explainer.find(key), self._pods[key]
            if pod is not None and status.reason is not None:
                self._extend(key, status, self._advice(key, pod))
                if status.told != status.reason:
                    self._untold[key] = None
            if self._unadvised and (stopping() or self.clock() >= until):
                return False
        return True

    def _extend(self, key: Key, status: _PodStatus, advice: str) -> None:
        """Let the message of a pod, and that of the claim that it is about, end with what would help.

        An ending that was not found in time is not lost for that: the one before goes on for the same message.
        """
        if not advice and status.advised[0] == status.text:
            advice = status.advised[1]
        status.advised = status.text, advice
        for claim in self._told_by.get(key, ()):
            text = self._texts[claim][1]
            if status.text.endswith(text):
                self._texts[claim] = key, text + advice
                self._unwritten[claim] = None
        status.text += advice

    def _advice(self, key: Key, waiting: WaitingPod) -> str:
        try:
            return self.explainer.advise(waiting, EFFORT)
        except Exception:
            self.defect_logger.exception(Defect.REPORT, report=_NAME, pod="/".join(key))
            return ""

    def _set_texts(self, pod: Key, texts: Mapping[Key, str]) -> None:
        """Set what is told of the claims of a pod. Of several pods that wait for one claim the first tells it."""
        for claim in self._told_by.pop(pod, frozenset()) - texts.keys():
            del self._texts[claim]
            self._unwritten[claim] = None
            for other in self.claims.users(claim):
                # It may wait for the claim as well.
                if (status := self._pods.get((claim[0], other))) is not None and other != pod[1]:
                    self._explain_again((claim[0], other), status)
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

    def _find_left_behind(self, keys: Iterable[Key]) -> None:
        """Find claims of a pod that should have no text of ours and have one, as of an operator before this one."""
        for key in keys:
            claim = self.claims.get(key)
            if claim is not None and annotation(claim) is not None and key not in self._texts:
                self._unwritten[key] = None

    # --- telling

    def release(self, key: Key) -> None:
        """Have the text of ours taken off a claim that is somebody else's, when it is its turn."""
        self._unwritten[key] = None

    def _report(self) -> bool:
        """Have a batch of Events and annotations written, Events first; return whether the batch was full."""
        now = self.clock()
        for key, told_at in self._told_at.items():
            if now < told_at + self.refresh_seconds:
                break
            self._untold[key] = None
        while self._untold:
            if not self.pace.take_one():
                return True
            if not self._record_event():
                self.pace.give_back()
        for claim in list(self._unwritten):
            if not self.pace.take_one():
                return True
            if not self._annotate(claim):
                self.pace.give_back()
        for key in [key for key, at in self._written_at.items() if now >= at + ANNOTATION_SECONDS]:
            del self._written_at[key]
        return False

    def _record_event(self) -> bool:
        """Record the Event of the next pod that has one to be told; return whether there was one."""
        key = next(iter(self._untold))
        del self._untold[key]
        self._told_at.pop(key, None)
        status = self._pods[key]
        if status.reason is None:
            status.told = None
            return False
        status.told = status.reason
        self._told_at[key] = self.clock()
        self.record(warning(Subject("Pod", *key, status.uid), status.reason, status.text))
        return True

    def _annotate(self, key: Key) -> bool:
        """Write the annotation of one claim if it is not right and may be written; return whether it is written.

        It is looked for until the claim has it: a write may meet a conflict.
        """
        claim = self.claims.get(key)
        text = one_line(self._texts[key][1]) if key in self._texts else None
        if claim is not None and text is not None and not self.claims.is_pending_for_pod(claim):
            text = None
        if claim is None or annotation(claim) == text or self.claims.is_waiting(key):
            del self._unwritten[key]
            return False
        now, pod = self.clock(), self._texts.get(key, (None, ""))[0]
        may_wait = text is not None and now < self._written_at.get(key, float("-inf")) + ANNOTATION_SECONDS
        if may_wait or pod in self._unadvised or key in self.in_flight or self._is_nominated(key):
            return False
        if text is not None:
            # After one that is only taken off, as after a restart, the next need not wait.
            self._written_at[key] = now
        self.in_flight.submit(annotate(claim, PENDING_ANNOTATION, text))
        return True

    def _is_nominated(self, claim: Key) -> bool:
        """Return whether kube-scheduler makes room for a pod that uses a claim, and writes the claim soon."""
        pods = [self.cluster.waiting.get((claim[0], name)) for name in self.claims.users(claim)]
        return any(pod is not None and pod.nominated_node for pod in pods)

    def _next_due(self, *, is_batch_full: bool) -> float | None:
        now = self.clock()
        due = [self._due[0][0]] if self._due else []
        if is_batch_full:
            due.append(self.pace.next_at)
        elif self._unwritten:
            # Those that have to wait for their minute, or for an answer, are looked for once a second.
            due.append(now + 1.0)
        if self._told_at:
            due.append(next(iter(self._told_at.values())) + self.refresh_seconds)
        return min(due, default=None)

    def counts(self) -> Counter[str]:
        """Return how many pods wait for each reason that is told."""
        return Counter([status.reason for status in self._pods.values() if status.reason is not None])
