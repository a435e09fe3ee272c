"""Shares and counters, rule by rule: what devices in use and earlier picks leave of what is shared."""

from typing import Any

import pytest


def partition(name: str, memory: str, *groups: str, counter_set: str = "set", **more: Any) -> dict[str, Any]:
    """Return a device that takes memory from a counter set."""
    use = {
        "counterSet": counter_set,
        "counters": {"memory": {"value": memory}},
        "compatibilityGroups": list(groups),
    }
    return {"name": name, "consumesCounters": [use], **more}


def counters(memory: str, *names: str) -> list[dict[str, Any]]:
    """Return counter sets with this much memory each."""
    return [{"name": name, "counters": {"memory": {"value": memory}}} for name in names or ("set",)]


def test_a_counter_set_named_twice_is_charged_twice(scene: Any, ask: Any) -> None:
    """No API server admits it, but what is not admitted must not overdraw either."""
    scene.nodes("n1")
    use = {"counterSet": "set", "counters": {"memory": {"value": "3Gi"}}}
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    scene.slice("s", {"name": "a", "consumesCounters": [use, use]}, "b", nodeName="n1", count=2)

    assert scene.picks(scene.claim(ask())) == ["r=b"]


def test_a_counter_set_named_twice_has_to_admit_a_device_twice(scene: Any, ask: Any) -> None:
    """What the device says of its groups the second time may contradict the first."""
    scene.nodes("n1")
    use = {"counterSet": "set", "counters": {}}
    contradictory = [{**use, "compatibilityGroups": ["x"]}, use]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    scene.slice("s", {"name": "a", "consumesCounters": contradictory}, "b", nodeName="n1", count=2)

    assert scene.picks(scene.claim(ask())) == ["r=b"]


def test_counters_of_any_size_are_exact(scene: Any, ask: Any) -> None:
    """Quantities beyond int64 neither overflow nor change what was published."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("20E"))
    scene.slice("s", *(partition(name, "10E") for name in "abc"), nodeName="n1", count=2)

    assert scene.picks(scene.claim(ask("r", 2))) == ["r=a", "r=b"]
    assert scene.picks(scene.claim(ask("r", 3))) is None


@pytest.mark.parametrize(("node", "admitted"), [("n1", "grouped-1"), ("n2", "plain-2")])
def test_devices_of_the_node_join_a_counter_set_first(scene: Any, ask: Any, node: str, admitted: str) -> None:
    """Where devices in use contradict each other, those of slices for the node decide, whatever the slices' names."""
    scene.nodes("n1", "n2")
    where = {"pool": "p", "count": 3}
    scene.slice("c", allNodes=True, sharedCounters=counters("40Gi"), **where)
    grouped = [partition(f"grouped-{number}", "1Gi", "x") for number in range(2)]
    plain = [partition(f"plain-{number}", "1Gi") for number in range(2)]
    scene.slice("b", *grouped, partition("plain-3", "1Gi"), nodeName="n1", **where)
    scene.slice("a", *plain, partition("plain-2", "1Gi"), nodeName="n2", **where)
    for device, holder in (("grouped-0", "one"), ("plain-0", "two"), ("plain-1", "three")):
        scene.hold(holder, device, pool="p")

    assert scene.picks(scene.claim(ask()), nodes=[node]) == [f"r={admitted}"]


def test_a_device_that_gives_to_a_counter_opens_its_pool(scene: Any, ask: Any) -> None:
    """A negative counter closes its pool to all but a device whose negative amount settles it."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    devices = [partition("taker", "1Gi"), partition("giver", "-8Gi"), partition("held", "10Gi")]
    scene.slice("s", *devices, nodeName="n1", count=2)
    scene.hold("owner", "held", pool="n1")

    assert scene.picks(scene.claim(ask())) == ["r=giver"]
    assert scene.picks(scene.claim(ask("x"), ask("y"))) == ["x=giver", "y=taker"]
