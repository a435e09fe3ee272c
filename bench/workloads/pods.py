"""Pods with several claims, all of which have to fit on one node: what one claim takes, the others do not get."""

from collections.abc import Callable
from random import Random

from workloads.gpus import add_nics
from workloads.partitions import add_partitioned_gpus
from workloads.processors import CPU, add_processors
from workloads.scenario import (
    GPU,
    MOST_CLAIMS,
    PCIE_ROOT,
    Scenario,
    Wire,
    device_of,
    request,
)

_GPUS = 4
_Asked = tuple[list[Wire], list[Wire]]
"""The requests and constraints of a claim."""


def pods(claims: int, in_use: float) -> Callable[[Scenario, int], None]:
    """Return how to make a cluster in which this part of the GPUs is in use, and pods with so many claims each."""

    def make(scenario: Scenario, size: int) -> None:
        """Ask for a GPU and a NIC of one PCIe root, partitions of a GPU, a number of CPUs, and a whole GPU."""
        _add_nodes(scenario, size, in_use)
        for number in range(min(MOST_CLAIMS, 2 * size) // claims):
            asked = [_aligned, _cpus, _partitions, _whole]
            for kind in asked if claims == len(asked) else asked[number % 3 : number % 3 + 2]:
                claim = scenario.ask(*kind(scenario.random))
                owner = {"apiVersion": "v1", "kind": "Pod", "name": f"pod-{number}", "uid": f"pod-{number}"}
                claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]

    return make


def _add_nodes(scenario: Scenario, size: int, in_use: float) -> None:
    """Add nodes with partitionable GPUs, NICs and processors; so much of the GPUs is in use."""
    random = scenario.random
    scenario.add_class("gpu", f'device.driver == "{GPU}" && device.attributes["{GPU}"].type == "gpu"')
    scenario.add_class("mig", f'device.driver == "{GPU}" && device.attributes["{GPU}"].type == "mig"')
    scenario.add_class("cpu", f'device.driver == "{CPU}"')
    for node in scenario.add_nodes(size):
        add_partitioned_gpus(scenario, node, _GPUS)
        add_processors(scenario, node, in_use=random.random() < in_use)
        for number in range(_GPUS):
            if random.random() < in_use:
                device = f"gpu-{number}" if random.random() < 0.7 else f"gpu-{number}-3g-40gb-0"
                scenario.use(node, [device_of(GPU, node, device)])
    for published in scenario.slices:
        for device in published["spec"].get("devices", ()) if published["spec"]["driver"] == GPU else ():
            root = device["attributes"]["parentIndex"]["int"] // 2
            device["attributes"][PCIE_ROOT] = {"string": f"pci0000:{root:02x}"}
    add_nics(scenario, [{PCIE_ROOT: {"string": f"pci0000:{number // 2:02x}"}} for number in range(4)])


def _aligned(_: Random) -> _Asked:
    return [request("gpu", "gpu"), request("nic", "nic")], [{"matchAttribute": PCIE_ROOT}]


def _cpus(random: Random) -> _Asked:
    return [request("cpus", "cpu", capacity={"requests": {"cpu": str(random.randrange(1, 33))}})], []


def _partitions(random: Random) -> _Asked:
    profile = random.choice(["1g.10gb", "2g.20gb"])
    chosen = f'device.attributes["{GPU}"].profile == "{profile}"'
    return [request("mig", "mig", random.choice([1, 2, 3]), chosen)], [
        {"matchAttribute": f"{GPU}/parentUUID"}
    ]


def _whole(_: Random) -> _Asked:
    return [request("gpu", "gpu")], []
