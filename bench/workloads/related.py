"""Claims whose devices have to match, differ, or share: no request alone tells where they fit."""

from workloads.devices import add_shared_nics, some_bandwidth
from workloads.gpus import add_gpu_cluster, add_nics, any_model
from workloads.scenario import GPU, MOST_CLAIMS, PCIE_ROOT, Scenario, device_of, is_model, request

_CPU = "cpu.example.com"


def together(scenario: Scenario, size: int) -> None:
    """Ask for GPUs and a NIC on one PCIe root, and one more GPU anywhere; NICs are left where GPUs are not."""
    random = scenario.random
    add_gpu_cluster(scenario, size)
    add_nics(scenario, [{PCIE_ROOT: {"string": f"pci0000:{root:02x}"}} for root in range(4)])
    for _ in range(_claims(size)):
        gpus = request("gpus", "gpu", random.choice([1, 2]), is_model(any_model(random)))
        one_root = {"requests": ["gpus", "nic"], "matchAttribute": PCIE_ROOT}
        scenario.ask([gpus, request("nic", "nic"), request("another", "gpu")], [one_root])


def apart(scenario: Scenario, size: int) -> None:
    """Ask for GPUs of different NUMA nodes, of which there are two: every tenth claim wants three."""
    random = scenario.random
    add_gpu_cluster(scenario, size)
    for number in range(_claims(size)):
        gpus = request("gpus", "gpu", 2 if number % 10 else 3, is_model(any_model(random)))
        scenario.ask([gpus], [{"distinctAttribute": f"{GPU}/numaNode"}])


def lists(scenario: Scenario, size: int) -> None:
    """Ask for GPUs and the processor of their PCIe root, which lists several, or for GPUs by the links that they list.

    The links make a ring: a pair has one in common, and no two of those that are to differ are next to each other.
    """
    random = scenario.random
    add_gpu_cluster(scenario, size)
    for published in scenario.slices:
        for number, device in enumerate(published["spec"]["devices"]):
            device["attributes"]["links"] = {"strings": [f"link-{number}", f"link-{(number + 1) % 8}"]}
    _add_processors(scenario)
    for number in range(_claims(size)):
        model = is_model(any_model(random))
        if number % 2:
            gpus = request("gpus", "gpu", random.choice([1, 2]), model)
            scenario.ask([gpus, request("cpu", "cpu")], [{"matchAttribute": PCIE_ROOT}])
        elif number % 4:
            scenario.ask([request("gpus", "gpu", 2, model)], [{"matchAttribute": f"{GPU}/links"}])
        else:
            gpus = request("gpus", "gpu", random.choice([2, 3]), model)
            scenario.ask([gpus], [{"distinctAttribute": f"{GPU}/links"}])


def _add_processors(scenario: Scenario) -> None:
    """Add a processor for each half of a node's PCIe roots; two fifths of them are in use."""
    scenario.add_class("cpu", f'device.driver == "{_CPU}"')
    roots = [[f"pci0000:{root:02x}" for root in (2 * socket, 2 * socket + 1)] for socket in range(2)]
    devices = [
        {"name": f"cpu-{socket}", "attributes": {PCIE_ROOT: {"strings": its}}}
        for socket, its in enumerate(roots)
    ]
    for node in [item["metadata"]["name"] for item in scenario.nodes]:
        scenario.add_slice(f"{node}-cpu", _CPU, node, nodeName=node, devices=devices)
        used = [device_of(_CPU, node, f"cpu-{n}") for n in range(2) if scenario.random.random() < 0.4]
        if used:
            scenario.use(node, used)


def shared_pair(scenario: Scenario, size: int) -> None:
    """Ask for parts of two NICs, most of whose bandwidth is used, half of the claims for such as are of one root."""
    add_shared_nics(scenario, size, roots=2)
    for number in range(_claims(size)):
        pair = [request(name, "nic", capacity=some_bandwidth(scenario)) for name in ("a", "b")]
        scenario.ask(pair, [{"matchAttribute": PCIE_ROOT}] if number % 2 else None)


def _claims(size: int) -> int:
    return min(MOST_CLAIMS, size * 3 // 10)
