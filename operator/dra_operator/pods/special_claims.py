"""Special claims: what kube-scheduler makes of pods that ask for devices as extended resources.

A container may ask for `example.com/gpu: 1` and know nothing of claims. Where a DeviceClass serves that name and no
device plugin of the node does, the scheduler makes one claim for all of the pod's containers; it must fit where the
pod's other claims can be used, which are decided before.
Source: docs/dra-semantics 8.7; the claim itself is made by `allocator.extended`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from dra_operator.allocator.extended import (
    CLASS_PREFIX,
    classes_by_resource,
    extended_resources,
    special_claim,
    unserved,
)
from dra_operator.api.core import Node, Pod
from dra_operator.api.names import SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.types import DeviceClass, ResourceClaim
from dra_operator.pods.claims import (
    SPECIAL,
    ClaimsOfPods,
    PodKey,
    build_claim,
    is_over,
    pod_key,
    special_prefix,
    subject,
)
from dra_operator.pods.nodes import usable
from dra_operator.pods.objects import ObjectRecord, ObjectSet, by_priority
from dra_operator.pods.scheduler import Option, Outcome, Scheduler, State
from dra_operator.pods.workloads import node_of


@dataclass(slots=True)
class SpecialClaims:
    """What became of the special claims; lines worth knowing; lines about pods that fit on no node."""

    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def decide_special_claims(
    objects: ObjectSet, scheduler: Scheduler, decided: Sequence[Outcome]
) -> SpecialClaims:
    """Make and decide the special claims that pods are missing, in the order in which pods are scheduled.

    `decided` are the outcomes of all other claims.
    """
    found = SpecialClaims()
    classes = classes_by_resource(record.obj for record in objects.of_kind("DeviceClass"))
    claims, made = ClaimsOfPods(decided, lambda outcome: outcome.claim), _made(objects)
    others: dict[tuple[str, ...], list[ObjectRecord]] = {}
    for record in sorted(objects.of_kind("Pod"), key=by_priority):
        wanted = extended_resources(record.obj)
        if not wanted or _is_settled(record.obj, made):
            continue
        asks = ExtendedResources(record, classes, wanted)
        if problem := asks.find_problem():
            found.problems.append(f"{record.place}: {problem}")
        elif any(name in classes for name in wanted):
            _decide(asks, scheduler, claims.of_pod(record.obj), found)
        else:
            others.setdefault(tuple(wanted), []).append(record)
    _report_unprovided(others, [record.obj for record in objects.of_kind("Node")], classes, found)
    return found


def _report_unprovided(
    pods: Mapping[tuple[str, ...], Sequence[ObjectRecord]],
    nodes: Sequence[Node],
    classes: Iterable[str],
    found: SpecialClaims,
) -> None:
    """Tell of pods that ask for resources which no class provides, by what they ask for.

    Without Nodes, a device plugin may provide them.
    """
    provided = {name for node in nodes for name in (*node.status.allocatable, *node.status.capacity)}
    named = [name for name in classes if not name.startswith(CLASS_PREFIX)]
    for wanted, records in pods.items():
        missing = [name for name in wanted if name not in provided]
        if not missing:
            continue
        others = f" and {len(records) - 1} more" if len(records) > 1 else ""
        text = f"{records[0].place}: {subject(records[0].obj)}{others}: "
        close = [json.dumps(other) for name in missing for other in get_close_matches(name, named, 1)]
        hint = f"; did you mean {' and '.join(close)}?" if close else ""
        if nodes:
            found.problems.append(f"{text}no DeviceClass and no node has {', '.join(missing)}{hint}")
        else:
            found.notes.append(
                f"{text}no DeviceClass has {', '.join(missing)}, and no Node is given that could{hint}"
            )


def _decide(
    asks: "ExtendedResources", scheduler: Scheduler, beside: Sequence[Outcome], found: SpecialClaims
) -> None:
    only = node_of(asks.record)
    nodes = {name: node for name, node in scheduler.nodes.items() if only in (None, name)}
    options, plugged = asks.options(nodes)
    if plugged:
        found.notes.append(
            f"{subject(asks.pod)}: device plugins serve it on {', '.join(plugged)}; it needs no claim there"
        )
    if not options:
        if not plugged:
            missing = ", ".join(sorted({name for node in nodes.values() for name in asks.unserved(node)}))
            found.problems.append(
                f"{asks.record.place}: {subject(asks.pod)}: no DeviceClass and no node has {missing}"
            )
        return
    waiting = [outcome for outcome in beside if outcome.state is State.PENDING]
    if waiting:
        metadata = waiting[0].claim.metadata
        text = f"claim {metadata.namespace}/{metadata.name} of the same pod waits"
        outcome = Outcome(options[0].record, State.PENDING, reason=waiting[0].reason, message=text)
    else:
        allocations = [item.allocation for item in beside if item.allocation is not None]
        runnable = scheduler.placement.find_runnable(asks.record)
        names = scheduler.nodes.keys() if runnable is None else {*runnable.nodes}
        outcome = scheduler.decide_first(
            [
                replace(
                    option,
                    nodes=tuple(
                        name for name in usable(scheduler.nodes, option.nodes, allocations) if name in names
                    ),
                )
                for option in options
            ],
            asks.record,
        )
        if outcome.node and not asks.pod.spec.node_name:
            scheduler.placement.release(asks.record)
            scheduler.placement.place(asks.record, outcome.node)
    found.outcomes.append(outcome)


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """A pod that asks for extended resources, the classes that serve any, and the names it asks for."""

    record: ObjectRecord
    classes: Mapping[str, DeviceClass]
    wanted: Sequence[str]

    @property
    def pod(self) -> Pod:
        """The pod."""
        pod: Pod = self.record.obj
        return pod

    def find_problem(self) -> str | None:
        """Return what is wrong with what is asked for, or None."""
        for name in self.wanted:
            if name.startswith(CLASS_PREFIX) and name not in self.classes:
                return f'{subject(self.pod)}: {name}: there is no DeviceClass "{name.removeprefix(CLASS_PREFIX)}"'
        for name, amount in self._amounts():
            # The API server does not take such a pod.
            if amount.nano < 0 or amount.nano % NANO:
                return f"{subject(self.pod)}: {name}: {amount} is no number of devices: write a whole number"
        return None

    def _amounts(self) -> Iterator[tuple[str, Quantity]]:
        spec = self.pod.spec
        for container in (*spec.init_containers, *spec.containers):
            for amounts in (container.resources.limits, container.resources.requests):
                yield from ((name, amount) for name, amount in amounts.items() if name in self.wanted)

    def unserved(self, node: Node) -> tuple[str, ...]:
        """Return what neither a class nor the node has."""
        return unserved(self.pod, self.classes, node.status.allocatable)

    def options(self, nodes: Mapping[str, Node]) -> tuple[list[Option], list[str]]:
        """Return the claims, each for a run of nodes in the order of nodes, and the nodes that need none."""
        runs: list[tuple[ResourceClaim, list[str]]] = []
        plugged: list[str] = []
        # Nodes are many, and what they have of these resources is the same on most.
        known: dict[tuple[str | None, ...], tuple[bool, ResourceClaim | None]] = {}
        for name, node in nodes.items():
            allocatable = node.status.allocatable
            has = tuple(str(allocatable[item]) if item in allocatable else None for item in self.wanted)
            if has not in known:
                known[has] = not self.unserved(node), special_claim(self.pod, self.classes, allocatable)
            is_served, claim = known[has]
            if not is_served:
                continue
            if claim is None:
                plugged.append(name)
            elif runs and runs[-1][0] == claim:
                runs[-1][1].append(name)
            else:
                runs.append((claim, [name]))
        return [Option(self._claim(claim), tuple(names)) for claim, names in runs], plugged

    def _claim(self, claim: ResourceClaim) -> ObjectRecord:
        return build_claim(
            self.record,
            special_prefix(self.pod.metadata.name),
            purpose=SPECIAL,
            spec=claim.spec,
            labels={},
            annotations=claim.metadata.annotations,
        )


def _made(objects: ObjectSet) -> set[PodKey]:
    """Return the pods that special claims were made for."""
    return {
        (claim.metadata.namespace, owner.name, owner.uid)
        for record in objects.of_kind("ResourceClaim")
        for claim in (record.obj,)
        if SPECIAL_CLAIM_ANNOTATION in claim.metadata.annotations
        for owner in claim.metadata.owner_references
        if owner.controller
    }


def _is_settled(pod: Pod, made: AbstractSet[PodKey]) -> bool:
    """True if a pod needs no special claim to be made: it has one, or got past the scheduler without, or is over."""
    if is_over(pod) or pod.spec.node_name or pod.status.extended_resource_claim_status is not None:
        return True
    return pod_key(pod) in made
