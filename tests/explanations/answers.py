"""What is said today of the claims of a recorded world: reason, request and numbers of devices."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Decider
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim
from dra_operator.explain import CLASS, DeviceCounts, Explainer
from dra_operator.explain.stages import Stage
from dra_operator.inventory import Features, Inventory
from dra_operator.ledger import Ledger

Wire = dict[str, Any]
_PUBLISHED: Final = {
    "nodes": "Node",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
}


def load(world: Mapping[str, Any]) -> tuple[Allocator, tuple[ResourceClaim, ...]]:
    """Return an allocator for a world, and the claims to be allocated together, of which at least one fails."""
    features = Features.named(world.get("features", {}))
    inventory, ledger = Inventory(), Ledger(shares=features.consumable_capacity)
    for name, kind in _PUBLISHED.items():
        for item in _read_all(world, name, kind):
            inventory.put(item)
    for claim in _read_all(world, "allocated", "ResourceClaim"):
        ledger.put(claim)
    allocator = Allocator(
        inventory,
        ledger,
        features=features,
        limits=Limits(seconds=None),
        clock=lambda: 0.0,
        share_ids=lambda: "id",
        admin_access=AdminAccess.ANY_NAMESPACE,
        decider=Decider(world.get("decider", "kube-scheduler")),
    )
    return allocator, tuple(_read_all(world, "claims", "ResourceClaim"))


def _read_all(world: Mapping[str, Any], name: str, kind: str) -> Iterator[Any]:
    return (apply_defaults(read_object(body, kind)) for body in world.get(name, ()))


def answers_today(world: Mapping[str, Any]) -> list[Wire]:
    """Return what is said of each claim of a world, with its text under `message`; nothing if they are allocated."""
    allocator, claims = load(world)
    explainer, found = Explainer(allocator), list[Wire]()
    explanations = explainer.explain(claims, allocator.allocate(claims))
    for claim, explanation in zip(claims, explanations, strict=False):
        answer: Wire = {"reason": str(explanation.reason)}
        if explanation.request:
            answer["request"] = explanation.request
        answer["counts"] = {item.name: _numbers(counts) for item, counts in explainer.count_devices(claim)}
        found.append(answer | {"message": explanation.message})
    return found


def _numbers(counts: DeviceCounts) -> Wire:
    refusals = Counter[str]()
    for stage, found in counts.refusals.items():
        refusals[_name(stage)] += found.count
    holders = sorted((str(reason), len(claims)) for reason, claims in counts.holders.items())
    return {
        "published": counts.figures.published,
        "in_class": counts.figures.in_class,
        "refused": {name: number for name, number in sorted(refusals.items()) if number},
        "holders": {name: number for name, number in holders if number},
        "left": counts.figures.left,
        "most_on_a_node": counts.most_on_a_node,
        "most_if_idle": counts.most_if_idle,
    }


def _name(stage: Stage) -> str:
    if isinstance(stage, int) and stage <= CLASS:
        return "class"
    return f"selector {stage}" if isinstance(stage, int) else str(stage)
