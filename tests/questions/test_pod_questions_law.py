"""Random worlds: what pods are told that are pinned, name something absent, or have all their claims allocated.

It is held against kube-scheduler's filters as `naive_node_fit` writes them, and against devices counted by hand.
"""

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from dra_operator import Cluster
from factories import claim, request
from naive_node_fit import find_condition
from node_fit_scenarios import HOSTNAME, REQUIRED, bound, random_node, random_pod
from small_cluster import CLASS, devices, holding, template

WORLDS = 50
BATCHES = range(8)
Body = dict[str, Any]


@dataclass
class World:
    """A cluster of a few nodes with devices, of which some are held, and pods that run there."""

    random: Random
    nodes: list[Body] = field(default_factory=list)
    pods: list[Body] = field(default_factory=list)
    others: list[Body] = field(default_factory=list)
    free: dict[str, int] = field(default_factory=dict)
    held: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = self.random
        for name in (f"n{number}" for number in range(1, random.randint(2, 6))):
            node = random_node(random, name)
            node["metadata"]["uid"] = name
            # Of a file, a node without these has enough of them.
            for resource, amount in (("cpu", "4"), ("memory", "4Gi"), ("ephemeral-storage", "9Gi")):
                node["status"]["allocatable"].setdefault(resource, amount)
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            self.nodes.append(node)
            number, held = random.randint(0, 3), 0
            if number:
                self.others.append(devices(name, *(f"gpu-{index}" for index in range(number))))
                held = random.randint(0, number)
            self.held[name] = [f"{name}-{index}" for index in range(held)]
            self.others += [holding(f"{name}-{index}", name, f"gpu-{index}") for index in range(held)]
            self.free[name] = number - held
            for index in range(random.randint(0, 2)):
                self.pods.append(bound(self.pod(f"{name}-{index}"), name))

    def pod(self, name: str) -> Body:
        """Return a pod as it was taken by an API server, which asks for no devices."""
        found = random_pod(self.random, name, "team")
        found["metadata"]["uid"] = name
        return {**found, "status": {"phase": "Pending"}}

    def explain(self, asked: Body, *more: Body) -> Any:
        """Return what a pod is told."""
        state = Cluster.load(
            [CLASS, *self.nodes, *self.pods, *self.others, *more, asked],
            listed=("PersistentVolumeClaim", "PersistentVolume", "DeviceClass", "ResourceClaimTemplate"),
        )
        assert state.errors == []
        return state.explain("pod/team/asks")

    def conditions(self, asked: Body) -> dict[str, str | None]:
        """Return the first filter of each node that is against a pod."""
        return {node["metadata"]["name"]: find_condition(asked, node, self.pods) for node in self.nodes}

    def fits(self, asked: Body, count: int) -> bool:
        """Return whether some node suits a pod and has so many free devices."""
        return any(why is None and self.free[name] >= count for name, why in self.conditions(asked).items())


def make_world(question: str, batch: int, number: int) -> World:
    """Return one of the worlds in which a question is asked."""
    return World(Random(f"{question} {batch} {number}"))  # noqa: S311 - which world it is


def asking(world: World, count: int) -> tuple[Body, Body]:
    """Return a pod with a claim made for it, and that claim."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "asks", "uid": "asks", "controller": True}
    made = claim(
        "made", request("gpu", "gpu", count=count), namespace="team", uid="made", ownerReferences=[owner]
    )
    body = world.pod("asks")
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    body["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "made"}]
    return body, made


def pin(world: World, body: Body) -> list[str]:
    """Keep a pod to one to three nodes by its selector or affinity, and return them."""
    random, names = world.random, [node["metadata"]["name"] for node in world.nodes]
    spec = body["spec"]
    chosen = sorted(random.sample(names, min(len(names), random.randint(1, 3))))
    spec.pop("affinity", None)
    spec.pop("nodeSelector", None)
    if len(chosen) == 1 and random.random() < 0.5:
        spec["nodeSelector"] = {HOSTNAME: chosen[0]}
        return chosen
    named = {"key": HOSTNAME, "operator": "In", "values": chosen}
    spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [named]}]}}}
    return chosen


@pytest.mark.parametrize("batch", BATCHES)
def test_pinned_pod_is_told_what_the_filters_say_of_its_nodes(batch):
    """It fits exactly if one of its nodes suits it and has the devices; else each is named with its first obstacle."""
    for number in range(WORLDS):
        world = make_world("pinned", batch, number)
        count = world.random.randint(1, 2)
        asked, made = asking(world, count)
        chosen = pin(world, asked)

        answer = world.explain(asked, template(), made)

        assert (answer.state == "fits") is world.fits(asked, count), (batch, number, answer)
        found = world.conditions(asked)
        if answer.state != "fits" and any(found[name] for name in chosen):
            missing = [
                name
                for name in chosen
                if found[name] and not re.search(rf"\b{name}: [^;]*\b{found[name]}\b", answer.message)
            ]
            assert missing == [], (batch, number, found, answer.message)


def lack_volume_claim(asked: Body, more: list[Body]) -> str:
    """The pod names a volume claim that is not there."""
    asked["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "nopvc"}}]
    return "nopvc"


def lack_class(asked: Body, more: list[Body]) -> str:
    """The claim names a class that is not there."""
    more[-1]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpus"
    return "gpus"


def lack_template(asked: Body, more: list[Body]) -> str:
    """No claim is made, as the template is not there."""
    asked["status"].pop("resourceClaimStatuses")
    more.clear()
    return "gpu"


def lack_claim(asked: Body, more: list[Body]) -> str:
    """The pod names a claim that is not there."""
    asked["status"].pop("resourceClaimStatuses")
    asked["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "noclaim"}]
    return "noclaim"


def lack_scheduler(asked: Body, more: list[Body]) -> str:
    """No scheduler of the name looks at it."""
    asked["spec"]["schedulerName"] = "volcano"
    return "volcano"


def lack_resource(asked: Body, more: list[Body]) -> str:
    """A container asks for a resource that no class and no node has."""
    amounts = {"fleet.example.com/gpus": "1"}
    asked["spec"]["containers"].append({"name": "more", "image": "none", "resources": {"limits": amounts}})
    return "fleet.example.com/gpus"


LACKS = (lack_volume_claim, lack_class, lack_template, lack_claim, lack_scheduler, lack_resource)


@pytest.mark.parametrize("batch", BATCHES)
def test_what_is_absent_keeps_a_pod_waiting_and_is_named_unless_a_filter_comes_first(batch):
    """It never fits; where it would without that, the absent object is what the answer names."""
    for number in range(WORLDS):
        world = make_world("absent", batch, number)
        lack = LACKS[number % len(LACKS)]
        asked, made = asking(world, 1)
        would_fit = world.fits(asked, 1)
        more = [template(), made]

        name = lack(asked, more)
        answer = world.explain(asked, *more)

        assert (answer.state, answer.conclusion.value) == ("waits", "no"), (batch, number, lack, answer)
        if would_fit:
            assert name in answer.message, (batch, number, lack, answer.message)


@pytest.mark.parametrize("batch", BATCHES)
def test_pod_whose_claims_are_allocated_is_told_what_the_filters_say_of_their_nodes(batch):
    """It can be placed exactly if a node of all its claims suits it; else node and filter are named."""
    for number in range(WORLDS):
        world = make_world("allocated", batch, number)
        held = [name for names in world.held.values() for name in names]
        if not held:
            continue
        chosen = world.random.sample(held, min(len(held), world.random.choice((1, 1, 2))))
        asked = world.pod("asks")
        asked["spec"]["resourceClaims"] = [
            {"name": f"c{index}", "resourceClaimName": name} for index, name in enumerate(chosen)
        ]

        answer = world.explain(asked)

        nodes = {name.partition("-")[0] for name in chosen}
        found = world.conditions(asked)
        suits = len(nodes) == 1 and found[min(nodes)] is None
        assert (answer.reason != "AllocatedNodeUnsuitable") is suits, (batch, number, found, answer)
        if not suits:
            assert answer.conclusion.value == "no"
            assert all(node in answer.message for node in nodes), (batch, number, answer.message)
        if not suits and len(nodes) == 1:
            assert found[min(nodes)] in answer.message, (batch, number, found, answer.message)


@pytest.mark.parametrize("batch", BATCHES)
def test_waiting_counts_what_has_no_devices(batch):
    """Each pod without a node and with claims or the operator's gate, and each claim without devices that none uses."""
    for number in range(WORLDS):
        world = make_world("waiting", batch, number)
        random = world.random
        bodies: list[Body] = []
        expected: set[tuple[str, str]] = set()
        for index in range(random.randint(0, 4)):
            name, phase = f"w{index}", random.choice(("Pending", "Pending", "Running", "Succeeded"))
            body = world.pod(name)
            own = claim(f"{name}-gpu", request("gpu", "gpu"), namespace="team", uid=f"{name}-gpu")
            body["status"]["phase"] = phase
            if phase == "Running":
                body["spec"]["nodeName"] = "n1"
            if random.random() < 0.8:
                body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
                expected |= {("Pod", name)} if phase == "Pending" else set()
                expected |= {("ResourceClaim", f"{name}-gpu")} if phase == "Succeeded" else set()
            else:
                expected.add(("ResourceClaim", f"{name}-gpu"))
            bodies += [body, own]
        state = Cluster.load([CLASS, *world.nodes, *world.pods, *world.others, *bodies])

        assert {(each.kind, each.name) for each in state.waiting().items} == expected, (batch, number)
