"""Shares of ports that many nodes see: most of them have room, so the first few are all that a claim needs."""

from typing import Any

from workloads.scenario import MOST_CLAIMS, NIC, Scenario, Wire, in_slices, request

_SWITCH = "topology.example.com/switch"
_ZONE = "topology.kubernetes.io/zone"


def fabric(scenario: Scenario, size: int) -> None:
    """Share the ports of one pool for all nodes and of one for each zone, by an amount that each claim has for itself.

    By turns a claim wants a share, two of one switch, two of different ones, and two of one switch or even port.
    """
    random = scenario.random
    scenario.add_class("port", f'device.driver == "{NIC}" && device.allowMultipleAllocations')
    scenario.add_nodes(size)
    _add_ports(scenario, "spine", 4 * size, allNodes=True)
    for zone in ("zone-0", "zone-1", "zone-2"):
        _add_ports(scenario, zone, 2 * size, nodeSelector=_of_zone(zone))
    for number in range(min(MOST_CLAIMS, size * 3 // 10)):
        speed = f'device.attributes["{NIC}"].speed == {random.choice([100, 400])}'
        amount = {"requests": {"bandwidth": f"{5000 + 100 * random.randrange(500)}M"}}
        requests = [
            request(name, "port", 1 if number % 4 in (0, 3) else 2, speed, capacity=amount)
            for name in ("a", "b")[: 2 if number % 4 == 3 else 1]
        ]
        rule = "distinctAttribute" if number % 4 == 2 else "matchAttribute"
        scenario.ask(requests, [{rule: _SWITCH}] if number % 4 else None)


def _add_ports(scenario: Scenario, pool: str, ports: int, **seen_by: Any) -> None:
    """Add a pool of ports, sixteen to a switch; a tenth is nearly full, another tenth two fifths full."""
    policy = {"default": "1G", "validRange": {"min": "1G", "step": "1M"}}
    devices = [
        {
            "name": f"port-{number}",
            "allowMultipleAllocations": True,
            "attributes": {
                "speed": {"int": (100, 400)[number % 2]},
                _SWITCH: {"string": f"{pool}-{number // 16}"},
            },
            "capacity": {"bandwidth": {"value": "100G", "requestPolicy": policy}},
        }
        for number in range(ports)
    ]
    parts = list(in_slices(devices))
    for number, part in enumerate(parts):
        scenario.add_slice(f"{pool}-{number:03d}", NIC, pool, slices=len(parts), devices=part, **seen_by)
    for number in range(ports):
        used = scenario.random.choices(["96G", "40G", None], [1, 1, 8])[0]
        if used is not None:
            scenario.share(None, NIC, pool, f"port-{number}", {"bandwidth": used})


def _of_zone(zone: str) -> Wire:
    """Return the selector of the nodes of a zone."""
    wanted = {"key": _ZONE, "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
