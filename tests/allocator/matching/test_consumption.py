"""Ordinary amounts: who is refused one is refused all larger ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.allocator.matching.capacity import consume
from dra_operator.api.quantity import Quantity, is_ordinary, parse_quantity
from dra_operator.api.types import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dra_operator.inventory.slices import Columns

AMOUNTS = st.one_of(
    st.integers(-1, 12).map(str),
    st.integers(-100, 12000).map("{}m".format),
    st.integers(0, 40).map("{}Mi".format),
    st.integers(0, 5).map("{}.5Gi".format),
    st.sampled_from(
        ["1k", "2e3", "100u", "9E", "10E", "1Pi", "1.953125Ki", f"{2**61}m", f"{2**61 + 1}m", "-9Pi"]
    ),
).map(parse_quantity)
MAYBE = st.none() | AMOUNTS
POLICIES = st.builds(
    CapacityRequestPolicy,
    default=MAYBE,
    valid_values=st.lists(AMOUNTS, max_size=3).map(tuple),
    valid_range=st.none() | st.builds(CapacityRequestPolicyRange, min=MAYBE, max=MAYBE, step=MAYBE),
)
CAPACITIES = st.builds(DeviceCapacity, value=AMOUNTS, request_policy=st.none() | POLICIES)


@settings(max_examples=1000)
@given(CAPACITIES, st.lists(AMOUNTS.filter(is_ordinary), min_size=2, max_size=5), st.booleans())
def test_who_is_refused_an_ordinary_amount_is_refused_each_larger_one(
    capacity: DeviceCapacity,
    amounts: list[Quantity],
    fractional: bool,  # noqa: FBT001 - given by the generator
) -> None:
    """Where a capacity is ordinary; and no ordinary amount, nor none, is an error there, nor made less."""
    if not Columns().capacities((capacity,)).is_ordinary:
        return
    consume({}, {"a": capacity}, fractional=fractional)
    asked = sorted(amounts)
    taken = [consume({"a": amount}, {"a": capacity}, fractional=fractional) for amount in asked]
    fit = [found is not None for found in taken]

    assert fit == sorted(fit, reverse=True)
    for amount, found in zip(asked, taken, strict=True):
        assert found is None or found.amounts[0][1] >= amount.nano


def test_what_is_consumed_grows_with_what_is_asked_for() -> None:
    """So who has no room for an amount has none for a larger one."""
    capacity = of("80", "1", span="2 - 3")
    taken = [consume({"memory": parse_quantity(str(n))}, capacity, fractional=True) for n in range(80)]
    amounts = [found.amounts[0][1] for found in taken if found is not None]

    assert amounts == sorted(amounts)
    assert len(amounts) > 70


def of(value: str, default: str | None = None, *values: str, span: str = "") -> dict[str, DeviceCapacity]:
    """Return a capacity of a device; `span` is written as min, max and step, - for absent."""
    ends = [None if text == "-" else parse_quantity(text) for text in span.split()]
    policy = CapacityRequestPolicy(
        None if default is None else parse_quantity(default),
        tuple(map(parse_quantity, values)),
        CapacityRequestPolicyRange(*ends) if ends else None,
    )
    return {"memory": DeviceCapacity(parse_quantity(value), policy)}


@pytest.mark.parametrize(
    "capacity",
    [
        pytest.param(of("10Gi", "9Gi", span="1Gi 8Gi"), id="a default beyond the range"),
        pytest.param(of("10Gi", "9Gi", "1Gi", "8Gi"), id="a default beyond the values"),
        pytest.param(of("10Gi", "5Gi", span="1Gi - 0"), id="no step"),
        pytest.param(of("10Gi", span="1Gi - 100u"), id="steps finer than thousandths"),
        pytest.param(of("10Gi", span="-2 - 1"), id="a range that begins below zero"),
        pytest.param(of("10Gi", span="- 8Gi 1Gi"), id="steps that begin nowhere"),
        pytest.param(of("-1"), id="less than nothing"),
    ],
)
def test_what_is_out_of_the_ordinary(capacity: dict[str, DeviceCapacity]) -> None:
    """A node that refuses an amount is asked again for larger ones."""
    assert not Columns().capacities((capacity["memory"],)).is_ordinary


@pytest.mark.parametrize(
    "capacity",
    [
        pytest.param(of("80Gi", "1Gi", span="512Mi - 256Mi"), id="steps"),
        pytest.param(of("80Gi", "1Gi", span="512Mi 40Gi"), id="a range without steps"),
        pytest.param(of("100", "10", "10", "20"), id="values"),
        pytest.param(of("40", "1"), id="a default alone"),
        pytest.param({"memory": DeviceCapacity(parse_quantity("40"))}, id="no policy"),
    ],
)
def test_policies_as_published_by_drivers_are_ordinary(capacity: dict[str, DeviceCapacity]) -> None:
    """Nothing is negative, fine or large."""
    assert Columns().capacities((capacity["memory"],)).is_ordinary
