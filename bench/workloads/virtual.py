"""Virtual GPUs: shares with a new amount for each claim, of virtual devices next to whole ones, or of partitions."""

from random import Random

from workloads.gpus import add_gpu_cluster, any_model
from workloads.scenario import GPU, MOST_CLAIMS, Scenario, Wire, is_model, request, wanted

_VGPU = "vgpu.example.com"
_MEMORY = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}


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


def paid(scenario: Scenario, size: int) -> None:
    """Ask for shares of partitions: the first share of one draws on counters of the GPU, and pays for the others."""
    random = scenario.random
    scenario.add_class("gpu", f'device.driver == "{GPU}"')
    for node in scenario.add_nodes(size):
        _add_shared_partitions(scenario, node)
    for _ in range(min(MOST_CLAIMS, size * 4)):
        amount = {"requests": {"memory": f"{random.randrange(1, 16)}Gi"}}
        gpus = request("gpus", "gpu", random.choice([1, 1, 2]), capacity=amount)
        apart = [{"distinctAttribute": f"{GPU}/size"}]
        scenario.ask([gpus], apart if random.random() < 0.3 else None)


def _add_shared_partitions(scenario: Scenario, node: str) -> None:
    """Add four GPUs with four partitions each to a node; of seven tenths of them a partition is in use."""
    random = scenario.random
    sets = [{"name": f"gpu-{number}", "counters": {"engines": {"value": "8"}}} for number in range(4)]
    partitions = [
        {
            "name": f"gpu-{number}-{size}",
            "allowMultipleAllocations": True,
            "attributes": {"size": {"int": size}},
            "capacity": {"memory": {"value": "20Gi", "requestPolicy": _MEMORY}},
            "consumesCounters": [
                {"counterSet": f"gpu-{number}", "counters": {"engines": {"value": str(size)}}}
            ],
        }
        for number in range(4)
        for size in (2, 3, 4, 5)
    ]
    scenario.add_slice(f"{node}-sets", GPU, node, slices=2, nodeName=node, sharedCounters=sets)
    scenario.add_slice(f"{node}-parts", GPU, node, slices=2, nodeName=node, devices=partitions)
    for number in range(4):
        if random.random() < 0.7:
            used = {"memory": f"{random.randrange(10, 21)}Gi"}
            scenario.share(node, GPU, node, f"gpu-{number}-{random.choice([2, 3, 4, 5])}", used)


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
