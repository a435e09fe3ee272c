"""Devices: domains, defaults and values that cannot be read."""

from dra_operator.cel import CelError, compile_selector
from dra_operator.cel.values import EMPTY_MAP


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


def test_sharing_is_off_unless_it_is_on(make_device):
    """`allowMultipleAllocations` is false where it is absent."""
    selector = compile_selector("device.allowMultipleAllocations")

    assert not selector.match(make_device())
    assert selector.match(make_device(allowMultipleAllocations=True))
