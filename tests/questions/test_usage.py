"""Usage: rows equal those of a reader that shares no code with the package."""

from itertools import count

import pytest

import clean_worlds as worlds
import world_faults as faults
from dra_operator.allocator.decision import Decider
from dra_operator.api.quantity import NANO, parse_quantity
from dra_operator.questions.answers import UNFINISHED, Conclusion
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.device_table import HolderQuery, list_devices
from factories import device_class
from naive_usage import Reader
from small_cluster import NODES, devices

FAULTS = [
    None,
    faults.second_claim_on_a_device,
    faults.whole_device_beside_a_share,
    faults.whole_and_parts_in_use,
    faults.share_beyond_what_there_is,
    faults.newer_generation_that_is_not_complete,
    faults.two_publishers_of_one_pool,
    faults.device_that_left_its_slice,
]


def load(world):
    """The cluster of a world."""
    return Cluster.load(world.bodies, now=worlds.NOW.timestamp())


def counts(row):
    """What a row says, but for its name and largest device."""
    names = ("total", "used", "shared", "free", "tainted", "blocked", "idle", "claims", "owned")
    return {name: getattr(row, name) for name in names}


@pytest.mark.parametrize("grouping", ["node", "pool", "class"])
@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_an_independent_reader(seed, grouping):
    """Counts and the amount that the largest device has left are the same, also where something is wrong."""
    world = worlds.make_world(seed)
    fault = FAULTS[seed % len(FAULTS)]
    if fault is not None:
        fault(world)
    expected = Reader(world.bodies).rows(grouping)

    rows = {row.name: row for row in load(world).usage(grouping, by="memory").rows}

    largest = {
        name: None if row.largest is None else parse_quantity(row.largest.amount).nano // NANO
        for name, row in rows.items()
    }
    assert {name: {**counts(row), "largest": largest[name]} for name, row in rows.items()} == expected


def test_largest_device_is_found_by_a_capacity_that_is_asked_for(tmp_path):
    """By its bare name or with the domain; without one it is the first capacity by name."""
    devices = [
        {"name": "a", "capacity": {"cores": {"value": "64"}, "gpu.example.com/memory": {"value": "10Gi"}}},
        {"name": "b", "capacity": {"cores": {"value": "8"}, "gpu.example.com/memory": {"value": "40Gi"}}},
    ]
    cluster = Cluster.load([worlds.factories.resource_slice("s", devices)])

    def largest(by):
        (row,) = cluster.usage("pool", by=by).rows
        return row.largest and (row.largest.capacity, row.largest.amount, row.largest.device)

    assert largest("") == ("cores", "64", "a")
    assert largest("memory") == ("gpu.example.com/memory", "40Gi", "b")
    assert largest("gpu.example.com/memory") == largest("memory")
    assert largest("speed") is None


def test_overdrawn_counter_blocks_all_devices_that_draw_on_counters():
    """As long as one counter of a pool is overdrawn nothing is allocated there that draws on any."""
    devices = [
        {"name": name, "consumesCounters": [{"counterSet": name[0], "counters": {"slots": {"value": "1"}}}]}
        for name in ("a1", "a2", "b1")
    ]
    place = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": name, "counters": {"slots": {"value": "1"}}} for name in ("a", "b")]
    shared = {"driver": worlds.GPU, "pool": place, "nodeName": "node-1", "sharedCounters": counters}
    held = worlds.factories.allocation(worlds.factories.result("a1"), worlds.factories.result("a2"))
    cluster = Cluster.load(
        [
            worlds.factories.resource_slice("s", devices, count=2),
            worlds.manifest("ResourceSlice", "counters", shared),
            worlds.factories.claim(status={"allocation": held}, uid="1"),
        ]
    )

    (row,) = cluster.usage("pool").rows

    assert (cluster.errors, row.used, row.blocked, row.free) == ([], 2, 1, 0)


def test_device_that_no_usable_node_sees_is_blocked():
    """However its slice says where it is: by name, by labels, for all nodes, or for none that is there."""
    node = worlds.manifest("Node", "node-1", labels={"rack": "a"}, spec={"unschedulable": True})
    other = worlds.manifest("Node", "node-2", labels={"rack": "b"})

    def selected(rack):
        return {
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
                ]
            }
        }

    places = {
        "local": {"nodeName": "node-1"},
        "selected": selected("a"),
        "nowhere": selected("c"),
        "everywhere": {"allNodes": True},
        "elsewhere": selected("b"),
    }
    slices = [
        worlds.factories.resource_slice(name, [{"name": "d"}], pool=name, **place)
        for name, place in places.items()
    ]

    def free(*nodes):
        rows = Cluster.load([*nodes, *slices]).usage("pool").rows
        return {row.name.partition("/")[2] for row in rows if row.free}

    assert free(node) == set()
    assert free(node, other) == {"everywhere", "elsewhere"}


def test_device_that_is_held_whole_has_no_capacity_left():
    """Whoever adds up what is left counts it as used; of a share the rest is left."""
    world = worlds.make_world(0)
    cluster = load(world)

    items = list_devices(cluster).items

    assert any(item.state == "used" and item.capacity for item in items)
    uses = Reader(world.bodies).uses
    for item in items:
        results = [result for _, result in uses.get((item.driver, item.pool, item.name), ())]
        if not results:
            assert all(each.left == each.published for each in item.capacity)
        elif not any(result.get("shareID") for result in results):
            assert {each.left for each in item.capacity} <= {"0"}


UNASKED = f"DeviceClass gpu: {UNFINISHED}"


def test_class_whose_selectors_take_too_long_has_no_row_and_stops_nobody():
    """It gets the time that a claim has; the answer says so, and the other classes are counted."""
    costly = device_class(
        "gpu", "lists.range(20000).filter(x, x % 7 == device.attributes['gpu.example.com'].n).size() > 0"
    )
    slow = Cluster.load(
        [*NODES, devices("n3", "gpu-2", attributes={"n": {"int": 500}}), costly, device_class("any")]
    )
    slow.allocators[Decider.OPERATOR].clock = count(step=60).__next__

    found = slow.usage("class")

    assert ([row.name for row in found.rows], found.partial) == (["any"], (UNASKED,))
    assert list_devices(slow, HolderQuery(device_class="gpu")).partial == (UNASKED,)
    assert slow.holders(device_class="gpu").conclusion is Conclusion.CANNOT_SAY
    changed = {**costly, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    assert slow.impact(device_class=changed).partial == (UNASKED,)
