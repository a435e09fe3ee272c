"""Devices of other kinds: bare ones, ones that are shared, and ones that all nodes can use."""

from workloads.scenario import (
    GPU,
    MOST_CLAIMS,
    NIC,
    PCIE_ROOT,
    Scenario,
    Wire,
    device_of,
    gpu,
    in_slices,
    is_model,
    request,
)

BARE = "bare.example.com"


def bare_half(scenario: Scenario, size: int) -> None:
    """Ask for single devices without attributes, ten a node, half in use: the shape of upstream's own benchmark."""
    _bare(scenario, size, used=size * 5, claims=min(size * 5, 2500))


def bare_full(scenario: Scenario, size: int) -> None:
    """Ask for the last ten of such devices."""
    _bare(scenario, size, used=size * 10 - 10, claims=10)


def _bare(scenario: Scenario, size: int, *, used: int, claims: int) -> None:
    scenario.add_class("bare", f'device.driver == "{BARE}"')
    nodes = scenario.add_nodes(size)
    for node in nodes:
        devices = [{"name": f"instance-{number:02d}"} for number in range(10)]
        scenario.add_slice(f"{node}-bare", BARE, node, nodeName=node, devices=devices)
    for number in range(used):
        # Spread evenly, as a scheduler spreads pods.
        row, position = divmod(number, size)
        scenario.use(nodes[position], [device_of(BARE, nodes[position], f"instance-{row:02d}")])
    for _ in range(claims):
        scenario.ask([request("r", "bare")])


def shared_nics(scenario: Scenario, size: int) -> None:
    """Share four NICs a node by bandwidth; most of it is used, by many claims."""
    add_shared_nics(scenario, size, roots=4)
    for _ in range(min(MOST_CLAIMS, size * 5)):
        scenario.ask([request("nic", "nic", capacity=some_bandwidth(scenario))])


def some_bandwidth(scenario: Scenario) -> Wire:
    """Return the capacity that a request for a part of a NIC asks for."""
    return {"requests": {"bandwidth": f"{scenario.random.choice([5, 10, 25, 40])}G"}}


def add_shared_nics(scenario: Scenario, size: int, *, roots: int) -> None:
    """Add nodes with four NICs each, on so many PCIe roots, and claims that use most of their bandwidth."""
    random = scenario.random
    scenario.add_class("nic", f'device.driver == "{NIC}" && device.allowMultipleAllocations')
    policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}
    for place, node in enumerate(scenario.add_nodes(size)):
        devices = [
            {
                "name": f"nic-{number}",
                "allowMultipleAllocations": True,
                "attributes": {
                    "speed": {"int": 100},
                    PCIE_ROOT: {"string": f"pci0000:{number * roots // 4:02x}"},
                    "rdma": {"bool": True},
                },
                "capacity": {"bandwidth": {"value": "100G", "requestPolicy": policy}},
            }
            for number in range(4)
        ]
        scenario.add_slice(f"{node}-nic", NIC, node, nodeName=node, devices=devices)
        for number in range(4):
            for share in range(8 if random.random() < 0.8 else 3):
                identity = f"00000000-0000-4000-8000-{(place * 4 + number) * 16 + share:012x}"
                used = {"shareID": identity, "consumedCapacity": {"bandwidth": "10G"}}
                scenario.use(node, [device_of(NIC, node, f"nic-{number}", **used)])


def network(scenario: Scenario, size: int) -> None:
    """Publish one pool of `size` devices to all of 100 nodes, four fifths in use."""
    scenario.add_class("gpu", f'device.driver == "{GPU}"')
    scenario.add_nodes(max(10, min(100, size // 10)))
    parts = list(in_slices([gpu("fabric", number, ("a100", "h100")[number % 2]) for number in range(size)]))
    for number, part in enumerate(parts):
        scenario.add_slice(
            f"fabric-{number:03d}", GPU, "fabric", slices=len(parts), allNodes=True, devices=part
        )
    for number in scenario.random.sample(range(size), size * 8 // 10):
        scenario.use(None, [device_of(GPU, "fabric", f"gpu-{number}")])
    for _ in range(min(50, size // 12)):
        scenario.ask([request("gpu", "gpu", 1, is_model("h100"))])
