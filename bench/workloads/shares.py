"""Shared devices whose policy says which amounts a share can have, and claims that each ask for another amount."""

from random import Random

from workloads.scenario import GPU, MOST_CLAIMS, NIC, Scenario, Wire, request, wanted

_MEMORY = {"default": "1Gi", "validRange": {"min": "512Mi", "step": "256Mi"}}
_COMPUTE = {"default": "10", "validValues": ["10", "20", "25", "50", "75", "100"]}
_BANDWIDTH = {"default": "1G", "validRange": {"min": "500M", "max": "80G", "step": "100M"}}


def policies(scenario: Scenario, size: int) -> None:
    """Ask for parts of GPUs and NICs, most of which are used, in amounts that hardly any two claims have in common.

    By turns for two parts of GPUs and one of a NIC, and for one of a GPU, less of it if there is not that much, and one
    of a NIC.
    """
    random = scenario.random
    scenario.add_class("gpu", f'device.driver == "{GPU}" && device.allowMultipleAllocations')
    scenario.add_class("nic", f'device.driver == "{NIC}" && device.allowMultipleAllocations')
    for node in scenario.add_nodes(size):
        _add_devices(scenario, node, gibibytes=random.choice([40, 80, 80]))
    for number in range(min(MOST_CLAIMS, size * 3 // 10 + 1)):
        nic = request("nic", "nic", capacity=_of_nic(random))
        if number % 2:
            listed = [_of_gpu(random, most) for most in (60_000, 30_000, 10_000)]
            alternatives = [
                {"name": f"part-{place}", **wanted("gpu", capacity=part)} for place, part in enumerate(listed)
            ]
            scenario.ask([{"name": "gpu", "firstAvailable": alternatives}, nic])
        else:
            parts = [request(name, "gpu", capacity=_of_gpu(random, 30_000)) for name in ("a", "b")]
            scenario.ask([*parts, nic])


def models(scenario: Scenario, size: int) -> None:
    """Ask for a part of a NIC of one of two models, in amounts that hardly any two claims have in common.

    Each node has both; there is much left of the larger ones, and little of the smaller ones on most nodes.
    """
    random = scenario.random
    scenario.add_class("nic", f'device.driver == "{NIC}"')
    for node in scenario.add_nodes(size):
        _add_models(scenario, node)
    for _ in range(min(MOST_CLAIMS, size)):
        model, most = random.choice([("large", 200_000), ("small", 60_000), ("small", 60_000)])
        amount = {"requests": {"bandwidth": f"{random.randrange(most // 4, most)}M"}}
        is_model_of_nic = f'device.attributes["{NIC}"].model == "{model}"'
        scenario.ask([request("nic", "nic", 1, is_model_of_nic, capacity=amount)])


def _add_models(scenario: Scenario, node: str) -> None:
    random = scenario.random
    nics = [
        _nic_of(name, name.partition("-")[0], value)
        for name, value in (("large-0", "400G"), ("small-0", "100G"), ("small-1", "100G"))
    ]
    scenario.add_slice(f"{node}-nic", NIC, node, nodeName=node, devices=nics)
    scenario.share(node, NIC, node, "large-0", {"bandwidth": f"{random.randrange(10, 200)}G"})
    for name in ("small-0", "small-1"):
        if random.random() < 0.95:
            scenario.share(node, NIC, node, name, {"bandwidth": f"{random.randrange(60, 100)}G"})


def fleets(scenario: Scenario, size: int) -> None:
    """Ask for a part of a NIC of one of two models, in amounts that hardly any two claims have in common.

    Each node has four of one model; there is room on the nodes of the more common one, and little on the others.
    """
    random = scenario.random
    scenario.add_class("nic", f'device.driver == "{NIC}"')
    for node in scenario.add_nodes(size):
        common = random.random() < 0.7
        names = [f"nic-{number}" for number in range(4)]
        nics = [_nic_of(name, "common" if common else "rare", "100G") for name in names]
        scenario.add_slice(f"{node}-nic", NIC, node, nodeName=node, devices=nics)
        for name in names:
            used = random.randrange(5, 60) if common else random.randrange(60, 99)
            scenario.share(node, NIC, node, name, {"bandwidth": f"{used}G"})
    for _ in range(min(MOST_CLAIMS, size)):
        model = random.choice(["rare", "rare", "common"])
        amount = {"requests": {"bandwidth": f"{random.randrange(5_000, 40_000)}M"}}
        is_model_of_nic = f'device.attributes["{NIC}"].model == "{model}"'
        scenario.ask([request("nic", "nic", 1, is_model_of_nic, capacity=amount)])


def _nic_of(name: str, model: str, bandwidth: str) -> Wire:
    policy = {"default": "1G", "validRange": {"min": "1M", "step": "1M"}}
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": model}},
        "capacity": {"bandwidth": {"value": bandwidth, "requestPolicy": policy}},
    }


def _of_gpu(random: Random, most: int) -> Wire:
    return {
        "requests": {
            "memory": f"{random.randrange(most // 2, most)}Mi",
            "compute": f"{random.randrange(5, 50)}",
        }
    }


def _of_nic(random: Random) -> Wire:
    return {"requests": {"bandwidth": f"{random.randrange(2_000, 30_000)}M"}}


def _add_devices(scenario: Scenario, node: str, *, gibibytes: int) -> None:
    """Add four GPUs and two NICs to a node, and claims that use most of them."""
    random = scenario.random
    gpus = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "attributes": {
                "uuid": {"string": f"GPU-{node}-{number}"},
                "index": {"int": number},
                "model": {"string": f"model-{gibibytes}"},
            },
            "capacity": {
                "memory": {"value": f"{gibibytes}Gi", "requestPolicy": _MEMORY},
                "compute": {"value": "100", "requestPolicy": _COMPUTE},
            },
        }
        for number in range(4)
    ]
    nics = [
        {
            "name": f"nic-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"index": {"int": number}, "rdma": {"bool": True}},
            "capacity": {"bandwidth": {"value": "100G", "requestPolicy": _BANDWIDTH}},
        }
        for number in range(2)
    ]
    scenario.add_slice(f"{node}-gpu", GPU, node, nodeName=node, devices=gpus)
    scenario.add_slice(f"{node}-nic", NIC, node, nodeName=node, devices=nics)
    for number in range(4):
        for _ in range(3 if random.random() < 0.85 else 1):
            amounts = {
                "memory": f"{random.randrange(gibibytes, gibibytes * 5 // 4) * 256}Mi",
                "compute": "25",
            }
            scenario.share(node, GPU, node, f"gpu-{number}", amounts)
    for number in range(2):
        for _ in range(4 if random.random() < 0.7 else 1):
            scenario.share(
                node, NIC, node, f"nic-{number}", {"bandwidth": f"{random.randrange(180, 240)}00M"}
            )
