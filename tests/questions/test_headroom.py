"""How much more room there is, and which free devices are stranded."""

import pytest

from dra_operator import QuestionError
from factories import resource_slice
from small_cluster import cluster, devices, holding, node, pod, template


def test_the_largest_device_left_is_named():
    """It is the one with the most of the first capacity, of those that a copy could take now."""
    largest = cluster(holding("held", "n2", "gpu-0")).headroom("DeviceClass/gpu").largest

    assert largest is not None
    assert (largest.pool, largest.device, largest.capacity, largest.amount) == (
        "n2",
        "gpu-1",
        "memory",
        "80Gi",
    )


def test_another_capacity_must_be_published():
    """A capacity that no device has is refused, with those that there are."""
    with pytest.raises(QuestionError, match='by: no device for it has a capacity "cores": there is memory'):
        cluster().headroom("DeviceClass/gpu", by="cores")


@pytest.mark.parametrize(
    ("bodies", "subject", "expected"),
    [
        pytest.param(
            [holding("held", "n1", "gpu-0"), holding("other", "n2", "gpu-1")],
            template(2),
            [("NotEnoughDevices", "1 left on a node, 2 requested", 2)],
            id="one left on each node",
        ),
        pytest.param(
            [
                devices("n1", "gpu-0"),
                resource_slice("more", [{"name": "gpu-1"}], pool="more", nodeName="n1"),
                devices("n2"),
            ],
            template(3),
            [("NotEnoughDevices", "2 left on a node, 3 requested", 2)],
            id="left in two slices of a node",
        ),
        pytest.param(
            [node("n1", unschedulable=True)],
            template(),
            [("NodeUnusable", "node n1 cordoned", 2)],
            id="cordoned node",
        ),
        pytest.param(
            [devices("n1", "gpu-0", taints=[{"key": "broken", "effect": "NoSchedule"}])],
            template(),
            [("DeviceTainted", "broken:NoSchedule", 1)],
            id="taint",
        ),
        pytest.param(
            [],
            [template(), pod(cpu="5")],
            [("NodeUnsuitable", "cpu (3 left of 8, 5 requested)", 2)],
            id="no cpu",
        ),
    ],
)
def test_free_devices_that_no_copy_can_take_are_stranded(bodies, subject, expected):
    """Each is counted at the first obstacle that it meets."""
    answer = cluster(*bodies).headroom(subject)

    found = [(each.reason, each.message, each.devices) for each in answer.obstacles]
    assert (found, answer.stranded) == (expected, sum(count for _, _, count in expected))


def test_partitions_that_overlap_are_not_added_up():
    """Of a GPU whose quarters and halves are tainted, so many count as can be used at once."""
    taint = {"key": "broken", "effect": "NoSchedule"}

    def partition(name, slots):
        uses = [{"counterSet": "gpu-0", "counters": {"slots": {"value": slots}}}]
        return {"name": name, "consumesCounters": uses, "taints": [taint]}

    counters = [{"name": "gpu-0", "counters": {"slots": {"value": "4"}}}]
    parts = [partition(f"half-{number}", "2") for number in range(2)]
    parts += [partition(f"quarter-{number}", "1") for number in range(4)]
    slices = (
        resource_slice("counters", [], pool="mig", count=2, sharedCounters=counters, nodeName="n1"),
        resource_slice("parts", parts, pool="mig", count=2, nodeName="n1"),
    )

    answer = cluster(*slices).headroom(template())

    assert (answer.more, answer.stranded, answer.overlapping) == (4, 2, 4)


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        pytest.param({}, (0, True), id="shares without amounts"),
        pytest.param(
            {"memory": {"value": "4Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}}},
            (4, False),
            id="shares of a gibibyte",
        ),
    ],
)
def test_shares_that_take_nothing_are_unlimited(capacity, expected):
    """A device that is shared without amounts has room for any number of copies."""
    shared = {"name": "shared", "allowMultipleAllocations": True, "capacity": capacity}
    none = [devices("n1"), devices("n2")]

    answer = cluster(
        *none, resource_slice("s", [shared], pool="rack", allNodes=True, nodeName=None)
    ).headroom(template())

    assert (answer.more, answer.unlimited) == expected
