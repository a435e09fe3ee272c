"""What a use of a device consumes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.matching.capacity import CapacityError, consume, refusal
from dra_operator.api.quantity import NANO, Quantity, parse_quantity
from dra_operator.api.types import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity


def q(text: str | None) -> Quantity | None:
    """Return a quantity, or None."""
    return None if text is None else parse_quantity(text)


def capacity(value: str, default: str | None = None, values: str = "", span: str = "") -> DeviceCapacity:
    """Return a capacity; `values` and `span` (min, max, step) are written with blanks between, - for absent."""
    policy = None
    if default or values or span:
        ends = [None if text == "-" else parse_quantity(text) for text in span.split()]
        policy = CapacityRequestPolicy(
            default=q(default),
            valid_values=tuple(parse_quantity(text) for text in values.split()),
            valid_range=CapacityRequestPolicyRange(*ends) if ends else None,
        )
    return DeviceCapacity(parse_quantity(value), policy)


def result(request: str | None, of: DeviceCapacity, *, fractional: bool = True) -> str:
    """Return the text of what is consumed, `refused`, or `fatal`."""
    requests = {} if request is None else {"memory": parse_quantity(request)}
    try:
        consumed = consume(requests, {"memory": of}, fractional=fractional)
    except CapacityError:
        return "fatal"
    return "refused" if consumed is None else consumed.quantities()["memory"].text


GIB = capacity("100Gi", span="1Gi 8Gi 1Gi")
TWO_VALUES = capacity("100Gi", values="1Gi 4Gi")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("0", "1Gi"),
        ("1", "1Gi"),
        ("1536Mi", "2Gi"),
        ("3Gi", "3Gi"),
        ("8Gi", "8Gi"),
        ("8193Mi", "refused"),
        ("9Gi", "refused"),
        ("-1Gi", "1Gi"),
        ("10Pi", "fatal"),
        ("500100u", "1Gi"),
    ],
)
def test_a_range_rounds_up_to_its_steps(request_: str, expected: str) -> None:
    """Measured with upstream: below the minimum it is the minimum, above the maximum nothing."""
    assert result(request_, GIB) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2048Mi", "2Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1E3", "1E3"),
        ("0012", "0012"),
        ("1.953125Ki", "2000"),
    ],
)
def test_copied_amounts_are_written_as_kubernetes_writes_them(written: str, expected: str) -> None:
    """Go reads what is requested, a default and a capacity into numbers, and writes numbers; measured with upstream."""
    assert result(written, capacity("100Gi")) == expected
    assert result(None, capacity("100Gi", default=written)) == expected
    assert result(None, capacity(written)) == expected


@pytest.mark.parametrize(
    ("request_", "expected"), [("0", "1Gi"), ("1Gi", "1Gi"), ("2Gi", "4Gi"), ("5Gi", "refused")]
)
def test_values_round_up_to_the_next_one(request_: str, expected: str) -> None:
    """The first listed value that is large enough; none is a refusal."""
    assert result(request_, TWO_VALUES) == expected


@pytest.mark.parametrize(
    ("span", "request_", "on", "off"),
    [
        ("500m - 1", "200m", "500m", "500m"),
        ("500m - 1", "500m", "500m", "1"),
        ("500m - 1", "501m", "1500m", "1"),
        ("500m - 1", "1", "1500m", "1"),
        ("500m - 1", "1500m", "1500m", "2"),
        ("500m - 1", "2", "2500m", "2"),
        ("200m 1 100m", "250m", "300m", "1"),
        ("200m 1 100m", "950m", "1", "1"),
        ("200m 1 100m", "1001m", "refused", "refused"),
        ("1 - 1", "1500m", "2", "2"),
        ("1 - 1", "1000500u", "fatal", "2"),
    ],
)
def test_fractions_depend_on_the_feature(span: str, request_: str, on: str, off: str) -> None:
    """With the feature a range is computed in thousandths, without it in whole units. Measured with upstream."""
    of = capacity("100", span=span)

    assert (result(request_, of), result(request_, of, fractional=False)) == (on, off)


@pytest.mark.parametrize(
    ("of", "request_", "expected"),
    [
        pytest.param(capacity("10Gi"), None, "10Gi", id="no request takes all"),
        pytest.param(capacity("10Gi", default="2Gi"), None, "2Gi", id="no request takes the default"),
        pytest.param(capacity("10Gi", default="2Gi"), "3Gi", "3Gi", id="a default alone restricts nothing"),
        pytest.param(capacity("10Gi"), "1024Mi", "1Gi", id="all that is asked for"),
        pytest.param(capacity("10Gi"), "11Gi", "refused", id="more than there is"),
        pytest.param(capacity("10Gi"), "-1", "fatal", id="negative request"),
        pytest.param(capacity("-10Gi"), None, "fatal", id="negative value"),
        pytest.param(capacity("10Gi", default="-1Gi"), None, "fatal", id="negative default"),
        pytest.param(capacity("10Gi", span="1Gi 8Gi 0"), "2Gi", "refused", id="a step of nothing"),
        pytest.param(capacity("10Gi", span="- 8Gi 1Gi"), "2Gi", "refused", id="a step without start"),
        pytest.param(
            capacity("10Gi", default="1Gi", span="1Gi 8Gi 0"), None, "1Gi", id="a default needs no step"
        ),
        pytest.param(capacity("10Gi", span="1Gi 8Gi"), "1500Mi", "1500Mi", id="a range without steps"),
        pytest.param(capacity("100k", span="1k 100k 1k"), "2500", "3k", id="decimal"),
        pytest.param(capacity("100e3", span="1e3 100e3 1e3"), "2500", "3e3", id="exponent"),
    ],
)
def test_policies(of: DeviceCapacity, request_: str | None, expected: str) -> None:
    """What is consumed under a policy is what its rule says, row by row."""
    assert result(request_, of) == expected


def test_a_capacity_that_the_device_lacks_makes_it_unfit() -> None:
    """Whatever else the device has; the key must be equal to the letter."""
    requests = {"gpu.example.com/memory": parse_quantity("1")}

    assert consume(requests, {"memory": capacity("10")}, fractional=True) is None


@given(
    wanted=st.integers(0, 10**6),
    least=st.integers(0, 1000),
    step=st.integers(1, 1000),
    fractional=st.booleans(),
)
def test_a_rounded_amount_is_the_least_on_the_grid(
    wanted: int, least: int, step: int, *, fractional: bool
) -> None:
    """Not below what is requested, on the grid, and less than a step above."""
    of = capacity("10000000", span=f"{least} - {step}")
    consumed = consume(
        {"memory": Quantity(wanted * NANO, str(wanted))}, {"memory": of}, fractional=fractional
    )

    assert consumed is not None
    amount = consumed.quantities()["memory"]
    assert amount.nano % NANO == 0
    units = amount.nano // NANO
    assert units >= wanted
    assert (units - least) % step == 0
    assert units == least or units - step < wanted
    assert parse_quantity(amount.text) == amount


@pytest.mark.parametrize(
    ("default", "request_", "expected"),
    [
        pytest.param("9Gi", None, "9Gi", id="the default itself"),
        pytest.param("9Gi", "9Gi", "9Gi", id="the same text"),
        pytest.param("9Gi", "9216Mi", "refused", id="the same amount in other units"),
        pytest.param("16Gi", "16384Mi", "16Gi", id="other units, but canonical text is kept for neither"),
        pytest.param("9000M", "9G", "refused", id="decimal units are held apart"),
        pytest.param("8.5Gi", None, "refused", id="a fraction of a binary unit is held like nothing else"),
        pytest.param("1Pi", None, "refused", id="so is a large amount"),
    ],
)
def test_a_default_outside_its_range_permits_what_go_holds_alike(
    default: str, request_: str | None, expected: str
) -> None:
    """Upstream compares the fields of its quantities. Measured with upstream; no API server admits such a default."""
    assert result(request_, capacity("10Pi", default=default, span="1Gi 8Gi")) == expected


@pytest.mark.parametrize(
    ("default", "expected"), [("16Gi", "16Gi"), ("9Gi", "refused"), ("17179869184", "refused")]
)
def test_a_rounded_amount_can_be_the_default(default: str, expected: str) -> None:
    """A computed amount is held as whole units in the family of the step, and without a text."""
    of = capacity("100Gi", default=default, span="1Gi 8Gi 1Gi")

    assert result({"9Gi": "8300Mi"}.get(default, "15.5Gi"), of) == expected


@pytest.mark.parametrize(
    ("of", "request_", "expected"),
    [
        (capacity("10Gi"), "11Gi", "memory 10Gi < 11Gi"),
        (capacity("10Gi", default="11Gi"), None, "memory 10Gi < 11Gi (the default, as none is requested)"),
        (capacity("10Gi", span="1Gi - 4Gi"), "9500Mi", "memory 10Gi < 13Gi (9500Mi rounded up)"),
        (GIB, "9Gi", "memory 9Gi > the policy's maximum 8Gi"),
        (GIB, "8500Mi", "memory 9Gi (8500Mi rounded up) > the policy's maximum 8Gi"),
        (TWO_VALUES, "5Gi", "memory 5Gi is none of the policy's values 1Gi, 4Gi"),
        (
            capacity("10Gi", default="1500Mi", span="2Gi 8Gi 1.5Gi"),
            "2Gi",
            "",
        ),
        (
            capacity("10Gi", span="1Gi 8Gi 0"),
            "2Gi",
            "memory 2Gi is not on the policy's steps of 0 from 1Gi",
        ),
        (
            capacity("10Gi", span="- 8Gi 1Gi"),
            "2Gi",
            "memory 2Gi cannot be judged by the policy's step 1Gi without a minimum",
        ),
    ],
)
def test_a_refusal_names_the_capacity_and_its_amounts(
    of: DeviceCapacity, request_: str | None, expected: str
) -> None:
    """What is asked for, or what it was rounded up to, and what stands against it."""
    requests = {} if request_ is None else {"memory": parse_quantity(request_)}

    assert refusal(requests, {"memory": of}, fractional=True) == expected


def test_a_refusal_names_a_requested_capacity_first() -> None:
    """Whoever reads it can change the request, and not what the driver says about the others."""
    of = {"a": capacity("1", default="2"), "b": capacity("1")}

    assert refusal({"b": parse_quantity("2")}, of, fractional=True) == "b 1 < 2"
    assert refusal({"c": parse_quantity("2")}, of, fractional=True) == "no capacity c, only a and b"


@pytest.mark.parametrize(("asked", "there"), [("a.io/c", "c"), ("c", "a.io/c")])
def test_names_of_capacities_are_compared_as_they_are_written(asked: str, there: str) -> None:
    """With a domain or without, unlike attributes: of the driver `a.io`, these are two capacities."""
    of = {there: capacity("8")}

    assert refusal({asked: parse_quantity("2")}, of, fractional=True) == f"no capacity {asked}, only {there}"


def test_of_a_device_that_lacks_a_capacity_no_amount_is_looked_at() -> None:
    """An impossible amount of another one is no error there, and none while it is told why the device is unfit."""
    requests = {"a": parse_quantity("-1"), "c": parse_quantity("2")}
    of = {"a": capacity("1")}

    assert consume(requests, of, fractional=True) is None
    assert refusal(requests, of, fractional=True) == "no capacity c, only a"


@pytest.mark.parametrize(
    ("request_", "expected"), [("8", "fatal"), ("-2", "fatal"), ("-5", "fatal"), (None, "refused")]
)
def test_a_range_that_starts_below_zero_is_an_error_in_thousandths(
    request_: str | None, expected: str
) -> None:
    """Upstream's test for what can be represented overflows there; without a request the value is off the grid."""
    assert result(request_, capacity("100", span="-2 - 8")) == expected


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        ("-9223372036854775808m", "2"),
        ("-9223372036.854775809", "2"),
        ("-9223372037000000000n", "2"),
        ("-9Pi", "2"),
        ("-922337203685477580m", "fatal"),
        ("-9223372037", "fatal"),
    ],
)
def test_what_lies_far_below_zero_counts_as_thousandths_only_where_few_digits_hold_it(
    least: str, expected: str
) -> None:
    """Measured with upstream: of more digits it takes the low bits, and then computes in whole units."""
    assert result("1500m", capacity("10Gi", span=f"{least} - 1")) == expected
