"""Where the claims of a pod can be used, and pods that cannot use theirs.

The claims of a pod are decided for a node on which it can run. All the same they may be of no use to it: several pods
may share a claim, and one that is allocated already may lead elsewhere; such pods are named.
Source: docs/dra-semantics 8.1 and 8.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dra_operator.api.core import Node, NodeSelector, Pod
from dra_operator.api.node_selector import NodeSelectorError, matches, pinned_to
from dra_operator.api.types import AllocationResult
from dra_operator.inventory.nodes import OPTIONAL_NODE_OPERATIONS
from dra_operator.pods.claims import ClaimsOfPods, is_over
from dra_operator.pods.objects import ObjectRecord, ObjectSet
from dra_operator.pods.placement import PodPlacement
from dra_operator.pods.scheduler import Outcome, Scheduler, State

_APART = "kube-scheduler puts a pod's claims on one node"
_MOST_SHOWN = 5


def usable(
    nodes: Mapping[str, Node], names: Iterable[str], allocations: Sequence[AllocationResult]
) -> Iterator[str]:
    """Yield the nodes of `names` where pods can use all of some allocations."""
    for name in names:
        labels = nodes[name].metadata.labels
        skips = OPTIONAL_NODE_OPERATIONS in nodes[name].status.declared_features
        if all(can_use(allocation, name, labels, skips_operations=skips) for allocation in allocations):
            yield name


def can_use(
    allocation: AllocationResult, node: str, labels: Mapping[str, str], *, skips_operations: bool
) -> bool:
    """Return whether pods on a node can use an allocation. Source: kube-scheduler's Filter, docs/dra-semantics 8.2."""
    if allocation.skips_node_operations and not skips_operations:
        return False
    if allocation.node_selector is None:
        return True
    try:
        return matches(allocation.node_selector, node, labels)
    except NodeSelectorError:
        return False


def find_pods_apart(objects: ObjectSet, scheduler: Scheduler, decided: Iterable[Outcome]) -> Iterator[str]:
    """Yield a line for each pod whose claims cannot be used together, or not where the pod can run.

    Left out are pods with a claim on a node that is not there, and those that have a node: they use their claims.
    """
    claims, places = ClaimsOfPods(decided, lambda outcome: outcome.claim), _Places(scheduler.nodes)
    for record in objects.of_kind("Pod"):
        pod: Pod = record.obj
        outcomes = () if is_over(pod) else claims.of_pod(pod)
        is_decided = any(outcome.state is State.ALLOCATED for outcome in outcomes)
        if not outcomes or not (
            is_decided or (not pod.spec.node_name and all(each.allocation for each in outcomes))
        ):
            continue
        usable_on = [
            places.usable_on(outcome.allocation) for outcome in outcomes if outcome.allocation is not None
        ]
        if not all(usable_on):
            continue
        if problem := _problem(record, scheduler.placement, frozenset.intersection(*usable_on)):
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            yield f"pod {name} cannot use its claims, which are on {_listed(_chosen(outcomes))}; {problem}"


class _Places:
    """Where allocations can be used, found once for each node selector and what else it depends on."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._found: dict[tuple[NodeSelector | None, bool], frozenset[str]] = {}

    def usable_on(self, allocation: AllocationResult) -> frozenset[str]:
        """Return the nodes on which pods can use an allocation."""
        key = allocation.node_selector, allocation.skips_node_operations
        if key not in self._found:
            pinned = pinned_to(allocation.node_selector)
            # Most name one node, and there are as many of them as nodes.
            candidates = [name for name in (pinned,) if name in self._nodes] if pinned else [*self._nodes]
            self._found[key] = frozenset(usable(self._nodes, candidates, (allocation,)))
        return self._found[key]


def _problem(pod: ObjectRecord, placement: PodPlacement, together: frozenset[str]) -> str | None:
    """Return what keeps a pod from using its claims, given the nodes where all of them can be used."""
    if not together:
        return _APART
    found = placement.find_runnable(pod)
    return None if found is None or together.intersection(found.nodes) else found.why


def _chosen(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the nodes that claims were decided for, or can only be used on."""
    names = {
        outcome.node or pinned_to(outcome.allocation.node_selector)
        for outcome in outcomes
        if outcome.allocation is not None
    }
    return sorted(name for name in names if name)


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return f"node {names[0]}" if names else "no node"
    if len(names) > _MOST_SHOWN:
        return f"nodes {', '.join(names[:_MOST_SHOWN])} and {len(names) - _MOST_SHOWN} more"
    return f"nodes {', '.join(names[:-1])} and {names[-1]}"
