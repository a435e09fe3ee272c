"""Pod nodes: whether the claims of a pod, decided each by itself, can be used where the pod can run.

kube-scheduler decides all claims of a pod together, for one node that suits the pod in every other way. `simulate`
does not schedule, and its answer for a pod may be one that kube-scheduler would never give; it says so.
Source: docs/dra-semantics 8.1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dra_operator.api.core import Node, NodeSelector, Pod
from dra_operator.api.types import AllocationResult
from dra_operator.cli.daemons import node_of
from dra_operator.cli.gather import Gathered, Thing
from dra_operator.cli.offline import Outcome, State, pinned_to
from dra_operator.cli.pod_claims import is_over
from dra_operator.cli.special_claims import ClaimsOfPods, usable

_EACH_BY_ITSELF = "claims of pod {pod} were decided each by itself, on {nodes}"
_APART = "kube-scheduler puts a pod's claims on one node"
_BOUND = "the pod is bound to node {node}"
_ONLY = "the pod can only run on node {node}"
_NOT_SELECTED = "the nodeSelector of the pod selects {nodes}"
_MOST_SHOWN = 5


def find_pods_apart(
    gathered: Gathered, nodes: Mapping[str, Node], decided: Iterable[Outcome]
) -> Iterator[str]:
    """Yield a line for each pod whose claims cannot be used together, or not where the pod can run.

    `nodes` are those that claims may go to. Pods of which no claim was decided here are left out, and so are those
    with a claim on a node that is not there.
    """
    claims, places = ClaimsOfPods(decided), _Places(nodes)
    for thing in gathered.of("Pod"):
        pod: Pod = thing.obj
        outcomes = () if is_over(pod) else claims.of_pod(pod)
        if not any(outcome.state is State.ALLOCATED for outcome in outcomes):
            continue
        usable_on = [places.of(outcome.allocation) for outcome in outcomes if outcome.allocation is not None]
        if not all(usable_on):
            continue
        if problem := _problem(thing, nodes, frozenset.intersection(*usable_on)):
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            yield f"{_EACH_BY_ITSELF.format(pod=name, nodes=_listed(_chosen(outcomes)))}; {problem}"


class _Places:
    """Where allocations can be used, found once for each node selector and what else it depends on."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._found: dict[tuple[NodeSelector | None, bool], frozenset[str]] = {}

    def of(self, allocation: AllocationResult) -> frozenset[str]:
        """Return the nodes on which pods can use an allocation."""
        key = allocation.node_selector, allocation.skips_node_operations
        if key not in self._found:
            pinned = pinned_to(allocation.node_selector)
            # Most name one node, and there are as many of them as nodes.
            candidates = [name for name in (pinned,) if name in self._nodes] if pinned else [*self._nodes]
            self._found[key] = frozenset(usable(self._nodes, candidates, (allocation,)))
        return self._found[key]


def _problem(thing: Thing, nodes: Mapping[str, Node], together: frozenset[str]) -> str | None:
    """Return what keeps a pod from using its claims, given the nodes where all of them can be used."""
    if not together:
        return _APART
    if bound := thing.obj.spec.node_name:
        return None if bound in together else _BOUND.format(node=bound)
    if only := node_of(thing):
        return None if only in together else _ONLY.format(node=only)
    wanted = (thing.body.get("spec") or {}).get("nodeSelector")
    if not isinstance(wanted, Mapping):
        return None
    selected = [name for name, node in nodes.items() if wanted.items() <= node.metadata.labels.items()]
    return None if together.intersection(selected) else _NOT_SELECTED.format(nodes=_listed(selected))


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
