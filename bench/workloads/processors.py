"""Processors in shares: a cluster with room, where nearly every claim fits on the first node."""

from workloads.scenario import MOST_CLAIMS, Scenario, request

CPU = "cpu.example.com"
_POLICY = {"default": "1", "validRange": {"min": "1", "step": "1"}}


def cpus(scenario: Scenario, size: int) -> None:
    """Share the processors of nodes by a number of CPUs that each claim has for itself.

    One of twenty nodes is in use.
    """
    random = scenario.random
    scenario.add_class("cpu", f'device.driver == "{CPU}"')
    for place, node in enumerate(scenario.add_nodes(size)):
        add_processors(scenario, node, in_use=place < size // 20)
    for _ in range(min(MOST_CLAIMS, size * 3 // 10 + 1)):
        scenario.ask([request("cpus", "cpu", capacity={"requests": {"cpu": str(random.randrange(1, 33))}})])


def add_processors(scenario: Scenario, node: str, *, in_use: bool) -> None:
    """Add two processors with 64 CPUs each to a node; if they are in use, others have a part of each."""
    devices = [
        {
            "name": f"numa-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"numaNode": {"int": number}, "smt": {"bool": True}},
            "capacity": {"cpu": {"value": "64", "requestPolicy": _POLICY}},
        }
        for number in range(2)
    ]
    scenario.add_slice(f"{node}-cpu", CPU, node, nodeName=node, devices=devices)
    for number in range(2) if in_use else ():
        scenario.share(node, CPU, node, f"numa-{number}", {"cpu": str(scenario.random.randrange(8, 60))})
