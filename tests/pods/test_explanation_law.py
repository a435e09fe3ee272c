"""A thousand random pods in random small clusters: each reason equals what is found out here without the engine."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from pod_world import (
    DRIVER,
    PodWorld,
    allocation,
    claim,
    device_class,
    named,
    node,
    pod,
    resource_slice,
)

NIC = "nic.example.com"
DRIVERS = (DRIVER, NIC)
FEW = 3
"""Where its own selector keeps a pod to so few nodes, it is told of these alone."""


@dataclass
class Case:
    """A cluster with one pod that waits, as plain numbers."""

    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    taints: dict[str, str] = field(default_factory=dict)
    cordoned: set[str] = field(default_factory=set)
    cpu: dict[str, int] = field(default_factory=dict)
    """What is left of cpu on each node, in thousandths."""
    devices: dict[tuple[str, str], int] = field(default_factory=dict)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    asked: list[tuple[str, int, str]] = field(default_factory=list)
    """For each entry of the pod its driver, how many devices, and the node on which it has them already, if any."""
    wants_cpu: int = 0
    selects: str = ""
    tolerates: bool = False
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def obstacle(self, name: str) -> str | None:
        """Return what keeps the pod from a node, by kube-scheduler's order."""
        if name in self.cordoned:
            return "unschedulable"
        if name in self.taints and not self.tolerates:
            return "taint"
        if self.selects and self.labels[name]["disk"] != self.selects:
            return "nodeSelector"
        return "cpu" if self.wants_cpu > self.cpu[name] else None

    def left(self, name: str, driver: str) -> int:
        """Return how many devices of a driver are free on a node."""
        return self.devices.get((name, driver), 0) - self.used[name, driver]

    def fits(self, name: str, asked: list[tuple[str, int, str]]) -> bool:
        """Return whether some entries fit on a node together."""
        wanted = Counter[str]()
        for driver, count, _ in asked:
            wanted[driver] += count
        return all(self.left(name, driver) >= count for driver, count in wanted.items())


def make(seed: int) -> Case:
    """Return a random case."""
    random, case = Random(seed), Case()  # noqa: S311 - the same cases each time
    case.bodies += [device_class(driver) for driver in DRIVERS]
    for name in [f"n{number}" for number in range(1, random.randint(1, 4) + 1)]:
        case.labels[name] = {"disk": random.choice(("ssd", "hdd"))}
        total = random.choice((1, 2, 4))
        spec: dict[str, Any] = {}
        if random.random() < 0.3:
            case.taints[name] = "dedicated"
            spec["taints"] = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
        if random.random() < 0.15:
            case.cordoned.add(name)
            spec["unschedulable"] = True
        case.bodies.append(node(name, labels=case.labels[name], cpu=str(total), **spec))
        busy = random.choice((0, 0, 500, 1000))
        case.cpu[name] = total * 1000 - busy
        if busy:
            case.bodies.append(pod(f"busy-{name}", cpu=f"{busy}m", nodeName=name))
        for driver in DRIVERS:
            count = random.randint(0, 3)
            if count:
                case.devices[name, driver] = count
                case.bodies.append(
                    resource_slice(name, *[f"d{number}" for number in range(count)], driver=driver)
                )
                for number in range(random.randint(0, count) if random.random() < 0.6 else 0):
                    case.used[name, driver] += 1
                    status = {"allocation": allocation(name, f"d{number}", driver=driver)}
                    case.bodies.append(claim(f"used-{name}-{driver[:3]}-{number}", of=driver, status=status))
    _add_pod(random, case)
    return case


def _add_pod(random: Random, case: Case) -> None:
    entries = []
    for number in range(random.randint(1, 3)):
        driver, count, held = random.choice(DRIVERS), random.randint(1, 2), ""
        body = claim(f"c{number}", count, of=driver)
        if random.random() < 0.15:
            places = [name for name in case.labels if case.left(name, driver) >= count]
            if places:
                held = random.choice(places)
                first = case.used[held, driver]
                devices = [f"d{first + more}" for more in range(count)]
                case.used[held, driver] += count
                body["status"] = {"allocation": allocation(held, *devices, driver=driver)}
        case.bodies.append(body)
        case.asked.append((driver, count, held))
        entries.append(named(f"e{number}", f"c{number}"))
    case.wants_cpu = random.choice((100, 100, 1500, 3000))
    case.selects = random.choice(("", "", "ssd"))
    case.tolerates = random.random() < 0.3
    spec: dict[str, Any] = {"nodeSelector": {"disk": case.selects}} if case.selects else {}
    if case.tolerates:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    case.bodies.append(pod("p", *entries, cpu=f"{case.wants_cpu}m", **spec))


def counted(message: str) -> Counter[str]:
    """Return how many nodes each condition is told of."""
    text = message.partition("the pod cannot run: ")[2]
    found = re.findall(r"(\d+) (unschedulable|taint|nodeSelector|cpu)", text)
    return Counter({condition: 0 for _, condition in found}) + Counter(
        {
            condition: sum(int(number) for number, other in found if other == condition)
            for _, condition in found
        }
    )


@pytest.mark.parametrize("seed", range(0, 1000, 50))
def test_reason_equals_an_independent_recomputation(seed: int) -> None:
    """The reason, the node, the counts of nodes by condition and of devices, and the entries that are named."""
    for each in range(seed, seed + 50):
        case = make(each)
        found = PodWorld(*case.bodies).explain("p")
        assert found is not None
        judge(case, found.reason.value, found.message, found.node, each)


def judge(case: Case, reason: str, message: str, node_name: str, seed: int) -> None:
    """Compare an explanation with what the case says."""
    names = sorted(case.labels)
    held = {where for _, _, where in case.asked if where}
    reachable = [name for name in names if held <= {name}]
    wanted = [item for item in case.asked if not item[2]]
    obstacles = {name: found for name in names if (found := case.obstacle(name))}
    suitable = [name for name in reachable if name not in obstacles]
    shown = seed, reason, message
    if held and not suitable:
        assert reason == "AllocatedNodeUnsuitable", shown
        if reachable:
            assert counted(message) == Counter(obstacles[name] for name in reachable), shown
        return
    fitting = [name for name in suitable if case.fits(name, wanted)]
    if fitting or (not wanted and suitable):
        assert (reason, node_name) == ("NotScheduled", (fitting or suitable)[0]), shown
        return
    admitted = [name for name in reachable if case.labels[name]["disk"] == case.selects]
    if wanted and 0 < len(admitted) <= FEW:
        judge_pinned(case, wanted, admitted, shown)
        return
    elsewhere = [name for name in reachable if name in obstacles and case.fits(name, wanted)]
    if not wanted or elsewhere:
        assert reason == "NodeUnsuitable", shown
        expected = Counter(obstacles[name] for name in (elsewhere if wanted else names))
        assert counted(message) == expected, shown
        return
    # Where the pod can run nowhere, its claims are explained by all nodes on which it could use what it has.
    judge_claims(case, suitable or reachable, names, shown)


def judge_pinned(
    case: Case, wanted: list[tuple[str, int, str]], admitted: list[str], shown: tuple[int, str, str]
) -> None:
    """Compare what a pod is told that its selector keeps to a few nodes: as if there were no others."""
    _, reason, message = shown
    for name in admitted:
        if (obstacle := case.obstacle(name)) is not None:
            assert f"{name}: {obstacle}" in message, shown
    if any(case.fits(name, wanted) for name in admitted):
        assert reason == "NodeUnsuitable", shown
    else:
        assert "to which its nodeSelector keeps the pod" in message, shown
        judge_claims(case, admitted, admitted, shown)


def judge_claims(case: Case, among: list[str], names: list[str], shown: tuple[int, str, str]) -> None:
    """Compare what claims are told to wait for on some nodes, of those whose devices are counted."""
    _, reason, message = shown
    stuck = [
        (f"e{number}", item)
        for number, item in enumerate(case.asked)
        if not item[2] and not any(case.fits(name, [item]) for name in among)
    ]
    if not stuck:
        assert reason == "ClaimsDoNotFitTogether", shown
        for number, item in enumerate(case.asked):
            if not item[2]:
                first = next(name for name in among if case.fits(name, [item]))
                assert f"e{number} on {first}" in message, shown
        return
    entry, (driver, count, _) = stuck[0]
    assert message.startswith(f'claim "{entry}": ') or len(case.asked) == 1, shown
    check_devices(
        replace(case, labels={name: case.labels[name] for name in names}), driver, count, among, shown
    )


def check_devices(case: Case, driver: str, count: int, among: list[str], shown: tuple[int, str, str]) -> None:
    """Compare the counts of devices in a message."""
    _, reason, message = shown
    case.devices = {key: number for key, number in case.devices.items() if key[0] in case.labels}
    published = sum(case.devices.values())
    if not published:
        assert reason == "NoDevices", shown
        return
    of_class = sum(number for (_, other), number in case.devices.items() if other == driver)
    plural = "s" if published != 1 else ""
    assert f"{published} device{plural} published, {of_class} in class {driver}" in message, shown
    if not of_class:
        assert reason == "ClassMatchesNoDevice", shown
        return
    away = sum(case.devices.get((name, driver), 0) for name in case.labels if name not in among)
    used = sum(case.used[name, driver] for name in among)
    assert (f"{away} on nodes that cannot be used" in message) == bool(away), shown
    assert (f"{used} in use by" in message) == bool(used), shown
    left = of_class - away - used
    most_on_a_node = max((case.devices.get((name, driver), 0) for name in among), default=0)
    is_in_vain = used and most_on_a_node < count
    expected = "NotEnoughDevices" if left or is_in_vain else "DeviceInUse" if used else "NodeUnsuitable"
    assert reason == expected, shown
