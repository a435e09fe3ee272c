"""All nodes by name, and on each all devices for every request: what the decision must be, without the engine."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from decisionfuzz.world import FABRIC, Claim, Constraint, Device, Node, Option, Request, World
from dra_operator.api.types import AllocationResult

_EXTENDED = "extended"


def find_first_node(world: World) -> str | None:
    """Return the first node by name on which the pod can run with all its claims."""
    for node in sorted(world.nodes, key=lambda each: each.name.encode()):
        if suits(world, node) and _Search(world, node).fits():
            return node.name
    return None


def find_fault(world: World, node: str, allocations: Mapping[str, AllocationResult]) -> str:
    """Return what is wrong with a decision, or nothing."""
    return _Search(world, next(each for each in world.nodes if each.name == node)).find_fault(allocations)


def suits(world: World, node: Node) -> bool:
    """Return whether the pod can run on a node, devices that are not allocated yet aside."""
    if not node.is_ready and not node.is_cordoned:
        return False
    return (
        (world.tolerates_taint or not node.is_tainted)
        and (world.tolerates_cordon or not node.is_cordoned)
        and (not world.disk or node.disk == world.disk)
        and world.cpu <= node.cpu
        and (not node.plugged or node.plugged >= world.wanted)
        and all(claim.node in ("", node.name) for claim in world.claims)
    )


@dataclass(frozen=True)
class _Asked:
    """A request of a claim, and whether kube-scheduler decides it."""

    claim: Claim
    request: Request
    is_extended: bool = False


@dataclass
class _Search:
    """Tries all devices of one node for all requests of the pod."""

    world: World
    node: Node
    chosen: list[tuple[_Asked, Device]] = field(default_factory=list)
    memory: Counter[Device] = field(default_factory=Counter)
    """What shares that were chosen consume."""

    def fits(self) -> bool:
        """Return whether all that is not allocated fits."""
        return self._serve([*self._of_claims(), *self._extended()])

    def find_fault(self, allocations: Mapping[str, AllocationResult]) -> str:
        """Return what is wrong with what the claims are given on the node, or nothing."""
        if sorted(allocations) != sorted(claim.name for claim in self.world.claims if not claim.node):
            return f"allocations of {sorted(allocations)}"
        by_name = {(device.pool, device.name): device for device in self.world.devices}
        for asked in self._of_claims():
            results = [
                result
                for result in allocations[asked.claim.name].devices.results
                if result.request.partition("/")[0] == asked.request.name
            ]
            devices = tuple(by_name[result.pool, result.device] for result in results)
            names = {result.request.partition("/")[2] for result in results}
            options = [option for option in asked.request.options if {option.name} == names]
            if not any(set(devices) in map(set, self._choices(asked, option)) for option in options):
                return f"request {asked.request.name} of claim {asked.claim.name} has {devices}"
            self.chosen += [(asked, device) for device in devices]
            self.memory.update({device: _consumption(device, options[0]) for device in devices})
            if not self._is_allowed(asked.claim):
                return f"claim {asked.claim.name} breaks a constraint or a counter"
        return "" if self._serve(self._extended()) else "no devices are left for the extended resource"

    def _of_claims(self) -> list[_Asked]:
        return [
            _Asked(claim, request)
            for claim in self.world.claims
            if not claim.node
            for request in claim.requests
        ]

    def _extended(self) -> list[_Asked]:
        if not self.world.wanted or self.node.plugged:
            return []
        option = Option("", "gpu", "", self.world.wanted, tolerates=False, memory=None)
        request = Request(_EXTENDED, (option,))
        return [_Asked(Claim(_EXTENDED, (request,)), request, is_extended=True)]

    def _serve(self, asked: Sequence[_Asked]) -> bool:
        if not asked:
            return True
        first, rest = asked[0], asked[1:]
        for option in first.request.options:
            for devices in self._choices(first, option):
                consumed = [(device, _consumption(device, option)) for device in devices]
                self.chosen += [(first, device) for device in devices]
                self.memory.update(dict(consumed))
                if self._is_allowed(first.claim) and self._serve(rest):
                    return True
                del self.chosen[len(self.chosen) - len(devices) :]
                self.memory.subtract(dict(consumed))
        return False

    def _choices(self, asked: _Asked, option: Option) -> Iterator[tuple[Device, ...]]:
        matching = [device for device in self._seen() if _matches(device, option)]
        usable = [device for device in matching if self._is_usable(device, asked, option)]
        if option.count is not None:
            yield from combinations(usable, option.count)
        elif usable and usable == matching:
            yield tuple(usable)

    def _seen(self) -> list[Device]:
        return [device for device in self.world.devices if device.pool in (self.node.name, FABRIC)]

    def _is_usable(self, device: Device, asked: _Asked, option: Option) -> bool:
        if device.is_used or (device.is_broken and not option.tolerates):
            return False
        if self.world.owns and device.is_owned is asked.is_extended:
            return False
        if device.memory is None:
            return all(other is not device for _, other in self.chosen)
        return self.memory[device] + _consumption(device, option) <= device.memory

    def _is_allowed(self, claim: Claim) -> bool:
        """Return whether what was chosen keeps to counters, and to the constraints of a claim."""
        slots = Counter[str]()
        for _, device in self.chosen:
            slots[device.pool] += device.slots
        if any(count > self.world.slots[pool] for pool, count in slots.items() if count):
            return False
        own = [(asked.request.name, device) for asked, device in self.chosen if asked.claim is claim]
        return all(is_met(constraint, own) for constraint in claim.constraints)


def _matches(device: Device, option: Option) -> bool:
    """Return whether a device could serve a request if nobody used it."""
    if option.of_class == "few" and device.model != "a":
        return False
    if option.model and device.model != option.model:
        return False
    if option.memory is None:
        return True
    return device.memory is not None and option.memory <= device.total_memory


def _consumption(device: Device, option: Option) -> int:
    if device.memory is None:
        return 0
    return device.total_memory if option.memory is None else option.memory


def is_met(constraint: Constraint, devices: Iterable[tuple[str, Device]]) -> bool:
    """Return whether some devices, each with its request, keep to a constraint."""
    values = [
        getattr(device, constraint.attribute)
        for request, device in devices
        if not constraint.requests or request in constraint.requests
    ]
    if None in values:
        return False
    return len(set(values)) == len(values) if constraint.is_distinct else len(set(values)) <= 1
