"""What requests could each take is told where no sum shows what keeps them from each other."""

from typing import Any

import pytest

from dra_operator.allocator import Reason

KIND = 'device.attributes["gpu.example.com"].kind == "{}"'


def kind(name: str, value: str, **more: Any) -> dict[str, Any]:
    """Return a device of some kind."""
    return {"name": name, "attributes": {"kind": {"string": value}}, **more}


@pytest.fixture
def listing(ask: Any) -> Any:
    """Make a request with alternatives, each so many of a kind."""

    def make(name: str, *alternatives: tuple[int, str]) -> dict[str, Any]:
        items = [
            {"name": f"{count}-{which}", **ask("", count, KIND.format(which))["exactly"]}
            for count, which in alternatives
        ]
        return {"name": name, "firstAvailable": items}

    return make


def use(memory: str, *groups: str) -> dict[str, Any]:
    """Return what a device draws on the only counter set."""
    drawn = {"counterSet": "set", "counters": {"memory": {"value": memory}}}
    return {"consumesCounters": [{**drawn, "compatibilityGroups": list(groups)} if groups else drawn]}


def counted_pool(scene: Any, memory: str, *devices: dict[str, Any], count: int = 2) -> None:
    """Put the only node, and a pool for it of devices that draw on the same memory."""
    scene.nodes("n1")
    shared = [{"name": "set", "counters": {"memory": {"value": memory}}}]
    scene.slice("c", count=count, sharedCounters=shared)
    scene.slice("s", *devices, count=count)


def cause(scene: Any, *requests: dict[str, Any]) -> str:
    """Return the last clause of the line."""
    found = scene.explain(scene.claim(*requests))
    assert found.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER, found
    return str(found.message.partition("; ")[2])


def test_alternatives_that_each_leave_too_little_to_another(scene: Any, ask: Any, listing: Any) -> None:
    """There are as many devices as all want at least, but whichever the first takes is needed by one of the others."""
    scene.nodes("n1")
    scene.slice("s", *(kind(f"x{n}", "x") for n in range(3)), kind("y0", "y"), kind("y1", "y"))

    told = cause(
        scene,
        listing("p", (3, "x"), (2, "y")),
        ask("q", 1, KIND.format("x")),
        ask("r", 1, KIND.format("y")),
    )
    assert told == "on n1, p, q and r want the same devices"


def test_alternatives_that_only_share_capacity(scene: Any, ask: Any) -> None:
    """Each device has room for one of them, and there are fewer devices than requests."""
    shared = {"allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
    scene.nodes("n1")
    scene.slice("s", {"name": "a", **shared}, {"name": "b", **shared})
    share = {"capacity": {"requests": {"bandwidth": "6G"}}}
    listed = {"name": "p", "firstAvailable": [{"name": "share", **ask("", 1, **share)["exactly"]}]}

    told = cause(scene, listed, ask("q", 1, **share), ask("r", 1, **share))
    assert told == "on n1, p, q and r need capacity of the same devices"


def test_shares_beside_whole_devices(scene: Any, ask: Any) -> None:
    """A request for all devices takes also what could be shared."""
    shared = {"allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
    scene.nodes("n1")
    scene.slice("s", {"name": "a", **shared}, "b")

    assert cause(scene, ask("p", 1), ask("q", allocationMode="All")) == "on n1, p and q want the same devices"


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (("x", "y"), "draw on the same counters and want devices without a compatibility group in common"),
        (("x", ""), "draw on the same counters and want devices without a compatibility group in common"),
        (("x", "x"), "draw on the same counters"),
    ],
)
def test_compatibility_groups(scene: Any, ask: Any, groups: tuple[str, str], told: str) -> None:
    """Two devices of one counter set need one in common; it is told only where two of them have none."""
    devices = [kind(name, name, **use("1Gi", *group)) for name, group in zip("ab", groups, strict=True)]
    counted_pool(scene, "3Gi" if groups[0] != groups[1] else "1Gi", *devices)

    found = cause(scene, ask("p", 1, KIND.format("a")), ask("q", 1, KIND.format("b")))
    assert found == f"on n1, p and q {told}"


def test_what_others_use_is_not_said_to_be_wanted(scene: Any, listing: Any) -> None:
    """Devices in use draw on counters, but not for these requests."""
    drawing = (kind("a", "x", **use("1Gi")), kind("b", "y", **use("1Gi")))
    counted_pool(scene, "2Gi", *drawing, kind("c", "z"))
    scene.hold("holder", "a", "pool")

    told = cause(scene, listing("p", (1, "x"), (1, "z")), listing("q", (2, "y"), (1, "z")))
    assert told == "n1 has 1 device left for p and q, which want 2"


def test_what_does_not_fit_the_counters_is_not_said_to_be_wanted(scene: Any, ask: Any, listing: Any) -> None:
    """Both select a device that takes more than there is left."""
    counted_pool(
        scene, "5Gi", kind("a", "x", **use("3Gi")), kind("b", "y", **use("3Gi")), kind("c", "z", **use("9Gi"))
    )

    either = f"{KIND.format('y')} || {KIND.format('z')}"
    told = cause(scene, listing("p", (1, "x"), (1, "z")), ask("q", 1, either))
    assert told == "n1 has 5Gi of counter set/memory left for p and q, which want 6Gi"


def test_what_the_node_cannot_prepare_is_not_said_to_be_wanted(scene: Any, ask: Any) -> None:
    """Both select a device of a slice that skips what the node cannot do without."""
    counted_pool(scene, "5Gi", kind("a", "x", **use("3Gi")), kind("b", "y", **use("3Gi")), count=3)
    scene.slice("t", kind("c", "z"), count=3, skipNodeOperations=["*"])

    p, q = (f"{KIND.format(own)} || {KIND.format('z')}" for own in "xy")
    assert cause(scene, ask("p", 1, p), ask("q", 1, q)) == "on n1, p and q draw on the same counters"


def test_what_compatibility_groups_in_use_refuse_is_not_said_to_be_wanted(scene: Any, ask: Any) -> None:
    """A device in use leaves only some of the groups, which refuse one device and set two others against each other."""
    devices = (("held", "xy"), ("a", "xz"), ("b", "yz"), ("c", "z"))
    counted_pool(scene, "9Gi", *(kind(name, name, **use("1Gi", *groups)) for name, groups in devices))
    scene.hold("holder", "held", "pool")

    p, q = (f"{KIND.format(own)} || {KIND.format('c')}" for own in "ab")
    told = cause(scene, ask("p", 1, p), ask("q", 1, q))
    assert (
        told
        == "on n1, p and q draw on the same counters and want devices without a compatibility group in common"
    )


def test_who_takes_a_share_that_is_paid_is_not_said_to_draw_on_counters(scene: Any, ask: Any) -> None:
    """The first share of a device has paid its counters."""
    shared = {"allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
    counted_pool(scene, "2Gi", *(kind(name, "x", **use("1Gi"), **shared) for name in "ab"))
    for name in ("one", "two"):
        scene.use(name, ask("o", 1, capacity={"requests": {"bandwidth": "6G"}}))

    share = {"capacity": {"requests": {"bandwidth": "2500M"}}}
    listed = {"name": "p", "firstAvailable": [{"name": "share", **ask("", 1, **share)["exactly"]}]}
    told = cause(scene, listed, ask("q", 1, **share), ask("r", 1, **share))
    assert told == "on n1, p, q and r need capacity of the same devices"


def test_devices_are_wanted_whole_where_nobody_shares(scene_with: Any, ask: Any, listing: Any) -> None:
    """With the feature off, one that could be shared is taken as any other."""
    scene = scene_with(consumable_capacity=False)
    scene.nodes("n1")
    scene.slice("s", *(kind(f"{n}", "xxxyy"[n], allowMultipleAllocations=True) for n in range(5)))

    told = cause(
        scene,
        listing("p", (3, "x"), (2, "y")),
        ask("q", 1, KIND.format("x")),
        ask("r", 1, KIND.format("y")),
    )
    assert told == "on n1, p, q and r want the same devices"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (16, "on n1, p and q draw on the same counters"),
        (17, "on n1, p and q want at least 33 devices, and a claim can have 32"),
    ],
)
def test_more_devices_than_a_claim_can_have(
    scene: Any, ask: Any, listing: Any, number: int, told: str
) -> None:
    """Whatever else both could take, the limit of devices is told where no alternative stays within it."""
    devices = (kind(f"{which}{n}", which, **use("1Gi")) for which in "xy" for n in range(17))
    counted_pool(scene, "99Gi" if number > 16 else "30Gi", *devices)

    found = cause(scene, ask("p", 16, KIND.format("x")), listing("q", (number, "y"), (17, "y"), (1, "z")))
    assert found == told
