"""What the operator decides in a world, and what is wrong with it."""

import itertools
import time

from decisionfuzz.brute_force import find_fault, find_first_node
from decisionfuzz.world import World
from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.reasons import Reason
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import Ledger
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import read_requirements
from dra_operator.pods.pod_decision import PodDecider, PodDecision, PodExplanation


def decide(world: World) -> PodDecision | PodExplanation:
    """Return what is decided about the pod of a world."""
    inventory, ledger, cluster = (
        Inventory(settlement=Settlement() if world.owns else None),
        Ledger(),
        ClusterPods(),
    )
    claims: dict[tuple[str, str], ResourceClaim] = {}
    for body in world.bodies():
        kind = body["kind"]
        if kind in ("Pod", "Node", "DeviceClass"):
            cluster.put(kind, body)
        if kind == "ResourceClaim":
            claim: ResourceClaim = apply_defaults(read_object(body, kind))
            claims[claim.metadata.namespace, claim.metadata.name] = claim
            ledger.put(claim)
        elif kind != "Pod":
            inventory.put(apply_defaults(read_object(body, kind)))
    if world.owns:
        inventory.settle(set(), inventory.pools.keys())
    numbers = itertools.count()
    allocator = Allocator(inventory, ledger, clock=time.monotonic, share_ids=lambda: f"share-{next(numbers)}")
    decider = PodDecider(Explainer(allocator), cluster, claims.get, lambda _: None)
    version = ledger.version
    found = decider.decide(read_object(body, "Pod"), read_requirements(body))
    assert ledger.version == version
    return found


def find_error(world: World) -> str:
    """Return what is wrong with what is decided in a world, or nothing."""
    expected, found = find_first_node(world), decide(world)
    if isinstance(found, PodDecision):
        if found.node != expected:
            return f"node {found.node} instead of {expected}"
        return find_fault(world, found.node, found.allocations)
    if expected is not None:
        return f"{found} instead of node {expected}"
    if found.node or not found.message or found.reason is Reason.NOT_SCHEDULED:
        return f"no reason to wait: {found}"
    return ""
