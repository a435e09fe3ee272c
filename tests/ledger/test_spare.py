"""What shares have left of the devices of a slice, in order."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.inventory.columns import Columns
from dra_operator.inventory.slices import Slice, read_slice
from dra_operator.ledger import PoolState
from dra_operator.ledger.spare import Spare
from dra_operator.ledger.uses import Shares
from opcodes import opcodes

NANO = 10**9


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
    spare = Spare(content, used)
    for change in changes:
        used |= {name: use(amounts) for name, amounts in change.items()}
        spare.update(content, used, sum(1 << content.indexes[name] for name in change))
        for amount in range(21):
            assert spare.enough(content.every, wanted(size=amount)) == sum(
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
            assert dict(spare.most(devices)) == most
        assert dict(spare.most(0b000010000)) == {"size": _left(used, "d4", "size", 20)}
        assert spare.enough(content.every, wanted(size=5, speed=3)) == sum(
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
        state.spare(offset, content, {})
    used = {"d0": use({"size": 20})}
    for offset in (0, 9):
        state.forget(1 << offset)

    for offset in (9, 0):
        spare = state.spare(offset, content, used)
        assert spare.enough(content.every, wanted(size=1)) == content.every & ~1


def test_a_share_costs_as_much_among_many_devices_as_among_few() -> None:
    """The device moves to its new place, and the others stay in order."""

    def cost(number: int) -> int:
        content = disk_slice(number)
        spare = Spare(content, {})
        shared = {"d3": use({"size": 7})}
        found = opcodes(lambda: spare.update(content, shared, 1 << 3))
        assert spare.enough(1 << 3, wanted(size=14)) == 0
        return found

    assert cost(128) == cost(16)
