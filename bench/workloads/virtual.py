"""Virtual GPUs beside whole ones: a part, of an amount of each claim's own, or else a whole device."""

from random import Random

from workloads.gpus import add_gpu_cluster, any_model
from workloads.scenario import MOST_CLAIMS, Scenario, Wire, is_model, wanted

_VGPU = "vgpu.example.com"


def virtual(scenario: Scenario, size: int) -> None:
    """Ask for a part of a virtual GPU, or two parts to choose from, and at any place in the list for a whole GPU."""
    random = scenario.random
    add_gpu_cluster(scenario, size)
    scenario.add_class("vgpu", f'device.driver == "{_VGPU}"')
    for node in [item["metadata"]["name"] for item in scenario.nodes]:
        _add_virtual_gpus(scenario, node)
    for _ in range(min(MOST_CLAIMS, size * 2)):
        listed = [
            wanted("vgpu", capacity=_amounts(random, 1, 41, 1, 61)) for _ in range(random.choice([1, 2]))
        ]
        listed.insert(random.randrange(3), wanted("gpu", 1, is_model(any_model(random))))
        alternatives = [{"name": f"choice-{place}", **item} for place, item in enumerate(listed)]
        scenario.ask([{"name": "gpu", "firstAvailable": alternatives}])


def _add_virtual_gpus(scenario: Scenario, node: str) -> None:
    """Add four virtual GPUs to a node; most of nine tenths of them are in use."""
    random = scenario.random
    devices = [
        {
            "name": f"vgpu-{number}",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "80Gi"}, "time": {"value": "100"}},
        }
        for number in range(4)
    ]
    scenario.add_slice(f"{node}-vgpu", _VGPU, node, nodeName=node, devices=devices)
    for device in devices:
        if random.random() < 0.9:
            used = _amounts(random, 40, 81, 20, 101)["requests"]
            scenario.share(node, _VGPU, node, str(device["name"]), used)


def _amounts(random: Random, memory: int, most_memory: int, time: int, most_time: int) -> Wire:
    """Return an amount of memory, in mebibytes, and one of time."""
    mebibytes = random.randrange(1024 * memory, 1024 * most_memory)
    return {"requests": {"memory": f"{mebibytes}Mi", "time": str(random.randrange(time, most_time))}}
