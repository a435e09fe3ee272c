"""Nodes without devices of a driver that should have some: silently they lack the driver, or it found nothing.

Of a driver the nodes count that publish devices of it. A node lacks it if its slice is empty, if a claim holds a device
of it there, if it has all labels that these nodes have in common, or if a DaemonSet runs there that runs on all of
these, and of whose nodes most publish. Labels that every node has, and those of places, say nothing.
Source: docs/audit.md, "Without devices".
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from typing import Final

from dra_operator.api.core import Pod
from dra_operator.api.text import listed
from dra_operator.pods.claims import is_over
from dra_operator.questions.claims import allocated_claims, node_of_claim, results_of
from dra_operator.questions.device_table import DeviceTable
from dra_operator.questions.partial import MISSING
from dra_operator.questions.state import ClusterState

_PLACES: Final = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
)
"""What labels begin with that say where a node is, and not what."""


@dataclass(frozen=True, slots=True)
class NodeWithoutDevices:
    """A node that publishes no device of a driver, and why it should.

    `is_certain` unless most nodes of which the same is so publish none. `condition` is why it cannot be used.
    """

    node: str
    driver: str
    why: str
    is_certain: bool
    condition: str = ""


@dataclass(frozen=True, slots=True)
class MissingDevices:
    """Nodes without devices, by name and driver. `partial` has a line for each thing that the answer lacks."""

    items: tuple[NodeWithoutDevices, ...]
    partial: tuple[str, ...] = ()


def find_nodes_without_devices(state: ClusterState) -> MissingDevices:
    """Return the nodes that should publish devices of a driver and do not. Raises QuestionError without nodes."""
    partial = MISSING.find_missing(state.unread)
    table = DeviceTable(state)
    publishing: defaultdict[str, set[str]] = defaultdict(set)
    for row in table.rows:
        if row.node in state.nodes:
            publishing[row.pool.key[0]].add(row.node)
    empty: defaultdict[str, set[str]] = defaultdict(set)
    for record in state.objects.of_kind("ResourceSlice"):
        driver, node = record.obj.spec.driver, record.obj.spec.node_name or ""
        if node in state.nodes and node not in publishing[driver]:
            empty[driver].add(node)
    daemons, claims = _find_daemons(state), _find_holders(state)
    items = [
        NodeWithoutDevices(node, driver, why, is_certain, table.find_node_condition(node))
        for driver in {*publishing, *empty, *claims}
        for node, (why, is_certain) in _find_missing(
            state, publishing[driver], empty[driver], daemons, claims.get(driver, {})
        ).items()
    ]
    items.sort(key=lambda item: (item.node, item.driver))
    return MissingDevices(tuple(items), partial)


def _find_missing(
    state: ClusterState,
    publishing: AbstractSet[str],
    empty: AbstractSet[str],
    daemons: Mapping[str, AbstractSet[str]],
    claims: Mapping[str, list[str]],
) -> dict[str, tuple[str, bool]]:
    """Return why nodes lack one driver, and whether that is certain, by name."""
    found = {node: ("its slice has no devices", len(publishing) >= len(empty)) for node in empty}
    for node in claims.keys() - publishing:
        if node in state.nodes:
            found.setdefault(node, (f"claim {listed(sorted(claims[node]))} holds a device there", True))
    if not publishing:
        return found
    like = f"as {len(publishing)} node{'s' if len(publishing) > 1 else ''} with devices"
    for daemon, nodes in sorted(daemons.items()):
        if nodes >= publishing and len(publishing | (nodes & empty)) * 2 > len(nodes):
            for node in nodes - publishing:
                found.setdefault(node, (f"DaemonSet {daemon} runs there, {like}", True))
    marks = _find_marks(state, publishing)
    alike = {name for name, node in state.nodes.items() if marks and marks <= node.metadata.labels.items()}
    is_usual = len(publishing | (alike & empty)) * 2 > len(alike)
    text = ", ".join(sorted(f"{key}={value}" if value else key for key, value in marks))
    for node in alike - publishing:
        found.setdefault(node, (f"it is labelled {text}, {like}", is_usual))
    return found


def _find_marks(state: ClusterState, nodes: Iterable[str]) -> AbstractSet[tuple[str, str]]:
    """Return the labels that some nodes have in common, and not all nodes have."""
    labels = [frozenset(state.nodes[name].metadata.labels.items()) for name in sorted(nodes)]
    everywhere = reduce(
        frozenset.intersection, [frozenset(node.metadata.labels.items()) for node in state.nodes.values()]
    )
    common = reduce(frozenset.intersection, labels)
    return {item for item in common - everywhere if not item[0].startswith(_PLACES)}


def _find_daemons(state: ClusterState) -> dict[str, set[str]]:
    """Return the nodes on which each DaemonSet, by namespace and name, has a pod."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in state.objects.of_kind("Pod"):
        pod: Pod = record.obj
        for owner in pod.metadata.owner_references:
            if owner.controller and owner.kind == "DaemonSet" and not is_over(pod):
                found[f"{pod.metadata.namespace}/{owner.name}"].update(
                    {pod.spec.node_name} & state.nodes.keys()
                )
    return found


def _find_holders(state: ClusterState) -> dict[str, dict[str, list[str]]]:
    """Return the claims that hold devices on each node, by driver."""
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for claim, node, driver in _held(state):
        found[driver].setdefault(node, []).append(claim)
    return found


def _held(state: ClusterState) -> Iterator[tuple[str, str, str]]:
    for claim in allocated_claims(state.objects):
        if node := node_of_claim(claim):
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            # A pool of the network is on no node, and one that is named like the node was there.
            drivers = {each.driver for each in results_of(claim) if each.pool == node}
            yield from ((name, node, driver) for driver in sorted(drivers))
