"""What shares leave: devices in order of it, and nodes on levels."""

from collections.abc import Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import NANO
from dra_operator.api.read import read_object
from dra_operator.inventory.columns import Columns
from dra_operator.inventory.slices import Slice, read_slice
from dra_operator.ledger import PoolState
from dra_operator.ledger.allocated_state import Shares
from dra_operator.ledger.capacity_index import CapacityIndex, NodeCapacityIndex, NodeCapacityIndexes, level_of
from opcodes import opcodes


def disks(number: int) -> list[dict[str, Any]]:
    """Return devices of 20 units each; every third has a second capacity."""
    return [
        {"capacity": {"size": {"value": "20"}, **({"speed": {"value": "8"}} if place % 3 == 0 else {})}}
        for place in range(number)
    ]


def use(amounts: Mapping[str, int]) -> Shares:
    """Return shares that use so much."""
    return Shares(amounts={name: amount * NANO for name, amount in amounts.items()})


def wanted(**amounts: int) -> list[tuple[str, int, int]]:
    """Return what a share would consume; what the device has does not matter here."""
    return [(name, amount * NANO, 0) for name, amount in amounts.items()]


def disk_slice(number: int) -> Slice:
    """Return a slice of such devices."""
    spec = {
        "driver": "d.example",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [{"name": f"d{place}", **disk} for place, disk in enumerate(disks(number))],
    }
    return read_slice(read_object({"metadata": {"name": "s"}, "spec": spec}, "ResourceSlice"), Columns())


def _names(content: Slice, devices: int) -> list[str]:
    return [name for place, name in enumerate(content.names) if devices >> place & 1]


def _left(used: Mapping[str, Shares], device: str, capacity: str, value: int) -> int:
    return value * NANO - (used[device].amounts.get(capacity, 0) if device in used else 0)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([f"d{place}" for place in range(9)]),
            st.fixed_dictionaries({"size": st.integers(0, 24)}, optional={"speed": st.integers(0, 8)}),
            max_size=3,
        ),
        max_size=12,
    )
)
def test_those_that_have_enough_are_told_however_use_went_up_and_down(
    changes: list[dict[str, dict[str, int]]],
) -> None:
    """After any changes the same as by looking at each device, also at one that is used beyond what it has."""
    content = disk_slice(9)
    used: dict[str, Shares] = {}
    index = CapacityIndex(content, used)
    for change in changes:
        used |= {name: use(amounts) for name, amounts in change.items()}
        index.update(content, used, sum(1 << content.indexes[name] for name in change))
        for amount in range(21):
            assert index.enough(content.every, wanted(size=amount)) == sum(
                1 << content.indexes[name]
                for name in content.names
                if _left(used, name, "size", 20) >= amount * NANO
            )
        for devices in (content.every, 0b000011000):
            most = {
                "size": max(_left(used, name, "size", 20) for name in _names(content, devices)),
                "speed": max(
                    _left(used, name, "speed", 8) for name in _names(content, devices & 0b001001001)
                ),
            }
            assert dict(index.most(devices)) == most
        assert dict(index.most(0b000010000)) == {"size": _left(used, "d4", "size", 20)}
        assert index.enough(content.every, wanted(size=5, speed=3)) == sum(
            1 << content.indexes[name]
            for name in ("d0", "d3", "d6")
            if _left(used, name, "size", 20) >= 5 * NANO and _left(used, name, "speed", 8) >= 3 * NANO
        )


def test_who_is_shared_anew_is_read_anew_whichever_slice_is_asked_about_first() -> None:
    """What is read of one slice of a pool leaves the others of it to be read."""
    content = disk_slice(9)
    view: Any = SimpleNamespace(counted=0, shareable=0)
    state = PoolState(view, free=0)
    for offset in (0, 9):
        state.capacity_index(offset, content, {})
    used = {"d0": use({"size": 20})}
    for offset in (0, 9):
        state.forget(1 << offset)

    for offset in (9, 0):
        index = state.capacity_index(offset, content, used)
        assert index.enough(content.every, wanted(size=1)) == content.every & ~1


def test_a_share_costs_as_much_among_many_devices_as_among_few() -> None:
    """The device moves to its new place, and the others stay in order."""

    def cost(number: int) -> int:
        content = disk_slice(number)
        index = CapacityIndex(content, {})
        shared = {"d3": use({"size": 7})}
        found = opcodes(lambda: index.update(content, shared, 1 << 3))
        assert index.enough(1 << 3, wanted(size=14)) == 0
        return found

    assert cost(128) == cost(16)


LEFT = st.dictionaries(st.sampled_from(["memory", "cores"]), st.integers(-5, 2**70), max_size=2)


@given(st.lists(st.integers(-3, 2**80), min_size=2))
def test_more_is_never_on_a_lower_level(amounts: list[int]) -> None:
    """So whoever has enough is on the level of what is asked for, or on a higher one."""
    levels = [level_of(amount) for amount in sorted(amounts)]

    assert all(low <= high for low, high in pairwise(levels))


@given(st.integers(1, 2**70))
def test_a_quarter_more_is_on_a_higher_level(amount: int) -> None:
    """Few nodes pass that have not quite enough."""
    assert level_of(amount + -(-amount // 4)) > level_of(amount)


@given(st.lists(LEFT, max_size=8), st.sets(st.integers(0, 7)), LEFT)
def test_who_has_room_is_found_until_it_is_forgotten(
    left: list[dict[str, int]], forgotten: set[int], asked: dict[str, int]
) -> None:
    """Of those that are known each with enough of everything, and none of those that are forgotten."""
    leftovers = NodeCapacityIndex()
    for position, most in enumerate(left):
        leftovers.enter(1 << position, [("gpu", most)])
    for position in forgotten:
        leftovers.forget(1 << position)
    amounts = [(name, max(amount, 0), "") for name, amount in asked.items()]
    gpu = leftovers.by_driver.get("gpu")
    found = gpu.with_room(amounts) if gpu else 0

    known = {position for position in range(len(left)) if position not in forgotten}
    enough = {
        position
        for position in known
        if all(left[position].get(name, -1) >= amount for name, amount, _ in amounts)
    }
    named = {position for position in known if all(name in left[position] for name, *_ in amounts)}
    assert leftovers.known == sum(1 << position for position in known)
    assert {position for position in range(8) if found >> position & 1} >= enough
    assert {position for position in range(8) if found >> position & 1} <= named


def test_a_node_has_what_the_best_of_its_pools_has() -> None:
    """Both may serve."""
    leftovers = NodeCapacityIndex()
    leftovers.enter(1 << 3, [("gpu", {"memory": 2 * NANO}), ("gpu", {"memory": 9 * NANO})])

    assert leftovers.by_driver["gpu"].with_room([("memory", 8 * NANO, "8")]) == 0b1000


def test_a_driver_without_a_known_node_is_forgotten() -> None:
    """Drivers come and go under new names, and each that is kept is gone through for each claim."""
    leftovers = NodeCapacityIndex()
    leftovers.enter(1, [("gpu", {"memory": 1})])
    leftovers.enter(2, [("gpu", {"memory": 1})])
    leftovers.forget(1)
    assert leftovers.by_driver["gpu"].nodes == 2
    leftovers.forget(2)

    assert leftovers.by_driver == {}


def test_a_pool_without_free_devices_has_nothing() -> None:
    """Its node is known, and has nothing of its driver."""
    leftovers = NodeCapacityIndex()
    leftovers.enter(1, [])

    assert leftovers.known == 1
    assert leftovers.by_driver == {}


def test_what_is_forgotten_of_a_node_is_forgotten_of_all_that_is_selected_there() -> None:
    """A device that is taken may be any of them."""
    leftovers = NodeCapacityIndexes()
    leftovers.every.enter(1, [("gpu", {"memory": 1})])
    leftovers.get_selected("a").enter(1, [("gpu", {"memory": 1})])
    leftovers.forget(1)

    assert leftovers.every.known == leftovers.get_selected("a").known == 0


def test_only_so_many_selections_are_told_apart() -> None:
    """Claims may bring selectors of their own, and each is told of every device that is taken."""
    leftovers = NodeCapacityIndexes()
    last = [leftovers.get_selected(number) for number in range(100)][-1]

    assert list(leftovers.selected) == list(range(84, 100))
    assert leftovers.get_selected(99) is last
