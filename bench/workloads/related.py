"""Claims whose devices have to go together, stay apart, or share: one request alone does not say where they fit."""

from workloads.devices import add_shared_nics, some_bandwidth
from workloads.gpus import add_gpu_cluster, add_nics, any_model
from workloads.scenario import GPU, MOST_CLAIMS, PCIE_ROOT, Scenario, is_model, request


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


def shared_pair(scenario: Scenario, size: int) -> None:
    """Ask for parts of two NICs, most of whose bandwidth is used, half of the claims for such as are of one root."""
    add_shared_nics(scenario, size, roots=2)
    for number in range(_claims(size)):
        pair = [request(name, "nic", capacity=some_bandwidth(scenario)) for name in ("a", "b")]
        scenario.ask(pair, [{"matchAttribute": PCIE_ROOT}] if number % 2 else None)


def _claims(size: int) -> int:
    return min(MOST_CLAIMS, size * 3 // 10)
