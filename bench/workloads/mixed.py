"""Typical clusters: nodes with several kinds of devices, and claims for any combination of them."""

from random import Random

from workloads.gpus import add_gpu_cluster, add_nics, any_model
from workloads.processors import CPU, add_processors
from workloads.scenario import (
    MOST_CLAIMS,
    PCIE_ROOT,
    Scenario,
    Wire,
    has_memory,
    is_model,
    request,
    wanted,
)

_ON_ONE_ROOT = [{"requests": ["gpus", "nics"], "matchAttribute": PCIE_ROOT}]


def mixed(scenario: Scenario, size: int) -> None:
    """Ask for GPUs, NICs and processors, of which each claim wants a number of its own; most of all are in use.

    Some fit nowhere: those for four GPUs and a NIC of one PCIe root, which has two.
    """
    random = scenario.random
    add_gpu_cluster(scenario, size)
    add_nics(scenario, [{PCIE_ROOT: {"string": f"pci0000:{root:02x}"}} for root in range(4)])
    scenario.add_class("cpu", f'device.driver == "{CPU}"')
    for node in [item["metadata"]["name"] for item in scenario.nodes]:
        add_processors(scenario, node, in_use=True)
    for number in range(min(MOST_CLAIMS, size * 6 // 10)):
        requests, constraints = _asked(random, number % 6)
        if random.random() < 0.5:
            requests.reverse()
        scenario.ask(requests, constraints)


def _asked(random: Random, kind: int) -> tuple[list[Wire], list[Wire]]:
    """Return the requests and constraints of a claim of a kind."""
    cpus = request("cpus", "cpu", capacity={"requests": {"cpu": str(random.randrange(1, 33))}})
    model = any_model(random)
    selector = f"{is_model(model)} && {has_memory({'h100': 80000, 'a100': 40000}[model])}"
    gpus = request("gpus", "gpu", random.choice([1, 2, 4]), selector)
    match kind:
        case 0:
            return [gpus], []
        case 1:
            return [gpus, cpus], []
        case 2:
            return [cpus], []
        case 3:
            return [gpus, request("nics", "nic"), cpus], _ON_ONE_ROOT
        case 4:
            return [request("nics", "nic", 2), cpus], []
        case _:
            listed = [("gpu", 8, is_model("h100")), ("gpu", 4, None), ("gpu", 1, None)]
            alternatives = [
                {"name": f"choice-{place}", **wanted(*choice)} for place, choice in enumerate(listed)
            ]
            return [{"name": "gpus", "firstAvailable": alternatives}, cpus], []
