"""Parts of devices, rounded so that those that fit together never seem too much; and sums of counters."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.stock import Stock
from dra_operator.allocator.sums import ALL, Sums, part
from dra_operator.allocator.wants import Wants


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=20), st.integers(0, 4))
def test_parts_of_what_fits_never_exceed_a_device(room: int, amounts: list[int], rounding: int) -> None:
    """The law that makes each rounding a bound: amounts within the room have parts within one device."""
    fitting: list[int] = []
    for amount in amounts:
        if sum(fitting) + amount <= room:
            fitting.append(amount)

    assert sum(part(amount, room, rounding) for amount in fitting) <= ALL


@pytest.mark.parametrize(
    ("amount", "rounding", "expected"),
    [
        (25, 0, Fraction(1, 4)),
        (40, 1, 0),
        (50, 1, Fraction(1, 2)),
        (51, 1, 1),
        (34, 2, Fraction(1, 2)),
        (101, 0, 1),
    ],
)
def test_a_part_is_rounded(amount: int, rounding: int, expected: Fraction) -> None:
    """Halves: less than half is nothing, more is all; thirds: more than one third is a half."""
    assert part(amount, 100, rounding) == expected * ALL


def test_what_is_overdrawn_takes_nothing_from_counters_of_the_same_name(
    scene: Any, ask: Any, stock_of: Callable[..., Stock]
) -> None:
    """Devices of one pool given away by others overlap; in the other there is room for two, not three."""
    for pool in "ab":
        devices = [
            {
                "name": f"{pool}{number}",
                "consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "2"}}}],
            }
            for number in range(4)
        ]
        scene.slice(pool, *devices, pool=pool, count=2)
        counters = [{"name": "c", "counters": {"memory": {"value": "4"}}}]
        scene.slice(f"{pool}-counters", pool=pool, count=2, sharedCounters=counters)
    for number in range(3):
        scene.hold(f"held-{number}", f"b{number}", "b")
    stock = stock_of(scene.claim(*(ask(name) for name in "xyz")))
    now = Wants.on(stock.board, stock).first()
    assert now is not None
    sums = Sums(stock)

    assert sums.counters_suffice((*now.wants[:2], ()), now.left)
    assert not sums.counters_suffice(now.wants, now.left)
