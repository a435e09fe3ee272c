"""Devices: domains, defaults and values that cannot be read."""

from hypothesis import given, reject
from hypothesis import strategies as st

from dra_operator.api.quantity import Quantity, parse_quantity
from dra_operator.cel.device import prepare_amount
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector


def test_a_version_that_is_none_makes_the_device_unreadable(make_device):
    """The error names the attribute, and every selector gives it."""
    broken = make_device(attributes={"v": {"version": "one"}})

    assert isinstance(broken.broken, CelError)
    assert broken.broken.message.startswith("attribute v: parse semantic version: ")


@given(
    st.from_regex(
        r"[+-]?[0-9]{0,25}(\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,6})?", fullmatch=True
    )
)
def test_every_amount_that_can_be_published_can_be_seen(text):
    """A selector never fails on it, and sees the amount that the API means, a zero with any exponent included."""
    try:
        amount = parse_quantity(text)
    except ValueError:
        reject()

    assert prepare_amount(amount).nano == amount.nano
    assert prepare_amount(Quantity(amount.nano)).nano == amount.nano


def test_a_zero_of_any_exponent_is_seen(make_device):
    """The API server takes one that an expression could not be charged for."""
    device = make_device(capacity={"memory": {"value": "0e200000"}})

    assert compile_selector("device.driver != 'x'").match(device)
    assert compile_selector("device.capacity['dra.example.com'].memory.compareTo(quantity('0')) == 0").match(
        device
    )
