"""One node and one claim that cannot be allocated: a search that does not count tries every combination first."""

from workloads.scenario import GPU, NIC, PCIE_ROOT, Scenario, Wire, gpu, is_model, request


def hard_late(scenario: Scenario, size: int) -> None:
    """Let a request take half of the devices, and the next one match none."""
    _one_node(scenario, [gpu("node-00000", number, "h100") for number in range(size)])
    scenario.ask([request("many", "gpu", size // 2), request("none", "gpu", 1, is_model("none"))])


def hard_distinct(scenario: Scenario, size: int) -> None:
    """Ask for one device more, all different in an attribute, than the attribute has values; four devices a value."""
    devices = [gpu("node-00000", number, "h100") for number in range(4 * size)]
    for number, device in enumerate(devices):
        device["attributes"]["rail"] = {"int": number % size}
    _one_node(scenario, devices)
    requests = [request(f"r{number}", "gpu") for number in range(size + 1)]
    scenario.ask(requests, [{"distinctAttribute": f"{GPU}/rail"}])


def hard_match(scenario: Scenario, size: int) -> None:
    """Ask for GPUs and as many NICs on one PCIe root; each of four roots has GPUs enough and one NIC too few."""
    gpus: list[Wire] = []
    nics: list[Wire] = []
    for root in range(4):
        place = {PCIE_ROOT: {"string": f"root-{root}"}}
        for _ in range(size + 2):
            device = gpu("node-00000", len(gpus), "h100")
            device["attributes"].update(place)
            gpus.append(device)
        attributes = {**place, "speed": {"int": 400}}
        nics += ({"name": f"nic-{root}-{number}", "attributes": attributes} for number in range(size - 1))
    _one_node(scenario, gpus)
    scenario.add_class("nic", f'device.driver == "{NIC}"')
    scenario.add_slice("nics", NIC, "node-00000", nodeName="node-00000", devices=nics)
    scenario.ask([request("gpu", "gpu", size), request("nic", "nic", size)], [{"matchAttribute": PCIE_ROOT}])


def _one_node(scenario: Scenario, devices: list[Wire]) -> None:
    (node,) = scenario.add_nodes(1)
    scenario.add_class("gpu", f'device.driver == "{GPU}"')
    scenario.add_slice("gpus", GPU, node, nodeName=node, devices=devices)
