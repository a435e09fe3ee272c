"""Clusters of nodes with eight GPUs, most of them in use: most nodes are searched in vain."""

from collections.abc import Callable, Sequence
from random import Random

from workloads.scenario import (
    GPU,
    MOST_CLAIMS,
    NIC,
    PCIE_ROOT,
    Scenario,
    Wire,
    device_of,
    gpu,
    has_memory,
    is_model,
    request,
    wanted,
)

PLACE = "topology.example.com/numa"
"""What requests call the place of a device."""
_TEAM = "example.com/team"


def add_gpu_cluster(scenario: Scenario, size: int) -> None:
    """Add nodes with eight GPUs: 70 % full, 20 % half full, 10 % empty, in any order."""
    random = scenario.random
    scenario.add_class("gpu", f'device.driver == "{GPU}"')
    loads = ["full"] * round(0.7 * size) + ["half"] * round(0.2 * size)
    loads += ["empty"] * (size - len(loads))
    random.shuffle(loads)
    halves = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 4, 5]]
    for node, load in zip(scenario.add_nodes(size), loads, strict=True):
        model = any_model(random)
        devices = [gpu(node, number, model) for number in range(8)]
        scenario.add_slice(f"{node}-gpu", GPU, node, nodeName=node, devices=devices)
        used = {"full": list(range(8)), "half": random.choice(halves), "empty": []}[load]
        while used:
            count = min(len(used), random.choice([1, 2, 4, 8]))
            taken, used = used[:count], used[count:]
            scenario.use(node, [device_of(GPU, node, f"gpu-{number}") for number in taken])


def add_nics(scenario: Scenario, attributes: Sequence[Wire]) -> None:
    """Add NICs with these attributes to each node; two fifths of them are in use."""
    scenario.add_class("nic", f'device.driver == "{NIC}"')
    nics = [{"name": f"nic-{number}", "attributes": found} for number, found in enumerate(attributes)]
    for node in [item["metadata"]["name"] for item in scenario.nodes]:
        scenario.add_slice(f"{node}-nic", NIC, node, nodeName=node, devices=nics)
        used = [nic["name"] for nic in nics if scenario.random.random() < 0.4]
        scenario.use(node, [device_of(NIC, node, str(name)) for name in used])


def any_model(random: Random) -> str:
    """Return a model of GPU; most are of one."""
    return "h100" if random.random() < 0.7 else "a100"


def _claims(size: int) -> int:
    """Return how many claims are asked for in a nearly full cluster."""
    return min(MOST_CLAIMS, size * 6 // 10)


def _of_model(_number: int, model: str) -> str:
    """Return the selector that all claims for a model have."""
    return f"{is_model(model)} && {has_memory({'h100': 80000, 'a100': 40000}[model])}"


def _constraints(count: int) -> list[Wire]:
    """Return what so many GPUs have to have in common."""
    match count:
        case 2:
            return [{"requests": ["gpus"], "matchAttribute": PCIE_ROOT}]
        case 4:
            return [{"requests": ["gpus"], "matchAttribute": f"{GPU}/numaNode"}]
        case 8:
            return [{"matchAttribute": f"{GPU}/driverVersion"}]
        case _:
            return []


def _ask_for_gpus(scenario: Scenario, claims: int, expression: Callable[[int, str], str]) -> None:
    """Add claims for one to eight GPUs; the expression is made from the claim's number and the model."""
    for number in range(claims):
        count = scenario.random.choices([1, 2, 4, 8], [0.5, 0.25, 0.15, 0.1])[0]
        chosen = expression(number, any_model(scenario.random))
        scenario.ask([request("gpus", "gpu", count, chosen)], _constraints(count))


def cluster(scenario: Scenario, size: int) -> None:
    """Fill a nearly full cluster further; all claims share two selectors."""
    add_gpu_cluster(scenario, size)
    _ask_for_gpus(scenario, _claims(size), _of_model)


def roomy(scenario: Scenario, size: int) -> None:
    """Ask where seven of ten devices are free: mostly the first node fits, so no walk can be saved."""
    scenario.add_class("gpu", f'device.driver == "{GPU}"')
    random = scenario.random
    for node in scenario.add_nodes(size):
        model = any_model(random)
        devices = [gpu(node, number, model) for number in range(8)]
        scenario.add_slice(f"{node}-gpu", GPU, node, nodeName=node, devices=devices)
        used = [number for number in range(8) if random.random() < 0.3]
        if used:
            scenario.use(node, [device_of(GPU, node, f"gpu-{number}") for number in used])
    _ask_for_gpus(scenario, _claims(size), _of_model)


def threshold(scenario: Scenario, size: int) -> None:
    """Let every claim ask for an amount of memory of its own."""
    add_gpu_cluster(scenario, size)
    memory = {"h100": 70000, "a100": 30000}
    _ask_for_gpus(
        scenario,
        _claims(size),
        lambda number, model: f"{is_model(model)} && {has_memory(memory[model] + number)}",
    )


def selector(scenario: Scenario, size: int) -> None:
    """Let every claim have a selector of its own that reads what no two devices have in common."""
    add_gpu_cluster(scenario, size)
    _ask_for_gpus(
        scenario,
        _claims(size),
        lambda number, model: (
            f'device.attributes["{GPU}"].uuid != "GPU-broken-{number}" && {is_model(model)}'
        ),
    )


def scarce(scenario: Scenario, size: int) -> None:
    """Leave one GPU on each node, and let every claim look for a text of its own in the UUID."""
    scenario.add_class("gpu", f'device.driver == "{GPU}"')
    for node in scenario.add_nodes(size):
        devices = [gpu(node, number, "h100") for number in range(8)]
        scenario.add_slice(f"{node}-gpu", GPU, node, nodeName=node, devices=devices)
        left = scenario.random.randrange(8)
        scenario.use(node, [device_of(GPU, node, f"gpu-{number}") for number in range(8) if number != left])
    uuid = f'device.attributes["{GPU}"].uuid'
    for number in range(_claims(size)):
        # In the order of the nodes each claim would fit on the first one that is asked.
        ending = f"{37 * number % min(size, 100):02d}-"
        scenario.ask([request("gpus", "gpu", 1, f'{uuid}.contains("{ending}") && {uuid} != "not {number}"')])


def tolerations(scenario: Scenario, size: int) -> None:
    """Leave nine of ten nodes to a team, by taints in slices or by a rule; let each claim tolerate its team's taint.

    No two claims tolerate the same: each has a toleration for a project of its own as well.
    """
    random = scenario.random
    add_gpu_cluster(scenario, size)
    teams = [f"team-{number}" for number in range(min(40, max(2, size // 6)))]
    for number, published in enumerate(scenario.slices):
        if number % 10 == 0:
            continue
        taint = {"key": _TEAM, "value": random.choice(teams), "effect": "NoSchedule"}
        if number % 2:
            for device in published["spec"]["devices"]:
                device["taints"] = [taint]
        else:
            selector = {"driver": GPU, "pool": published["spec"]["pool"]["name"]}
            scenario.add_taint_rule(f"rule-{number:05d}", selector, taint)
    for number in range(_claims(size)):
        count = random.choices([1, 2, 4, 8], [0.5, 0.25, 0.15, 0.1])[0]
        team = {"key": _TEAM, "operator": "Equal", "value": random.choice(teams), "effect": "NoSchedule"}
        project = {"key": "example.com/project", "operator": "Equal", "value": f"project-{number}"}
        scenario.ask([request("gpus", "gpu", count, tolerations=[team, project])])


def first_available(scenario: Scenario, size: int) -> None:
    """Let every claim list five alternatives, the first two of which no device is."""
    add_gpu_cluster(scenario, size)
    listed = [("b200", 1), ("h200", 1), ("h100", 8), ("h100", 2), ("a100", 4)]
    alternatives = [
        {"name": f"{model}x{count}", **wanted("gpu", count, is_model(model))} for model, count in listed
    ]
    same_numa = [{"requests": ["gpu"], "matchAttribute": f"{GPU}/numaNode"}]
    for number in range(min(MOST_CLAIMS, size * 4 // 10 + 1)):
        asked = {"name": "gpu", "firstAvailable": alternatives}
        scenario.ask([asked], same_numa if number % 2 else None)


def admin(scenario: Scenario, size: int) -> None:
    """Fill a nearly full cluster while others watch it: admin access to all devices of a node, or to one, by turns."""
    add_gpu_cluster(scenario, size)
    for number in range(_claims(size)):
        asked = request("gpus", "gpu", 1, is_model(any_model(scenario.random)))
        if number % 3:
            asked["exactly"]["adminAccess"] = True
        if number % 3 == 1:
            del asked["exactly"]["count"]
            asked["exactly"]["allocationMode"] = "All"
        scenario.ask([asked])


def aligned(scenario: Scenario, size: int) -> None:
    """Let every claim ask for GPUs and a NIC of one place, which the two drivers call by different names."""
    random = scenario.random
    add_gpu_cluster(scenario, size)
    add_nics(scenario, [{"socket": {"int": socket}} for socket in range(2)])
    for _ in range(min(MOST_CLAIMS, size * 3 // 10)):
        count, model = random.choice([1, 1, 2, 4]), any_model(random)
        gpus = request("gpu", "gpu", count, is_model(model), derivedAttributes=_place(GPU, "numaNode"))
        scenario.ask(
            [gpus, request("nic", "nic", derivedAttributes=_place(NIC, "socket"))],
            [{"matchAttribute": PLACE}],
        )


def _place(driver: str, attribute: str) -> list[Wire]:
    """Return the place of a device, derived from what its driver calls it."""
    return [{"name": PLACE, "expression": f'device.attributes["{driver}"].{attribute}'}]


def wide_pool(scenario: Scenario, size: int) -> None:
    """Publish the devices of all nodes in one pool: it counts only once all its slices are there."""
    add_gpu_cluster(scenario, size)
    for published in scenario.slices:
        spec = published["spec"]
        spec["pool"] = {"name": "cluster", "generation": 1, "resourceSliceCount": size}
        for device in spec["devices"]:
            device["name"] = f"{spec['nodeName']}-{device['name']}"
    for claim in scenario.allocated:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            result.update(pool="cluster", device=f"{result['pool']}-{result['device']}")
    _ask_for_gpus(scenario, max(6, min(30, size * 3 // 10)), _of_model)
