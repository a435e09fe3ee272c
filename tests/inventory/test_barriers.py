"""Devices in sets, each behind the same barriers."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.types import DeviceTaint
from dra_operator.inventory import bits
from dra_operator.inventory.barriers import Barrier, barred

TAINTS = st.builds(
    DeviceTaint,
    key=st.sampled_from("ab"),
    value=st.sampled_from(["", "v"]),
    effect=st.sampled_from(["None", "NoSchedule", "NoExecute"]),
    time_added=st.sampled_from([None, "2026-01-01T00:00:00Z"]),
)
SLICE = st.lists(st.lists(TAINTS, max_size=3).map(tuple), max_size=6)


def each(found: Any) -> dict[int, tuple[Barrier, ...]]:
    """Return the barriers of each device; none is told of twice."""
    told = [(index, barriers) for barriers, devices in found for index in bits.each(devices)]
    assert len(dict(told)) == len(told)
    assert len(dict(found)) == len(found)
    return dict(told)


def expected(taints: Any) -> dict[int, tuple[Barrier, ...]]:
    """Return the same, device by device."""
    return {
        index: those
        for index, item in enumerate(taints)
        if (those := tuple(Barrier(x.key, x.value, x.effect) for x in item if x.effect != "None"))
    }


@given(SLICE)
def test_each_device_is_behind_its_own_taints(taints: Any) -> None:
    """In their order, and whenever they were added; a taint without an effect is no barrier."""
    assert each(barred(taints)) == expected(taints)
