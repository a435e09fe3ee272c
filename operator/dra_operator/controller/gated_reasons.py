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
from dra_operator.controller.handback import WriteTrouble
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.pod_decision import PodDecider, PodDecision
from dra_operator.pods.smallest_change import Effort


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
            texts = dict.fromkeys(self.claims_of(waiting.pod), trouble.message)
            return PodReason(trouble.reason, trouble.message, texts)
        if waiting.is_gated:
            return self._explain_gated(key, waiting)
        has_lost_devices = self.gated is not None and self.gated.has_lost_devices(key)
        if waiting.nominated_node or has_lost_devices or not self.explains_all:
            return None
        found = self.explainer.explain(waiting.pod, waiting.requirements)
        return None if found is None else _reason(found)

    def _explain_gated(self, key: Key, waiting: WaitingPod) -> PodReason | None:
        if self.gated is None or self.decider is None or not self.gated.is_waiting(key):
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
        """Return what would help a pod, as the end of its message; nothing if that is not known."""
        if self._trouble((waiting.pod.metadata.namespace, waiting.pod.metadata.name)) is not None:
            return ""
        if waiting.is_gated:
            assert self.decider is not None
            return self.decider.advise(waiting.pod, waiting.requirements, effort)
        return self.explainer.advise(waiting.pod, waiting.requirements, effort)

    def claims_of(self, pod: Pod) -> Mapping[str, str]:
        """Return the names of the claims of a pod, by entry."""
        return self.explainer.claims_of(pod)

    def version(self) -> object:
        """Return what every answer depends on."""
        return self.explainer.version()

    def _trouble(self, key: Key) -> WriteTrouble | None:
        return None if self.gated is None else self.gated.trouble(key)


def _reason(found: PodExplanation) -> PodReason:
    texts = {entry: each.message for entry, each in found.claims.items()}
    return PodReason(found.reason.value, found.message, texts, found.node)
