"""GPUs with partitions: these overlap, and counters say which can be allocated together."""

from workloads.scenario import GPU, MOST_CLAIMS, SLICE_DEVICES, Scenario, Wire, device_of, in_slices, request

PARTITIONS = (
    ("1g.10gb", 1, 1, range(7)),
    ("1g.20gb", 1, 2, (0, 2, 4, 6)),
    ("2g.20gb", 2, 2, (0, 2, 4)),
    ("3g.40gb", 3, 4, (0, 4)),
    ("4g.40gb", 4, 4, (0,)),
    ("7g.80gb", 7, 8, (0,)),
)
"""Profile, compute slices, memory slices and the memory slices at which a partition of a GPU may start."""


def partitions(scenario: Scenario, size: int) -> None:
    """Ask for parts of GPUs: eight a node, each with 18 overlapping partitions that draw on the same counters."""
    random = scenario.random
    scenario.add_class("mig", f'device.driver == "{GPU}" && device.attributes["{GPU}"].type == "mig"')
    for node in scenario.add_nodes(size):
        add_partitioned_gpus(scenario, node, 8)
        for number in range(8):
            chance = random.random()
            if chance < 0.7:
                device = f"gpu-{number}" if chance < 0.35 else f"gpu-{number}-3g-40gb-0"
                scenario.use(node, [device_of(GPU, node, device)])
    profiles = [("1g.10gb", 1), ("1g.10gb", 4), ("2g.20gb", 1), ("3g.40gb", 1), ("7g.80gb", 1)]
    same_gpu = [{"matchAttribute": f"{GPU}/parentUUID"}]
    for _ in range(min(MOST_CLAIMS, size * 8)):
        profile, count = random.choice(profiles)
        chosen = f'device.attributes["{GPU}"].profile == "{profile}"'
        scenario.ask([request("mig", "mig", count, chosen)], same_gpu if count > 1 else None)


def add_partitioned_gpus(scenario: Scenario, node: str, number_of_gpus: int) -> None:
    """Add so many GPUs to a node, and all their partitions."""
    sets: list[Wire] = []
    devices: list[Wire] = []
    for number in range(number_of_gpus):
        slots = {f"memory-slice-{slot}": {"value": "1"} for slot in range(8)}
        counters = {"multiprocessors": {"value": "132"}, "memory": {"value": "80Gi"}, **slots}
        sets.append({"name": f"gpu-{number}-counters", "counters": counters})
        devices.append(_partition(node, number, "full", 7, range(8)))
        for profile, compute, memory, starts in PARTITIONS:
            devices += (
                _partition(node, number, profile, compute, range(start, start + memory)) for start in starts
            )
    parts = list(in_slices(devices, SLICE_DEVICES // 2))
    slices = len(parts) + 1
    scenario.add_slice(f"{node}-counters", GPU, node, slices=slices, nodeName=node, sharedCounters=sets)
    for number, part in enumerate(parts):
        scenario.add_slice(f"{node}-devices-{number}", GPU, node, slices=slices, nodeName=node, devices=part)


def _partition(node: str, number: int, profile: str, compute: int, slots: range) -> Wire:
    whole = profile == "full"
    size = {
        "multiprocessors": {"value": "132" if whole else str(16 * compute)},
        "memory": {"value": f"{10 * len(slots)}Gi"},
    }
    taken = {**size, **{f"memory-slice-{slot}": {"value": "1"} for slot in slots}}
    name = f"gpu-{number}" if whole else f"gpu-{number}-{profile.replace('.', '-')}-{slots.start}"
    return {
        "name": name,
        "attributes": {
            "type": {"string": "gpu" if whole else "mig"},
            "profile": {"string": profile},
            "parentUUID": {"string": f"GPU-{node}-{number}"},
            "parentIndex": {"int": number},
            "productName": {"string": "H100 80GB HBM3"},
            "driverVersion": {"version": "570.86.15"},
        },
        "capacity": size,
        "consumesCounters": [{"counterSet": f"gpu-{number}-counters", "counters": taken}],
    }
