"""Devices: domains, defaults and values that cannot be read."""

from hypothesis import given, reject
from hypothesis import strategies as st

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import Quantity, parse_quantity
from dra_operator.cel import CelError, compile_selector
from dra_operator.cel.device import prepare_amount, prepare_attribute
from dra_operator.cel.values.values import EMPTY_MAP


def test_a_bare_name_belongs_to_the_driver(device):
    """Names without a domain are filed under the driver's name."""
    assert device.attributes["dra.example.com/model"] == "h100"
    assert device.attributes["numa.example.com/node"] == 1


def test_an_unknown_domain_is_an_empty_map(device):
    """Looking a domain up always gives a map; asking whether it is there does not."""
    attributes = device.root.find("attributes")

    assert attributes.find("nope") is EMPTY_MAP
    assert not attributes.contains("nope")
    assert list(attributes) == ["dra.example.com", "numa.example.com"]


def test_a_version_that_is_none_makes_the_device_unreadable(make_device):
    """The error names the attribute, and every selector gives it."""
    broken = make_device(attributes={"v": {"version": "one"}})

    assert isinstance(broken.broken, CelError)
    assert broken.broken.message.startswith("attribute v: parse semantic version: ")


def test_an_error_that_is_kept_holds_nothing_else():
    """It stays as long as the value does, and the frames it came through would hold the slice that was read."""
    found = prepare_attribute(AttributeValue("version", "one"))

    assert isinstance(found, CelError)
    assert found.__traceback__ is None
    assert found.__context__ is None


def test_sharing_is_off_unless_it_is_on(make_device):
    """`allowMultipleAllocations` is false where it is absent."""
    selector = compile_selector("device.allowMultipleAllocations")

    assert not selector.match(make_device())
    assert selector.match(make_device(allowMultipleAllocations=True))


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
