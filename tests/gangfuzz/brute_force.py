"""The assignment of a gang by trying everything, on plain data, and a reader that judges one that is given."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from gangfuzz.world import Device, Option, World

Place = tuple[str, tuple[tuple[Device, int], ...], tuple[tuple[Device, int], ...]]
"""The node of a pod, its devices with the memory asked of each, and those of the claim of all, if it is the first."""


def count_most(world: World) -> int:
    """Return the largest number of first pods that can be placed together."""
    return max(
        (
            number
            for number in range(1, len(world.pods) + 1)
            if next(_places(world, number, []), None) is not None
        ),
        default=0,
    )


def _places(world: World, number: int, placed: list[Place]) -> Iterator[list[Place]]:
    if find_fault(world, placed):
        return
    if len(placed) == number:
        yield placed
        return
    _, options = world.pods[len(placed)]
    for node in world.nodes:
        for own in _choices(world, node, options):
            shared = _choices(world, node, world.shared) if not placed else iter([()])
            for of_all in shared:
                yield from _places(world, number, [*placed, (node, own, of_all)])


def _choices(world: World, node: str, options: Sequence[Option]) -> Iterator[tuple[tuple[Device, int], ...]]:
    if not options:
        yield ()
    for option in options:
        fit = [
            each
            for each in world.devices
            if each.node == node and option.kind in ("", each.kind) and each.memory >= option.memory
        ]
        for devices in combinations(fit, option.count):
            yield tuple([(device, option.memory) for device in devices])


def find_fault(world: World, placed: Sequence[Place]) -> str:
    """Return what is wrong with places of the first pods, or an empty text."""
    taken = [(each, each.memory) for each in world.devices if each.is_used]
    for node, own, of_all in placed:
        if any(device.node != node for device, _ in (*own, *of_all)):
            return "a device of another node"
        taken += [*own, *of_all]
    if world.shared and len({node for node, *_ in placed}) > 1:
        return "the claim of all is used on two nodes"
    uses = Counter(device for device, _ in taken)
    memory = Counter[Device]()
    for device, amount in taken:
        memory[device] += amount
    if any(number > 1 and not device.is_shared for device, number in uses.items()):
        return "a device twice"
    if any(device.is_shared and amount > device.memory for device, amount in memory.items()):
        return "more memory than there is"
    for node, (cpu, _) in world.nodes.items():
        if sum(device.slots for device in uses if device.node == node) > world.slots:
            return "more slots than there are"
        asked = sum(world.pods[number][0] for number, each in enumerate(placed) if each[0] == node)
        if asked > cpu:
            return "more cpu than there is"
    racks = {world.nodes[node][1] for node, *_ in placed}
    if world.has_topology and (len(racks) > 1 or "" in racks):
        return "no common rack"
    rails = {device.rail for _, own, of_all in placed for device, _ in (*own, *of_all)}
    is_published = any(each.rail for each in world.devices)
    if world.matches and is_published and (len(rails) > 1 or "" in rails):
        return "no common rail"
    return ""


def read_places(world: World, answer: Any) -> list[Place]:
    """Return the places that an answer gives to pods."""
    devices = {(each.node, each.name): each for each in world.devices}
    found: list[Place] = []
    for number, pod in enumerate(answer.pods):
        of_all, own = [], []
        for each in pod.devices:
            is_of_all = each.claim == "all"
            options = world.shared if is_of_all else world.pods[number][1]
            option = options[int(each.request.removeprefix("r/o"))]
            (of_all if is_of_all else own).append((devices[each.pool, each.device], option.memory))
            device = devices[each.pool, each.device]
            assert option.kind in ("", device.kind)
            assert device.memory >= option.memory
        found.append((pod.node, tuple(own), tuple(of_all) if not found else ()))
    return found
