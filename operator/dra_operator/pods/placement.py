"""Placement: on which nodes pods can run, given what pods there request, and those that were placed before.

A pod whose claims were decided counts for the next one, as an assumed pod does for kube-scheduler. What a file leaves
open keeps no pod away: see `questions/state.py`.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from dra_operator.api.read import ObjectError
from dra_operator.inventory.taints import Toleration
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import PodRequirements, read_requirements
from dra_operator.pods.objects import ObjectRecord
from dra_operator.pods.workloads import part

_EVERYTHING: Final = Toleration(key="", operator="Exists", value="", effect="")


class PodPlacement:
    """Places pods on nodes.

    Of the volume claims of pods only `volume_claims` count, by namespace and name.
    """

    def __init__(
        self,
        cluster: ClusterPods,
        counts_volume: Callable[[tuple[str, str]], bool],
    ) -> None:
        self.cluster = cluster
        self._counts_volume = counts_volume
        self._placed: dict[tuple[str, str], str] = {}

    def place(self, pod: ObjectRecord, node: str) -> None:
        """Let a pod have what it requests of a node."""
        self._placed[_key(pod)] = node
        with suppress(ObjectError):
            self.cluster.put("Pod", _with_node(pod.body, node))

    @property
    def placed(self) -> AbstractSet[tuple[str, str]]:
        """The pods that were placed, by namespace and name."""
        return frozenset(self._placed)

    def release_others(self, kept: AbstractSet[tuple[str, str]]) -> None:
        """Take back all places but those of some pods."""
        for key in self.placed - kept:
            del self._placed[key]
            self.cluster.remove("Pod", *key)

    def requirements(self, pod: ObjectRecord) -> PodRequirements:
        """Return what a pod asks of a node, as far as that counts here."""
        requirements = read_requirements(pod.body)
        if claims := requirements.volume_claims:
            # The claim of an ephemeral volume is made once there is a pod.
            spec, uid = part(pod.body, "spec"), pod.obj.metadata.uid
            names = {
                str(each.get("name"))
                for each in spec.get("volumes") or ()
                if each.get("ephemeral") and not uid
            }
            new = {(pod.obj.metadata.namespace, f"{pod.obj.metadata.name}-{name}") for name in names}
            known_claims = tuple(
                [item for item in claims if self._counts_volume(item[:2]) and item[:2] not in new]
            )
            requirements = replace(requirements, volume_claims=known_claims)
        if pod.obj.metadata.uid and not part(pod.body, "spec").get("containers"):
            # A snapshot of an earlier version, which has neither what a pod requests nor what it tolerates.
            requirements = replace(requirements, tolerations=(_EVERYTHING,))
        return requirements


def _key(pod: ObjectRecord) -> tuple[str, str]:
    return pod.obj.metadata.namespace, pod.obj.metadata.name


def _with_node(body: Mapping[str, Any], node: str) -> Mapping[str, Any]:
    return {**body, "spec": {**part(body, "spec"), "nodeName": node}}
