"""Pods that wait for devices, whoever allocates them: why they do, told by an Event on the pod and on their claims.

Nothing is decided for them here: it is found out without a write, after the decisions of a cycle, for at most
`EXPLAINING` seconds each. Pods of one workload in one situation are computed once. All writes are paced.
Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import heappop, heappush
from typing import Final

from dra_operator.allocator.decision import Failed
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.api.read import ObjectError
from dra_operator.cluster.events import Subject
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.reflector import Delta
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.context import Context
from dra_operator.controller.facts import Annotations, PendingReason, one_line, warning
from dra_operator.controller.gangs import Gangs
from dra_operator.controller.gated_pods import GatedPods
from dra_operator.controller.object_problems import TemplateChecks
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.pod_decision import PodDecider, PodDecision
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
VOLUMES = ("PersistentVolume", "PersistentVolumeClaim")
"""The kinds that say where volumes keep pods; nothing but explanations depends on them."""
KINDS = frozenset(("Pod", "Node", "DeviceClass", *VOLUMES))
"""The kinds that say which nodes suit a pod."""
_NAME = "pods"
_NO_CLAIMS: Final[Mapping[str, Key]] = {}


# --- Why pods wait, of those that our gate holds and of those that wait for kube-scheduler.
# Of a gated pod the answer is that of the decision about it, or what the API server says against a write that it waits
# for. Of the others nothing was decided, and it is found out what would be.


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
class PodReasons:
    """Finds the pods that wait, and says why they do.

    `gated` and `decider` are for pods that our gate holds, None where there are none. `explains_all`: pods that no gate
    holds are explained as well, whoever allocates their claims.
    """

    cluster: ClusterPods
    explainer: PodExplainer
    explains_all: bool
    gangs: Gangs
    gated: GatedPods | None = None
    decider: PodDecider | None = None

    def find(self, key: Key) -> WaitingPod | None:
        """Return a pod that waits for a node, or our gate, and of which it is to be said why."""
        waiting = self.cluster.waiting.get(key)
        if waiting is not None and (self.explains_all or self._trouble(key) is not None):
            return waiting
        return None if self.gated is None else self.cluster.gated.get(key)

    def explain(self, waiting: WaitingPod) -> PodReason | None:
        """Return why a pod waits; None for a gated one that is to be decided yet, or is being stored.

        None also of one that was let go, and has lost its devices just now: kube-scheduler may find others; and where
        kube-scheduler makes room for it, and writes its claims soon.
        """
        key = waiting.pod.metadata.namespace, waiting.pod.metadata.name
        if (trouble := self._trouble(key)) is not None:
            return self._build_reason(waiting, trouble)
        if waiting.is_gated:
            return self._explain_gated(key, waiting)
        has_lost_devices = self.gated is not None and self.gated.has_lost_devices(key)
        if waiting.nominated_node or has_lost_devices or not self.explains_all:
            return None
        found = self._explain_gang(key, waiting)
        if found is not None and found.reason != Reason.SEARCH_ABORTED:
            return found
        by_itself = self.explainer.explain(waiting.pod, waiting.requirements)
        return None if by_itself is None else _reason(by_itself)

    def _build_reason(self, waiting: WaitingPod, trouble: PendingReason) -> PodReason:
        """Return what is against a pod, which each of its claims says as well."""
        texts = dict.fromkeys(self.claims_of(waiting.pod), trouble.message)
        return PodReason(trouble.reason, trouble.message, texts)

    def _explain_gang(self, key: Key, waiting: WaitingPod) -> PodReason | None:
        """Return why the gang of a pod waits, which is told of each of its pods and their claims."""
        found = self.gangs.explain(key)
        if found is None:
            return None
        texts = dict.fromkeys(self.claims_of(waiting.pod), found.message)
        return PodReason(found.reason.value, found.message, texts, found.node)

    def _explain_gated(self, key: Key, waiting: WaitingPod) -> PodReason | None:
        if self.gated is None or self.decider is None or not self.gated.is_waiting(key):
            return None
        if self.gangs.find(key) is not None:
            of_gang = self._explain_gang(key, waiting)
            if of_gang is None or not of_gang.node:
                return of_gang
            # Where they fit by now they are tried again soon, unless something is against one of them.
            trouble = self.gated.trouble_of_gang(key)
            return None if trouble is None else self._build_reason(waiting, trouble)
        found = self.decider.explain(waiting.pod, waiting.requirements)
        if found.claims:
            return _reason(found)
        # Its claims fit by themselves: it may have room by now, and is tried again soon.
        match self.decider.find_node(waiting.pod, waiting.requirements):
            case PodDecision():
                return None
            case Failed(reason=reason, message=message):
                return _reason(PodExplanation(reason, message))
            case _:
                return _reason(found)

    def advise(self, waiting: WaitingPod, effort: Effort) -> str:
        """Return what would help a pod, as the end of its message; nothing if that is not known."""
        key = waiting.pod.metadata.namespace, waiting.pod.metadata.name
        if self._trouble(key) is not None or self.gangs.find(key) is not None:
            return ""
        if waiting.is_gated:
            assert self.decider is not None
            return self.decider.advise(waiting.pod, waiting.requirements, effort)
        return self.explainer.advise(waiting.pod, waiting.requirements, effort)

    def claims_of(self, pod: Pod) -> Mapping[str, str]:
        """Return the names of the claims of a pod, by entry."""
        return self.explainer.claims_of(pod)

    def _trouble(self, key: Key) -> PendingReason | None:
        return None if self.gated is None else self.gated.trouble(key)


def _reason(found: PodExplanation) -> PodReason:
    texts = {entry: each.message for entry, each in found.claims.items()}
    return PodReason(found.reason.value, found.message, texts, found.node)


# --- What is told of them


@dataclass(slots=True)
class _PodStatus:
    """What is known of one waiting pod; `reason` is what is told now, if anything is, `claims` those that say so."""

    uid: str
    reason: str | None = None
    computed_at: float = float("-inf")
    fitting_since: float | None = None
    """Set while its claims fit."""
    advised: tuple[str, str] = ("", "")
    """The last message to which an ending was looked for, and that ending."""
    claims: frozenset[Key] = frozenset()


@dataclass(slots=True)
class WaitingPods:
    """Finds out why pods wait, and has it told."""

    context: Context
    cluster: ClusterPods
    explainer: PodReasons
    annotations: Annotations
    templates: TemplateChecks
    _pods: dict[Key, _PodStatus] = field(default_factory=dict)
    _due: list[tuple[float, Key]] = field(default_factory=list)
    """A heap of the pods to explain, and when; a pod that is gone stays in it until its time."""
    _settled: set[Key] = field(default_factory=set)
    """The pods whose reason holds until something changes."""
    _version: object = None
    _texts: dict[Key, dict[Key, str]] = field(default_factory=dict)
    """By claim what each pod that waits for it would have it say; the first is heard."""

    # --- taking in

    def apply(self, delta: Delta) -> None:
        """Take in one difference of the kinds in `KINDS`. An object that cannot be understood is reported."""
        subject = Subject(delta.kind, delta.namespace, delta.name)
        key = "unreadable", delta.kind, delta.namespace, delta.name
        if delta.body is None:
            self.cluster.remove(delta.kind, delta.namespace, delta.name)
            self.context.events.clear(key)
            return
        try:
            self.cluster.put(delta.kind, delta.body)
            self.context.events.clear(key)
        except ObjectError as error:
            self.context.events.report_problem(key, subject, messages.EVENT_INVALID, str(error))

    def refresh(self) -> None:
        """Take in whether volumes and their claims are up to date."""
        self.cluster.set_volumes_known(known=all(map(self.context.hears, VOLUMES)))

    def explain_again(self, key: Key) -> None:
        """Have it found out again why a pod waits, as something has become of it."""
        self.cluster.changed.add(key)

    # --- finding out

    def run(self, stopping: Callable[[], bool]) -> float | None:
        """Find out why pods wait for which that is due; return when time alone makes more of it due."""
        self._admit()
        now = self.context.clock()
        version = self.explainer.gangs.version(), self.context.claims.version, self.templates.version
        if version != self._version:
            self._version = version
            for key in list(self._settled):
                self._explain_again(key, self._pods[key])
        while self._due and self._due[0][0] <= self.context.clock():
            _, key = heappop(self._due)
            if (pod := self.explainer.find(key)) is not None and key in self._pods:
                self._explain_safely(key, pod)
            if self._due and (stopping() or self.context.clock() >= now + EXPLAINING):
                break
        return self._due[0][0] if self._due else None

    def _admit(self) -> None:
        """Begin with pods that have come to wait, and end with those that wait no more."""
        changed = self.cluster.changed
        while changed:
            key = changed.pop()
            pod, status = self.explainer.find(key), self._pods.get(key)
            if status is not None and (pod is None or pod.pod.metadata.uid != status.uid):
                self._report(key, status, None)
                self._settled.discard(key)
                del self._pods[key]
                status = None
            if pod is None:
                continue
            if status is None:
                self._pods[key] = _PodStatus(pod.pod.metadata.uid)
                heappush(self._due, (self.context.clock() + self._young_for(pod.pod), key))
            else:
                self._explain_again(key, status)

    def _explain_again(self, key: Key, status: _PodStatus) -> None:
        if key in self._settled:
            self._settled.discard(key)
            heappush(self._due, (max(self.context.clock(), status.computed_at + AGAIN_SECONDS), key))

    def _young_for(self, pod: Pod) -> float:
        created = pod.metadata.creation_timestamp
        if created is None:
            return YOUNG_SECONDS
        age = (self.context.wall() - datetime.fromisoformat(created)).total_seconds()
        # The API server cuts the time of creation to whole seconds.
        return min(max(0.0, YOUNG_SECONDS + 1.0 - age), YOUNG_SECONDS + 1.0)

    def _explain_safely(self, key: Key, waiting: WaitingPod) -> None:
        """Find out why a pod waits; after a defect of ours it is tried again later, and the others go on."""
        try:
            self._explain(key, waiting, self._pods[key])
        except Exception:
            self.context.metrics.defect_logger.exception(Defect.REPORT, report=_NAME, pod="/".join(key))
            heappush(self._due, (self.context.clock() + DEFECT_SECONDS, key))

    def _explain(self, key: Key, waiting: WaitingPod, status: _PodStatus) -> None:
        why = self.explainer.explain(waiting)
        # What was found for its gang before may be out of date already.
        is_outdated = self.explainer.gangs.is_outdated(key)
        status.computed_at = now = self.context.clock()
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
        elif is_outdated:
            heappush(self._due, (now + AGAIN_SECONDS, key))
        if not is_outdated:
            self._settled.add(key)
        if why is not None:
            why = self._complete(why, waiting, status)
        names = self.explainer.claims_of(waiting.pod)
        claims = {entry: (key[0], name) for entry, name in names.items()}
        self._report(key, status, why, claims)

    def _complete(self, why: PodReason, waiting: WaitingPod, status: _PodStatus) -> PodReason:
        """Let the message of a pod, and that of the claim that it is about, end with what would help.

        An ending that was not found in time is not lost for that: the one before goes on for the same message.
        """
        if why.node and why.claims:
            # A gang fits, which is told of its claims.
            return why
        if why.node:
            return replace(why, message=messages.fitting(why.node, FITTING_SECONDS))
        advice = self.explainer.advise(waiting, EFFORT)
        if not advice and status.advised[0] == why.message:
            advice = status.advised[1]
        status.advised = why.message, advice
        claims = {
            entry: f"{text}{advice}" if why.message.endswith(text) else text
            for entry, text in why.claims.items()
        }
        return replace(why, message=f"{why.message}{advice}", claims=claims)

    # --- telling

    def _report(
        self, key: Key, status: _PodStatus, why: PodReason | None, claims: Mapping[str, Key] = _NO_CLAIMS
    ) -> None:
        """Have it told on a pod why it waits, and on those of its claims that wait; None: that it does not."""
        status.reason = None if why is None else why.reason
        if why is None:
            self.context.events.clear(("pod", key))
        else:
            event = warning(Subject("Pod", *key, status.uid), why.reason, why.message)
            # That of a pod that was handed back changes only where its gang is broken by it, which is news.
            news = why.message if why.reason == messages.EVENT_HANDED_BACK else why.reason
            self.context.events.report(("pod", key), event, news, is_paced=True)
        texts = (
            {}
            if why is None
            else {claims[entry]: text for entry, text in why.claims.items() if entry in claims}
        )
        for claim in status.claims.union(claims.values()):
            of_claim = self._texts.setdefault(claim, {})
            if claim in texts:
                of_claim[key] = texts[claim]
            else:
                of_claim.pop(key, None)
            self._annotate(claim, next(iter(of_claim.values()), None))
            if not of_claim:
                del self._texts[claim]
        status.claims = frozenset(texts)

    def _annotate(self, key: Key, text: str | None) -> None:
        claim = self.context.claims.get(key)
        if claim is None or self.context.claims.is_waiting(key):
            # One that waits by itself says why.
            return
        if text is not None and self.context.claims.is_pending_for_pod(claim):
            self.annotations.set(claim, one_line(text), pause=ANNOTATION_SECONDS)
        else:
            self.annotations.take_off(claim)

    def counts(self) -> Counter[str]:
        """Return how many pods wait for each reason that is told."""
        return Counter([status.reason for status in self._pods.values() if status.reason is not None])
