"""Special claims: what kube-scheduler makes of pods that ask for devices as extended resources.

A container may ask for `example.com/gpu: 1` and know nothing of claims. Where a DeviceClass serves that name and no
device plugin of the node does, the scheduler makes one claim for all of the pod's containers, which is decided with the
pod's other claims.
Source: docs/dra-semantics 8.7; the claim itself is made by `allocator.extended`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from dra_operator.allocator.extended import CLASS_PREFIX, classes_by_resource, extended_resources
from dra_operator.api.core import Node, Pod
from dra_operator.api.names import POD_CLAIM_NAME, SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.types import DeviceClass, ResourceClaim
from dra_operator.pods.claims import SPECIAL, PodKey, build_claim, is_over, pod_key, special_prefix, subject
from dra_operator.pods.objects import ObjectRecord, ObjectSet, by_priority


@dataclass(slots=True)
class AskingPods:
    """The pods that need special claims; lines worth knowing; lines about pods that get none, as something is wrong."""

    pods: set[PodKey] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def find_asking_pods(objects: ObjectSet) -> AskingPods:
    """Return the pods for which kube-scheduler makes special claims, and has not made them."""
    found, made = AskingPods(), find_made(objects.of_kind("ResourceClaim"))
    classes = classes_by_resource(record.obj for record in objects.of_kind("DeviceClass"))
    nodes: list[Node] = [record.obj for record in objects.of_kind("Node")]
    provided = {name for node in nodes for name in (*node.status.allocatable, *node.status.capacity)}
    absent: dict[tuple[bool, tuple[str, ...]], list[ObjectRecord]] = {}
    for record in sorted(objects.of_kind("Pod"), key=by_priority):
        pod: Pod = record.obj
        wanted = extended_resources(pod)
        # One that has a node got past the scheduler without a claim.
        is_settled = pod.spec.node_name or pod.status.extended_resource_claim_status is not None
        if not wanted or is_settled or is_over(pod) or "" in made.get(pod_key(pod), ()):
            continue
        if problem := find_problem(pod, classes, wanted):
            found.problems.append(f"{record.place}: {problem}")
        elif names := tuple(name for name in wanted if name not in classes and name not in provided):
            # Without Nodes, a device plugin may provide all of it.
            is_certain = bool(nodes) or len(names) < len(wanted)
            absent.setdefault((is_certain, names), []).append(record)
        elif any(name in classes for name in wanted):
            found.pods.add(pod_key(pod))
    known = [name for name in classes if not name.startswith(CLASS_PREFIX)]
    for (is_certain, names), records in absent.items():
        others = f" and {len(records) - 1} more" if len(records) > 1 else ""
        text = f"{records[0].place}: {subject(records[0].obj)}{others}: no DeviceClass"
        close = [json.dumps(other) for name in names for other in get_close_matches(name, known, 1)]
        hint = f"; did you mean {' and '.join(close)}?" if close else ""
        if is_certain:
            found.problems.append(f"{text} and no node has {', '.join(names)}{hint}")
        else:
            found.notes.append(f"{text} has {', '.join(names)}, and no Node is given that could{hint}")
    return found


def find_problem(pod: Pod, classes: Mapping[str, DeviceClass], wanted: Sequence[str]) -> str | None:
    """Return what is wrong with the extended resources that a pod asks for, or None; `classes` is by resource."""
    for name in wanted:
        if name.startswith(CLASS_PREFIX) and name not in classes:
            return f'{subject(pod)}: {name}: there is no DeviceClass "{name.removeprefix(CLASS_PREFIX)}"'
    for name, amount in _amounts(pod):
        # The API server does not take such a pod.
        if name in wanted and (amount.nano < 0 or amount.nano % NANO):
            return f"{subject(pod)}: {name}: {amount} is no number of devices: write a whole number"
    return None


def _amounts(pod: Pod) -> Iterator[tuple[str, Quantity]]:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for amounts in (container.resources.limits, container.resources.requests):
            yield from amounts.items()


def build_special(pod: ObjectRecord, claim: ResourceClaim) -> ObjectRecord:
    """Return the special claim of a pod as it is stored, with a name."""
    return build_claim(
        pod,
        special_prefix(pod.obj.metadata.name),
        purpose=SPECIAL,
        spec=claim.spec,
        labels={},
        annotations=claim.metadata.annotations,
    )


def find_made(claims: Iterable[ObjectRecord]) -> dict[PodKey, dict[str, str]]:
    """Return the names of the claims that were made for pods, by entry; nothing is that of extended resources."""
    found = defaultdict[PodKey, dict[str, str]](dict)
    for record in claims:
        metadata = record.obj.metadata
        entry = metadata.annotations.get(POD_CLAIM_NAME)
        if entry is None and SPECIAL_CLAIM_ANNOTATION not in metadata.annotations:
            continue
        for owner in metadata.owner_references:
            if owner.controller and owner.kind == "Pod":
                found[metadata.namespace, owner.name, owner.uid][entry or ""] = metadata.name
    return found
