"""What ordinary amounts come to by rules that are made ready once."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.matching.capacity import Consumption, consume
from dra_operator.allocator.matching.consumption import build_rules, consume_by
from dra_operator.api.quantity import Quantity, is_ordinary, parse_quantity
from dra_operator.api.types import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

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


def written(consumed: Consumption | None) -> object:
    """Return what is consumed to the letter: amounts and how they are written, in order."""
    if consumed is None:
        return None
    return [(name, item.nano, item.text) for name, item in consumed.quantities().items()], consumed.amounts


@given(
    st.dictionaries(st.sampled_from("ab"), CAPACITIES, max_size=2),
    st.dictionaries(st.sampled_from("abc"), AMOUNTS, max_size=2),
    st.booleans(),
)
def test_rules_say_what_the_policies_say(
    capacity: Mapping[str, DeviceCapacity],
    requests: Mapping[str, Quantity],
    fractional: bool,  # noqa: FBT001 - given by the generator
) -> None:
    """To the letter of each amount; and where there are rules no ordinary amount is an error."""
    rules = build_rules(capacity, fractional=fractional)
    if rules is None or not all(map(is_ordinary, requests.values())):
        return

    assert written(consume_by(rules, requests)) == written(consume(requests, capacity, fractional=fractional))


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
        pytest.param(of("10Gi", span="1Gi - 100u"), id="steps finer than thousandths"),
        pytest.param(of("10Gi", span="-2 - 1"), id="a range that begins below zero"),
        pytest.param(of("10Gi", span="- 8Gi 1Gi"), id="steps that begin nowhere"),
        pytest.param(of("-1"), id="less than nothing"),
    ],
)
def test_what_is_out_of_the_ordinary_has_no_rule(capacity: dict[str, DeviceCapacity]) -> None:
    """The policies themselves are asked about each amount."""
    assert build_rules(capacity, fractional=True) is None


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
def test_ordinary_policies_have_rules(capacity: dict[str, DeviceCapacity]) -> None:
    """As published by drivers: nothing negative, fine or large."""
    assert build_rules(capacity, fractional=True) is not None
