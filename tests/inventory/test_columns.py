"""Shared columns."""

import pytest

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.types import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dra_operator.cel.errors import CelError
from dra_operator.inventory.slices import Columns


def test_one_and_true_are_different_columns() -> None:
    """A value is never taken for an equal one of another type."""
    columns = Columns()

    number, flag = (
        columns.attributes((AttributeValue("int", 1),)),
        columns.attributes((AttributeValue("bool", True),)),
    )
    assert number is not flag


def test_capacities_with_different_policies_are_different_columns() -> None:
    """In any of what a policy says, as what a share consumes depends on it."""
    one, two = parse_quantity("1"), parse_quantity("2")
    policies = [
        None,
        CapacityRequestPolicy(),
        *(CapacityRequestPolicy(default=each) for each in (one, two)),
        *(CapacityRequestPolicy(valid_values=each) for each in ((one,), (one, two))),
        *(
            CapacityRequestPolicy(valid_range=CapacityRequestPolicyRange(*ends))
            for ends in ((None, None, None), (one, None, None), (None, one, None), (None, None, one))
        ),
    ]
    columns = Columns()
    every = [columns.capacities((DeviceCapacity(two, policy),)) for policy in policies]

    assert len({column.serial for column in every}) == len(policies)


@pytest.mark.parametrize(
    ("capacities", "whole"),
    [
        pytest.param([DeviceCapacity(parse_quantity("1Gi")), None], True, id="amounts alone"),
        pytest.param([DeviceCapacity(parse_quantity("0"))], True, id="nothing"),
        pytest.param([DeviceCapacity(parse_quantity("-1"))], False, id="a negative amount is an error"),
        pytest.param(
            [
                DeviceCapacity(parse_quantity("1Gi")),
                DeviceCapacity(parse_quantity("1Gi"), CapacityRequestPolicy(parse_quantity("2Gi"))),
            ],
            False,
            id="a policy decides what is given",
        ),
    ],
)
def test_capacity_without_policies_is_given_whole(
    capacities: list[DeviceCapacity | None],
    *,
    whole: bool,
) -> None:
    """To whoever asks for no amount, so that nothing has to be computed for it."""
    assert Columns().capacities(tuple(capacities)).given_whole is whole


def test_values_are_prepared_for_expressions_when_they_are_published() -> None:
    """A value that expressions cannot read is the error that each of them gives; one that is missing is nothing."""
    columns = Columns()
    versions = columns.attributes(
        (AttributeValue("version", "1.0.0"), AttributeValue("version", "one"), None)
    )
    amounts = columns.capacities((DeviceCapacity(parse_quantity("1Gi")), None))

    assert str(versions.prepared[0]) == "1.0.0"
    assert isinstance(versions.prepared[1], CelError)
    assert versions.prepared[2] is None
    assert [amount and amount.nano for amount in amounts.prepared] == [2**30 * 10**9, None]


@pytest.mark.parametrize(
    ("least", "most", "step", "expected"),
    [
        ("1", "9", None, True),
        ("0", None, "1", True),
        (None, "9", None, False),
        ("-1", "9", None, False),
        (None, "9", "1", False),
        ("1", None, "0", False),
        ("-1", None, "1", False),
        ("1", None, f"{2**61 + 1}m", False),
    ],
)
def test_a_range_is_ordinary_that_makes_steps_from_no_less_than_nothing(
    least: str | None, most: str | None, step: str | None, *, expected: bool
) -> None:
    """Steps from below zero, or too large ones, end the attempt; those that begin nowhere permit the default alone."""
    ends = [None if text is None else parse_quantity(text) for text in (least, most, step)]
    policy = CapacityRequestPolicy(None, (), CapacityRequestPolicyRange(*ends))

    assert Columns().capacities((DeviceCapacity(parse_quantity("8"), policy),)).is_ordinary is expected


@pytest.mark.parametrize(("default", "expected"), [("-1", False), ("0", True), ("1", True)])
def test_what_nobody_asked_for_is_no_less_than_nothing(default: str, *, expected: bool) -> None:
    """Else a share could make room, or end the attempt."""
    policy = CapacityRequestPolicy(parse_quantity(default))

    assert Columns().capacities((DeviceCapacity(parse_quantity("8"), policy),)).is_ordinary is expected
