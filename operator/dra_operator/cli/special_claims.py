"""Special claims: what kube-scheduler makes of pods that ask for devices as extended resources.

A container may ask for `example.com/gpu: 1` and know nothing of claims. Where a DeviceClass serves that name and no
device plugin of the node does, the scheduler makes one claim for all of the pod's containers. Here it is made in
memory, after all other claims are decided: a pod runs on one node, so its special claim must fit where its other
claims can be used.
Source: docs/dra-semantics 8.7; the claim itself is made by `allocator.extended`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dra_operator.allocator.extended import (
    CLASS_PREFIX,
    SPECIAL_CLAIM_ANNOTATION,
    classes_by_resource,
    extended_resources,
    special_claim,
    unserved,
)
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.quantity import NANO, Quantity
from dra_operator.api.types import DeviceClass, Node, NodeSelector, Pod, ResourceClaim
from dra_operator.cli.gather import Gathered, Thing
from dra_operator.cli.offline import Cluster, Option, Outcome, State, by_age
from dra_operator.cli.pod_claims import SPECIAL, claim_of, is_over, named_claims, special_prefix, subject


@dataclass(slots=True)
class SpecialClaims:
    """What became of the special claims; lines worth knowing; lines about pods that fit on no node."""

    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def decide_special_claims(gathered: Gathered, cluster: Cluster, decided: Sequence[Outcome]) -> SpecialClaims:
    """Make and decide the special claims that pods are missing, the oldest pod first.

    `decided` are the outcomes of all other claims.
    """
    found = SpecialClaims()
    classes = classes_by_resource(thing.obj for thing in gathered.of("DeviceClass"))
    for thing in sorted(gathered.of("Pod"), key=by_age):
        wanted = extended_resources(thing.obj)
        if not wanted or _is_settled(gathered, thing.obj):
            continue
        asks = _Asks(thing, classes, wanted)
        if problem := asks.find_problem():
            found.problems.append(f"{thing.place}: {problem}")
        elif any(name in classes for name in wanted):
            _decide(asks, cluster, decided, found)
    return found


def _decide(asks: "_Asks", cluster: Cluster, decided: Sequence[Outcome], found: SpecialClaims) -> None:
    options, plugged = asks.options(cluster.nodes)
    if plugged:
        found.notes.append(
            f"{subject(asks.pod)}: device plugins serve it on {', '.join(plugged)}; it needs no claim there"
        )
    if not options:
        if not plugged:
            missing = ", ".join(
                sorted({name for node in cluster.nodes.values() for name in asks.unserved(node)})
            )
            found.problems.append(
                f"{asks.thing.place}: {subject(asks.pod)}: no DeviceClass and no node has {missing}"
            )
        return
    beside = [outcome for outcome in decided if _is_of(asks.pod, outcome.claim)]
    waiting = [outcome for outcome in beside if outcome.state is State.PENDING]
    if waiting:
        metadata = waiting[0].claim.metadata
        text = f"claim {metadata.namespace}/{metadata.name} of the same pod waits"
        outcome = Outcome(options[0].thing, State.PENDING, reason=waiting[0].reason, message=text)
    else:
        selectors = [item.allocation.node_selector for item in beside if item.allocation is not None]
        outcome = cluster.decide_first(
            [
                replace(option, nodes=tuple(usable(cluster.nodes, option.nodes, selectors)))
                for option in options
            ]
        )
    found.outcomes.append(outcome)


@dataclass(frozen=True, slots=True)
class _Asks:
    """A pod that asks for extended resources, the classes that serve any, and the names it asks for."""

    thing: Thing
    classes: Mapping[str, DeviceClass]
    wanted: Sequence[str]

    @property
    def pod(self) -> Pod:
        pod: Pod = self.thing.obj
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
        options: list[Option] = []
        plugged: list[str] = []
        for name, node in nodes.items():
            if self.unserved(node):
                continue
            claim = special_claim(self.pod, self.classes, node.status.allocatable)
            if claim is None:
                plugged.append(name)
            elif options and options[-1].thing.obj.spec == claim.spec:
                options[-1] = replace(options[-1], nodes=(*options[-1].nodes, name))
            else:
                options.append(Option(self._claim(claim), (name,)))
        return options, plugged

    def _claim(self, claim: ResourceClaim) -> Thing:
        return claim_of(
            self.thing,
            special_prefix(self.pod.metadata.name),
            purpose=SPECIAL,
            spec=claim.spec,
            labels={},
            annotations=claim.metadata.annotations,
        )


def _is_settled(gathered: Gathered, pod: Pod) -> bool:
    """True if a pod needs no special claim to be made: it has one, or got past the scheduler without, or is over."""
    if is_over(pod) or pod.spec.node_name or pod.status.extended_resource_claim_status is not None:
        return True
    return any(
        _is_owned(pod, thing.obj) and SPECIAL_CLAIM_ANNOTATION in thing.obj.metadata.annotations
        for thing in gathered.of("ResourceClaim")
    )


def _is_of(pod: Pod, claim: ResourceClaim) -> bool:
    """True if a pod uses a claim, by name or as its owner."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    return claim.metadata.name in named_claims(pod) or _is_owned(pod, claim)


def _is_owned(pod: Pod, claim: ResourceClaim) -> bool:
    # A pod of a file may have no uid, and then the owner of a claim that was made for it has none either.
    metadata = pod.metadata
    return claim.metadata.namespace == metadata.namespace and any(
        owner.controller and (owner.name, owner.uid) == (metadata.name, metadata.uid)
        for owner in claim.metadata.owner_references
    )


def usable(
    nodes: Mapping[str, Node], names: Iterable[str], selectors: Sequence[NodeSelector | None]
) -> Iterator[str]:
    """Yield the nodes of `names` where allocations with these node selectors can be used."""
    for name in names:
        if all(selector is None or _selects(selector, nodes[name]) for selector in selectors):
            yield name


def _selects(selector: NodeSelector, node: Node) -> bool:
    try:
        return matches(selector, node.metadata.name, node.metadata.labels)
    except NodeSelectorError:
        return False
