"""The state of a cluster in memory: the objects of files or of an API server, and what decides by them.

The same inventory, ledger and allocator as in the operator. What is not needed for a question is not made. A state is
used by one thread at a time: a question may try decisions in it, and takes them back.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Decider, claim_key
from dra_operator.api.core import Node
from dra_operator.api.names import share_id
from dra_operator.api.read import ObjectError
from dra_operator.api.types import ResourceClaim
from dra_operator.api.versions import RELEASED, RULES, Rules, rules_of
from dra_operator.inventory import Features, Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import Breakage, BrokenAllocations, Cause, ClaimKey, Ledger
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions import fault_texts
from dra_operator.questions.contents import LoadResult, choose_nodes
from dra_operator.questions.fault_texts import find_notes, find_owners

if TYPE_CHECKING:
    # Imported where they are made: counting devices takes no decision, and `kubectl dra top` would wait for the import.
    from dra_operator.allocator.allocator import Allocator
    from dra_operator.explain import Explainer
    from dra_operator.pods.claim_sets import SetDecider
    from dra_operator.pods.cluster_pods import ClusterPods
    from dra_operator.pods.placement import PodPlacement
    from dra_operator.pods.pod_decision import PodDecider
    from dra_operator.questions.claims import ConsumerIndex
    from dra_operator.questions.manifests import Source

_ENOUGH: Final = MappingProxyType(dict.fromkeys(("cpu", "memory", "ephemeral-storage", "pods"), "1P"))
_NOT_CHOSEN: Final = "left out by --node"
_HOW: Final = "give the slices a pool of their own, or the names of those they replace"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ClusterState:
    """Objects, and what is made of them.

    `objects` are all that could be read, `errors` lines about the others, `notes` lines about what was assumed and
    what is wrong. `inventory` is what exists, `ledger` what is used, `nodes` those that claims may go to, by name, and
    `are_nodes_assumed` if nobody gave any. `pods` are what pods have of nodes; `allocators` decide, each on behalf of
    its decider. `unread` are the kinds that could not be read, or not all of it, with the reason: what that makes of
    answers is in `dependencies`. `now` is the time of the state, in seconds since 1970. `rules` are those of the
    cluster's version of Kubernetes.
    """

    def __init__(
        self,
        objects: LoadResult,
        *,
        only_nodes: Sequence[str] = (),
        unread: Mapping[str, str] = _NOTHING,
        now: float | None = None,
        rules: Rules = RULES[RELEASED],
    ) -> None:
        """Make the state of some objects; `only_nodes` are those that claims may go to, all if empty.

        Raises UnknownObjectError for one of these that is not there.
        """
        self._given = objects
        self.objects = objects.copied()
        self.only_nodes = tuple(only_nodes)
        self.unread = dict(unread)
        self.now = time.time() if now is None else now
        self.rules = rules
        settlement = Settlement() if find_owners(objects) else None
        self.inventory = Inventory(settlement=settlement, full_names=rules.full_names)
        self.ledger = Ledger(full_names=rules.full_names)
        for kind in ("DeviceClass", "Namespace", "DeviceTaintRule", "ResourceSlice"):
            for record in objects.of_kind(kind):
                self.inventory.put(record.obj)
        nodes, self.are_nodes_assumed, self._assumptions = choose_nodes(objects, self.only_nodes)
        for name, node in nodes.items():
            self.inventory.put(node)
            if only_nodes and name not in only_nodes:
                # Nothing that a Node can have says so.
                self.inventory.nodes[name] = replace(self.inventory.nodes[name], unusable=_NOT_CHOSEN)
        self.nodes: Mapping[str, Node] = {
            name: node for name, node in nodes.items() if not only_nodes or name in only_nodes
        }
        if objects.daemon_sets:
            from dra_operator.questions.load import add_daemon_pods  # noqa: PLC0415 - as below

            add_daemon_pods(self.objects, self.nodes)
        for record in objects.of_kind("ResourceClaim"):
            self.ledger.put(record.obj)
        if settlement is not None:
            # All that is said to be owned counts as such: files do not tell for how long.
            self.inventory.settle(self.inventory.rules.keys(), self.inventory.pools.keys())

    @classmethod
    def load(
        cls,
        source: "Source",
        *,
        only_nodes: Sequence[str] = (),
        unread: Mapping[str, str] = _NOTHING,
        listed: Iterable[str] = (),
        now: float | None = None,
        rules: Rules | None = None,
    ) -> Self:
        """Return the state of some objects, given as mappings or as files and folders to read.

        What cannot be read is a line in `errors`, and the rest counts. An object that is there twice counts as it
        stands last. `listed` are kinds of which all objects are given, be it none: then no node is assumed where there
        is none. A snapshot says itself when it was taken, what could not be read then, and by which rules its cluster
        decides. Raises UnknownObjectError.
        """
        from dra_operator.questions.load import gather  # noqa: PLC0415 - what comes from an API server needs none
        from dra_operator.questions.manifests import find_header, read_source  # noqa: PLC0415

        if (header := find_header(source)) is not None:
            now, unread = header.taken if now is None else now, {**header.unread, **unread}
            listed = {*listed, "Node", "Pod", "Lease"}
            rules = rules or rules_of(header.kubernetes)
        objects = gather(read_source(source))
        objects.listed |= {*listed} - unread.keys()
        rules = rules or RULES[RELEASED]
        return cls(objects, only_nodes=only_nodes, unread=unread, now=now, rules=rules)

    def with_objects(self, source: "Source") -> Self:
        """Return a state with these objects; they take the place of those of their kind, namespace and name."""
        from dra_operator.questions.load import gather  # noqa: PLC0415 - as above
        from dra_operator.questions.manifests import read_source  # noqa: PLC0415

        return self.overlaid(gather(read_source(source)))

    def overlaid(self, objects: LoadResult) -> Self:
        """Return a state with these objects; they take the place of those of their kind, namespace and name.

        Slices that make a pool invalid or incomplete which was not before, or that are of an older generation than
        those that are there, are lines in `errors`.
        """
        found = self.with_contents(self._given.overlaid(objects))
        if objects.of_kind("ResourceSlice"):
            before = {(item.kind, item.name, item.message) for item in self.inventory.problems()}
            found.objects.errors += [
                f'ResourceSlice "{item.name}": {item.message}: what is given contradicts what is published; {_HOW}'
                for item in found.inventory.problems()
                if item.kind == "ResourceSlice" and (item.kind, item.name, item.message) not in before
            ]
            found.objects.errors += self._outdated(objects)
        return found

    def _outdated(self, objects: LoadResult) -> Iterator[str]:
        """Yield a line for each slice whose pool is there in a newer generation: it would count for nothing."""
        for record in objects.of_kind("ResourceSlice"):
            spec = record.obj.spec
            pool = self.inventory.pools.get((spec.driver, spec.pool.name))
            newest = max(pool.generations(), default=0) if pool is not None else 0
            if spec.pool.generation < newest:
                yield (
                    f'ResourceSlice "{record.obj.metadata.name}": spec.pool.generation: {spec.pool.generation}: '
                    f'pool "{spec.pool.name}" is published in generation {newest}, beside which this one counts for '
                    f"nothing; {_HOW}"
                )

    def without(
        self,
        *,
        claims: Iterable[str] = (),
        pods: Iterable[str] = (),
        nodes: Iterable[str] = (),
        drivers: Iterable[str] = (),
    ) -> Self:
        """Return a state in which these are gone; claims and pods are named `namespace/name`.

        With a pod go what it has of its node, the claims made for it, and the allocations that only it uses; with a
        node its pods and slices; with a driver its slices. Raises UnknownObjectError.
        """
        from dra_operator.questions.contents import remove_objects  # noqa: PLC0415

        left = remove_objects(self._given, claims=claims, pods=pods, nodes=nodes, drivers=drivers)
        return self.with_contents(left)

    def with_contents(self, objects: LoadResult) -> Self:
        """Return a state of these objects instead, with all else as here."""
        return type(self)(
            objects, only_nodes=self.only_nodes, unread=self.unread, now=self.now, rules=self.rules
        )

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back at the end what is decided meanwhile: allocations that are assumed, and pods that are placed."""
        placed = self.placement.placed if "placement" in self.__dict__ else frozenset()
        try:
            with self.ledger.trial():
                yield
        finally:
            if "placement" in self.__dict__:
                self.placement.release_others(placed)

    @property
    def errors(self) -> list[str]:
        """Lines about objects that could not be read."""
        return self.objects.errors

    @property
    def unread_lines(self) -> tuple[str, ...]:
        """A line for each kind that could not be read."""
        return tuple([f"{kind}: {why}" for kind, why in sorted(self.unread.items())])

    @cached_property
    def notes(self) -> list[str]:
        """Lines about what was assumed, and what is wrong in the state."""
        return [*self._assumptions, *find_notes(self.objects, self.inventory, self.ledger)]

    @cached_property
    def allocators(self) -> "Mapping[Decider, Allocator]":
        """What decides, by whose devices it may take. Where nothing is owned, both take the same."""
        operator = self.build_allocator(Decider.OPERATOR, self.inventory)
        if self.inventory.settlement is None:
            return {Decider.OPERATOR: operator, Decider.KUBE_SCHEDULER: operator}
        other = self.build_allocator(Decider.KUBE_SCHEDULER, self.inventory)
        return {Decider.OPERATOR: operator, Decider.KUBE_SCHEDULER: other}

    @cached_property
    def explainers(self) -> "Mapping[Decider, Explainer]":
        """What says why these do not allocate a claim."""
        from dra_operator.explain import Explainer  # noqa: PLC0415

        explainers = {id(each): Explainer(each) for each in self.allocators.values()}
        return {decider: explainers[id(each)] for decider, each in self.allocators.items()}

    def build_allocator(self, decider: Decider, inventory: Inventory) -> "Allocator":
        """Return an allocator for an inventory, beside the ledger of this state."""
        from dra_operator.allocator.allocator import Allocator  # noqa: PLC0415

        return Allocator(
            inventory,
            self.ledger,
            limits=Limits(),
            clock=time.monotonic,
            share_ids=self._share_ids,
            decider=decider,
            features=Features(rules=self.rules),
        )

    @cached_property
    def pods(self) -> "ClusterPods":
        """What pods have of nodes, and which nodes suit others.

        What a node does not say to have of each, it has enough of.
        """
        return self._placed_pods[0]

    @cached_property
    def placement(self) -> "PodPlacement":
        """Where pods can run, as far as the objects say."""
        from dra_operator.pods.placement import PodPlacement  # noqa: PLC0415

        return PodPlacement(*self._placed_pods)

    @cached_property
    def _placed_pods(self) -> "tuple[ClusterPods, Callable[[tuple[str, str]], bool]]":
        return _read_placed_pods(self.objects, self.nodes)

    @cached_property
    def consumers(self) -> "ConsumerIndex":
        """Who uses claims."""
        from dra_operator.questions.claims import ConsumerIndex  # noqa: PLC0415

        return ConsumerIndex.build(self)

    @cached_property
    def breakages(self) -> Mapping[ClaimKey, Sequence[Breakage]]:
        """Why each allocation that cannot be used any more is broken. Nodes that nobody gives are not gone."""
        allocations = BrokenAllocations(self.inventory, missing_seconds=0, rules=self.rules)
        for record in self.objects.of_kind("ResourceClaim"):
            allocations.put(claim_key(record.obj), record.obj.status.allocation)
        allocations.refresh(0.0, self.now)
        are_nodes_known = self.has_all("Node")
        found = {
            key: [item for item in each if are_nodes_known or item.cause is not Cause.NODE_GONE]
            for key, each in allocations.found.items()
        }
        return {key: each for key, each in found.items() if each}

    @cached_property
    def broken(self) -> Mapping[ClaimKey, str]:
        """What is wrong with each allocation that cannot be used any more."""
        return {key: fault_texts.broken(each) for key, each in self.breakages.items()}

    def new_decider(self) -> "SetDecider":
        """Return what decides claims together with the pods that use them, within a trial."""
        from dra_operator.pods.claim_sets import SetDecider  # noqa: PLC0415

        return SetDecider(
            self.explainers, self.placement, self.find_claim, self.has_template, self.are_nodes_assumed
        )

    @cached_property
    def pod_deciders(self) -> "Mapping[Decider, PodDecider]":
        """What decides pods by the present state, each on behalf of its decider."""
        from dra_operator.pods.pod_decision import PodDecider  # noqa: PLC0415

        lookups = self.find_claim, self.has_template
        return {
            decider: PodDecider(each, self.pods, *lookups, decider, Limits())
            for decider, each in self.explainers.items()
        }

    def has_all(self, kind: str) -> bool:
        """Return whether all objects of a kind are known: some are given or it was listed, and all could be read.

        Files may leave out nodes and pods altogether: that there is none of them proves nothing.
        """
        is_there = kind in self.objects.listed or bool(self.objects.of_kind(kind))
        return is_there and kind not in self.unread

    def find_record(self, kind: str, namespace: str, name: str) -> ObjectRecord | None:
        """Return an object, or None."""
        return self.objects.records.get((kind, namespace, name))

    def find_claim(self, key: ClaimKey) -> ResourceClaim | None:
        """Return the claim of a namespace and name, or None."""
        record = self.find_record("ResourceClaim", *key)
        return None if record is None else record.obj

    def has_template(self, key: tuple[str, str]) -> bool | None:
        """Return whether there is a template of a namespace and name; None if nobody knows."""
        found = self.find_record("ResourceClaimTemplate", *key) is not None
        return None if not found and "ResourceClaimTemplate" in self.unread else found

    @cached_property
    def _share_ids(self) -> Callable[[], str]:
        return _share_ids(self.objects)


def _share_ids(gathered: LoadResult) -> Callable[[], str]:
    """Return a source of share ids: the same each time, and none of those in use."""
    used = {
        result.share_id
        for record in gathered.of_kind("ResourceClaim")
        if record.obj.status.allocation is not None
        for result in record.obj.status.allocation.devices.results
    }
    numbers = Random(0)  # noqa: S311 - the ids need to be the same each time, not secret

    def fresh() -> str:
        while (found := share_id(numbers.getrandbits)) in used:
            pass
        return found

    return fresh


def _read_placed_pods(
    gathered: LoadResult, nodes: Mapping[str, Node]
) -> "tuple[ClusterPods, Callable[[tuple[str, str]], bool]]":
    """Return what pods have of nodes, and which volume claims count.

    What a node does not say to have of each, it has enough of. A volume claim that nobody had the time to bind counts
    for nothing. Where all were listed, one that is not among them is missing; else it may be there.
    """
    from dra_operator.pods.cluster_pods import ClusterPods  # noqa: PLC0415 - as above
    from dra_operator.pods.workloads import part  # noqa: PLC0415

    cluster = ClusterPods()
    for kind in ("DeviceClass", "Pod"):
        for record in gathered.of_kind(kind):
            # Of a pod with a slip in its status the rest counts.
            with suppress(ObjectError):
                cluster.put(kind, record.body)
    bodies = {record.obj.metadata.name: record.body for record in gathered.of_kind("Node")}
    for name, node in nodes.items():
        cluster.put(
            "Node",
            with_enough(bodies.get(name, {"metadata": {"name": name, "labels": node.metadata.labels}})),
        )
    claims: dict[tuple[str, str], bool] = {}
    for (kind, namespace, name), body in gathered.volumes.items():
        is_claim = kind == "PersistentVolumeClaim"
        counts = bool(body["metadata"].get("uid") or part(body, "spec").get("volumeName"))
        if is_claim:
            claims[namespace, name] = counts
        if counts or not is_claim:
            cluster.put(kind, body)
    kind, listed = "PersistentVolumeClaim", gathered.listed
    return cluster, lambda key: claims.get(key, kind in listed or f"{kind}/{key[0]}" in listed)


def with_enough(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a node that has enough of each resource of which it does not say how much."""
    status = body.get("status") or {}
    return {**body, "status": {**status, "allocatable": {**_ENOUGH, **(status.get("allocatable") or {})}}}
