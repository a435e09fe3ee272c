"""Placement: on which nodes pods can run, given what pods there request, and those that were placed before.

A pod whose claims were decided counts for the next one, as an assumed pod does for kube-scheduler. What a file leaves
open keeps no pod away: see `questions/state.py`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dra_operator.api.core import Node
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.read import ObjectError
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import Obstacle, PodRequirements, Toleration, read_requirements
from dra_operator.pods.objects import ObjectRecord
from dra_operator.pods.workloads import part

_EVERYTHING: Final = Toleration(key="", operator="Exists", value="", effect="")


@dataclass(frozen=True, slots=True)
class RunnableNodes:
    """The nodes on which a pod can run, and what is against the others.

    `bound_to` is the node that it runs on already, `only` the one that its affinity names, as that of DaemonSets does.
    """

    nodes: tuple[str, ...]
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict)
    bound_to: str = ""
    only: str = ""

    def is_against(self, node: str) -> bool:
        """True if a condition that is worth telling is against a node: not only that the pod is for another one."""
        is_for_another = self.only not in ("", node) and self.only not in self.obstacles
        return bool(self.bound_to) or (node in self.obstacles and not is_for_another)

    @property
    def why(self) -> str:
        """What keeps the pod from the others, in one line."""
        if self.bound_to:
            return f"the pod is bound to node {self.bound_to}"
        if self.only:
            obstacle = self.obstacles.get(self.only)
            text = f"the pod can only run on node {self.only}"
            return text if obstacle is None else f"{text}, which it cannot use: {obstacle}"
        return describe_obstacles(self.obstacles.values(), len(self.nodes) + len(self.obstacles))


class PodPlacement:
    """Places pods on nodes, of which `nodes` are those that claims may go to.

    Of the volume claims of pods only `volume_claims` count, by namespace and name.
    """

    def __init__(
        self,
        cluster: ClusterPods,
        nodes: Mapping[str, Node],
        counts_volume: Callable[[tuple[str, str]], bool],
    ) -> None:
        self.cluster = cluster
        self._nodes = nodes
        self._counts_volume = counts_volume
        self._placed: dict[tuple[str, str], str] = {}
        self._found: dict[PodRequirements, tuple[int, RunnableNodes]] = {}

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that claims may go to, by name."""
        return self._nodes

    def find_runnable(self, pod: ObjectRecord) -> RunnableNodes | None:
        """Return the nodes on which a pod can run, as if it were not placed; None for all."""
        if bound := pod.obj.spec.node_name:
            return RunnableNodes(tuple({bound} & self._nodes.keys()), bound_to=bound)
        if (placed := self._placed.get(_key(pod))) is None:
            return self.find_suitable(pod)
        self.release(pod)
        found = self.find_suitable(pod)
        self.place(pod, placed)
        return found

    def is_placed(self, pod: ObjectRecord) -> bool:
        """True if a pod has a node, from the start or by now."""
        return bool(pod.obj.spec.node_name) or _key(pod) in self._placed

    def place(self, pod: ObjectRecord, node: str) -> None:
        """Let a pod have what it requests of a node."""
        self._placed[_key(pod)] = node
        with suppress(ObjectError):
            self.cluster.put("Pod", _with_node(pod.body, node))

    def release(self, pod: ObjectRecord) -> None:
        """Take back the place of a pod, if it has one."""
        if self._placed.pop(_key(pod), None) is not None:
            self.cluster.remove("Pod", *_key(pod))

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

    def find_suitable(self, pod: ObjectRecord) -> RunnableNodes | None:
        """Return the nodes that suit a pod that is not placed, by what it asks of a node alone; None for all."""
        requirements = self.requirements(pod)
        # Of many pods of a workload those that wait ask the same again and again.
        known = self._found.get(requirements)
        if known is None or known[0] != self.cluster.version:
            against = self.cluster.find_obstacles(requirements)
            obstacles = {name: against[name] for name in self._nodes if name in against} if against else {}
            nodes = tuple(name for name in self._nodes if name not in obstacles) if obstacles else ()
            only = pinned_to(requirements.affinity) or ""
            known = self._found[requirements] = (
                self.cluster.version,
                RunnableNodes(nodes, obstacles, only=only),
            )
        found = known[1]
        nominated = pod.obj.status.nominated_node_name
        if nominated in found.obstacles:
            # It counts there against itself, and for nobody else.
            own = self.cluster.find_obstacle(requirements, nominated, _key(pod))
            obstacles = {name: item for name, item in found.obstacles.items() if name != nominated}
            obstacles |= {} if own is None else {nominated: own}
            nodes = tuple(name for name in self._nodes if name not in obstacles)
            found = RunnableNodes(nodes, obstacles, only=found.only)
        return found if found.obstacles else None


def describe_obstacles(obstacles: Collection[Obstacle], total: int) -> str:
    """Return how many of `total` nodes a pod cannot use, and for which conditions, the most frequent first.

    `2 of 3 nodes cannot be used by the pod: 1 cpu (500m left of 4, 2 requested), 1 taint gpu:NoSchedule`
    """
    counts = Counter(item.condition for item in obstacles)
    texts: list[str] = []
    for condition, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        details = Counter(str(item) for item in obstacles if item.condition == condition)
        first = min(details, key=lambda text: (-details[text], text))
        texts.append(f"{count} {first}{' and others' if len(details) > 1 else ''}")
    return f"{len(obstacles)} of {total} nodes cannot be used by the pod: {', '.join(texts)}"


def _key(pod: ObjectRecord) -> tuple[str, str]:
    return pod.obj.metadata.namespace, pod.obj.metadata.name


def _with_node(body: Mapping[str, Any], node: str) -> Mapping[str, Any]:
    return {**body, "spec": {**part(body, "spec"), "nodeName": node}}
