"""Attribute values: a type and a value."""

import pytest

from dra_operator.api.attributes import UNKNOWN, AttributeValue, read_attribute, write_attribute


@pytest.mark.parametrize(
    ("wire", "attribute"),
    [
        ({"int": -5}, AttributeValue("int", -5)),
        ({"bool": False}, AttributeValue("bool", value=False)),
        ({"string": ""}, AttributeValue("string", "")),
        ({"version": "1.0.0"}, AttributeValue("version", "1.0.0")),
        ({"strings": ["a", "b"]}, AttributeValue("strings", ("a", "b"))),
        ({"versions": []}, AttributeValue("versions", ())),
        ({}, UNKNOWN),
        ({"int": None, "other": 1}, UNKNOWN),
    ],
)
def test_a_union_has_one_value(wire, attribute):
    """The field that is set gives type and value; without a known one the type is unknown."""
    assert read_attribute(wire) == attribute


@pytest.mark.parametrize("wire", [{"int": 1}, {"bools": [True]}, {}, {"string": "a"}])
def test_an_attribute_is_written_as_it_was_read(wire):
    """Writing is the inverse of reading."""
    assert write_attribute(read_attribute(wire)) == wire


@pytest.mark.parametrize(
    "wire",
    [
        {"int": True},
        {"int": 1.0},
        {"int": -(2**63) - 1},
        {"bool": 1},
        {"string": 5},
        {"ints": ["1"]},
        {"ints": 1},
        "a",
        None,
    ],
)
def test_a_value_of_another_type_is_refused(wire):
    """The value must be of the type that its field names."""
    with pytest.raises(ValueError, match=r"is not"):
        read_attribute(wire)
