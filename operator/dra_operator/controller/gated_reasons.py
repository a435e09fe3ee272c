"""Why pods wait, of those that our gate holds and of those that wait for kube-scheduler: what `waiting_pods` tells.

Of a gated pod the answer is that of the decision about it, or what the API server says against a write that it waits
for. Of the others nothing was decided, and it is found out what would be.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_operator.allocator import Failed
from dra_operator.api.core import Pod
from dra_operator.controller.claims import Key
from dra_operator.controller.gated_pods import GatedPods
from dra_operator.controller.waiting_pods import PodReason
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.pod_decision import PodDecider, PodDecision
from dra_operator.pods.smallest_change import Effort


@dataclass(slots=True)
class UngatedReasons:
    """Says why pods wait that no gate holds, whoever allocates their claims."""

    cluster: ClusterPods
    explainer: PodExplainer

    def find(self, key: Key) -> WaitingPod | None:
        """Return a pod that waits for a node."""
        return self.cluster.waiting.get(key)

    def explain(self, waiting: WaitingPod) -> PodReason | None:
        """Return why a pod waits."""
        if waiting.nominated_node:
            # kube-scheduler makes room for it, and writes its claims soon.
            return None
        found = self.explainer.explain(waiting.pod, waiting.requirements)
        return None if found is None else _reason(found)

    def advise(self, waiting: WaitingPod, effort: Effort) -> str:
        """Return what would make its claims fit."""
        return self.explainer.advise(waiting.pod, waiting.requirements, effort)

    def claims_of(self, pod: Pod) -> Mapping[str, str]:
        """Return the names of the claims of a pod, by entry."""
        return self.explainer.claims_of(pod)

    def version(self) -> object:
        """Return what every answer depends on."""
        return self.explainer.version()


@dataclass(slots=True)
class GatedReasons:
    """Says why gated pods wait, and where `others` are given, why those do that no gate holds."""

    pods: GatedPods
    decider: PodDecider
    explainer: PodExplainer
    others: UngatedReasons | None = None

    def find(self, key: Key) -> WaitingPod | None:
        """Return a pod that our gate holds, or one that waits for a node, where `others` are given or it was ours."""
        cluster = self.pods.cluster
        if key in cluster.waiting and (self.others is not None or self.pods.trouble(key) is not None):
            return cluster.waiting[key]
        return cluster.gated.get(key)

    def explain(self, waiting: WaitingPod) -> PodReason | None:
        """Return why a pod waits; None for a gated one that is to be decided yet, or is being stored.

        None also of one that was let go, and has lost its devices just now: kube-scheduler may find others.
        """
        metadata = waiting.pod.metadata
        key = metadata.namespace, metadata.name
        if (trouble := self.pods.trouble(key)) is not None:
            texts = dict.fromkeys(self.claims_of(waiting.pod), trouble.message)
            return PodReason(trouble.reason, trouble.message, texts)
        if not waiting.is_gated:
            if self.others is None or self.pods.has_lost_devices(key):
                return None
            return self.others.explain(waiting)
        if not self.pods.is_waiting(key):
            return None
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
        """Return what would make its claims fit."""
        metadata = waiting.pod.metadata
        if self.pods.trouble((metadata.namespace, metadata.name)) is not None:
            return ""
        if not waiting.is_gated:
            return "" if self.others is None else self.others.advise(waiting, effort)
        return self.decider.advise(waiting.pod, waiting.requirements, effort)

    def claims_of(self, pod: Pod) -> Mapping[str, str]:
        """Return the names of the claims of a pod, by entry."""
        return self.explainer.claims_of(pod)

    def version(self) -> object:
        """Return what every answer depends on."""
        return self.explainer.version()


def _reason(found: PodExplanation) -> PodReason:
    texts = {entry: each.message for entry, each in found.claims.items()}
    return PodReason(found.reason.value, found.message, texts, found.node)
