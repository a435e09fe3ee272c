"""Attributes and capacities of devices as a hand gets them wrong.

For the test of what `simulate` says of them, and for the one that asks the real API server.
"""

from typing import Any

from too_long import slice_of

ATTRIBUTE = 'spec.devices[0].attributes["a"]'
POLICY = 'spec.devices[0].capacity["c"].requestPolicy'
RANGE = f"{POLICY}.validRange"


def attribute(**union: Any) -> dict[str, Any]:
    """A slice with an attribute."""
    return slice_of({"name": "d", "attributes": {"a": union}})


def policy(*, shared: bool | None = True, value: str = "10", **fields: Any) -> dict[str, Any]:
    """A slice with a capacity, of 10 unless said otherwise, that is requested by a policy."""
    capacity = {"c": {"value": value, "requestPolicy": fields}}
    return slice_of({"name": "d", "allowMultipleAllocations": shared, "capacity": capacity})


def ranging(default: str | None = "1", **bounds: str | None) -> dict[str, Any]:
    """A slice with a capacity of 10 that is requested in a range."""
    return policy(default=default, validRange=bounds)


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "an attribute without a value": (attribute(), ATTRIBUTE, "has no value: "),
    "an attribute that is null": (
        slice_of({"name": "d", "attributes": {"a": None}}),
        ATTRIBUTE,
        "has no value: ",
    ),
    "an attribute whose value is null": (attribute(int=None), ATTRIBUTE, "has no value: "),
    "an attribute with two values": (
        attribute(int=1, string="a"),
        ATTRIBUTE,
        "int and string are set: keep one of them",
    ),
    "an attribute with two lists": (attribute(ints=[1], bools=[True]), ATTRIBUTE, "ints and bools are set: "),
    "an attribute with an empty list": (attribute(strings=[]), f"{ATTRIBUTE}.strings", "is an empty list: "),
    "an attribute with a hyphen": (
        slice_of({"name": "d", "attributes": {"a-b": {"int": 1}}}),
        "spec.devices[0].attributes",
        '"a-b" is no name: ',
    ),
    "an attribute with a long name": (
        slice_of({"name": "d", "attributes": {"a" * 33: {"int": 1}}}),
        "spec.devices[0].attributes",
        '"aaa',
    ),
    "an attribute of a domain with a long name": (
        slice_of({"name": "d", "attributes": {"a" * 64 + "/b": {"int": 1}}}),
        "spec.devices[0].attributes",
        '"aaa',
    ),
    "a capacity of no domain": (
        slice_of({"name": "d", "capacity": {"/b": {"value": "1"}}}),
        "spec.devices[0].capacity",
        '"/b" is no name: ',
    ),
    "a version of two numbers": (
        attribute(version="1.0"),
        f"{ATTRIBUTE}.version",
        '"1.0" is no version: ',
    ),
    "a version with v": (attribute(version="v1.0.0"), f"{ATTRIBUTE}.version", '"v1.0.0" is no version: '),
    "a version with a zero in front": (
        attribute(version="1.0.0-01"),
        f"{ATTRIBUTE}.version",
        '"1.0.0-01" is no version: ',
    ),
    "a list with a wrong version": (
        attribute(versions=["1.0.0", "2"]),
        f"{ATTRIBUTE}.versions[1]",
        '"2" is no version: ',
    ),
    "a long version": (
        attribute(version="1.0.0-" + "a" * 59),
        f"{ATTRIBUTE}.version",
        "65 bytes are too many, 64 at most: ",
    ),
    "a long text": (attribute(string="é" * 33), f"{ATTRIBUTE}.string", "66 bytes are too many, 64 at most: "),
    "a long text in a list": (attribute(strings=["a" * 65]), f"{ATTRIBUTE}.strings[0]", "65 bytes are too"),
    "a policy of a device that is not shared": (
        policy(shared=None, default="1"),
        POLICY,
        "is only for a device that is shared: ",
    ),
    "an empty policy of a device that is not shared": (
        policy(shared=False),
        POLICY,
        "is only for a device that is shared: ",
    ),
    "values beside a range": (
        policy(default="1", validValues=["1"], validRange={"min": "1"}),
        POLICY,
        "validValues and validRange are both set: ",
    ),
    "values without a default": (policy(validValues=["1"]), f"{POLICY}.default", "is missing: "),
    "a range without a default": (ranging(None, min="1"), f"{POLICY}.default", "is missing: "),
    "a default that is none of the values": (
        policy(default="3", validValues=["1", "2"]),
        f"{POLICY}.validValues",
        "the default, 3, is not among them: ",
    ),
    "values that fall": (
        policy(default="1", validValues=["2", "1"]),
        f"{POLICY}.validValues[1]",
        '"1" is not more than 2, the one before it: ',
    ),
    "a value that is there twice": (
        policy(default="1", validValues=["1", "1"]),
        f"{POLICY}.validValues[1]",
        '"1" is not more than 1, ',
    ),
    "a value above the capacity": (
        policy(default="1", validValues=["1", "11"]),
        f"{POLICY}.validValues[1]",
        '"11" is more than the capacity, which is 10: ',
    ),
    "a range without min": (ranging(max="2"), f"{RANGE}.min", "is missing: "),
    "a range with nothing in it": (ranging(), f"{RANGE}.min", "is missing: "),
    "a min above the capacity": (
        ranging("11", min="11"),
        f"{RANGE}.min",
        '"11" is more than the capacity, which is 10: ',
    ),
    "a max above the capacity": (ranging(min="1", max="11"), f"{RANGE}.max", '"11" is more than the'),
    "a max below min": (
        ranging("3", min="3", max="2"),
        f"{RANGE}.max",
        '"2" is less than min, which is 3: ',
    ),
    "a default below min": (
        ranging("1", min="2"),
        f"{POLICY}.default",
        '"1" is less than min, which is 2: ',
    ),
    "a default above max": (
        ranging("3", min="1", max="2"),
        f"{POLICY}.default",
        '"3" is more than max, which is 2: ',
    ),
    "a step below zero": (
        ranging(min="1", step="-1"),
        f"{RANGE}.step",
        '"-1" is not greater than zero: ',
    ),
    "a step of nothing": (
        ranging(min="1", step="0"),
        f"{RANGE}.step",
        '"0" is not greater than zero: ',
    ),
    "steps from below zero": (
        ranging(min="-1", step="1"),
        f"{RANGE}.min",
        '"-1" cannot be reached by steps, which start from zero at least: ',
    ),
    "steps that the API server counts with 64 bits": (
        policy(value="30E", default="20E", validRange={"min": "0", "step": "3"}),
        f"{POLICY}.default",
        '"20E" cannot be reached by steps, which end at 9223372036854775807: ',
    ),
    "a step that leaves the capacity": (
        ranging(min="1", step="10"),
        f"{RANGE}.step",
        '"10" is more than lies between min, 1, and the capacity, 10: ',
    ),
    "a step that misses the default": (
        ranging("2", min="1", step="2"),
        f"{RANGE}.step",
        '"2" leads from min, 1, past the default, 2: ',
    ),
    "a step that misses max": (
        ranging("3", min="1", max="4", step="2"),
        f"{RANGE}.step",
        '"2" leads from min, 1, past the max, 4: ',
    ),
}
"""A slice, the field that is wrong, and how the message about it begins."""
RIGHT: dict[str, dict[str, Any]] = {
    "an attribute with a value beside a null": attribute(int=1, string=None),
    "an attribute that is false": attribute(bool=False),
    "an attribute of no text": attribute(string=""),
    "names of any form": slice_of(
        {
            "name": "d",
            "attributes": {
                name: {"int": 1} for name in ("_A1", "A.io/b", "a" * 63 + "/" + "b" * 32, "a/b/c", "//")
            },
            "capacity": {"a.io/B": {"value": "1"}},
        }
    ),
    "versions of any form": attribute(
        versions=["0.0.0", "1.0.0-0.a-b.01a+01.-", "1.0.0--", "99999999999999999999.0.0-99999999999999999999"]
    ),
    "the longest texts": attribute(strings=["é" * 32, "a" * 64]),
    "the longest version": attribute(version="1.0.0-" + "a" * 58),
    "a list with a value twice": attribute(ints=[1, 1]),
    "no policy of a device that is not shared": slice_of(
        {"name": "d", "capacity": {"c": {"value": "1", "requestPolicy": None}}}
    ),
    "an empty policy": policy(),
    "no values": policy(validValues=[]),
    "no values beside a range": policy(default="1", validValues=[], validRange={"min": "1"}),
    "a default alone, above the capacity": policy(default="11"),
    "ten values": policy(default="10", validValues=[str(number) for number in range(1, 11)]),
    "values below zero": policy(default="0", validValues=["-1", "0"]),
    "a default above the capacity, without max": ranging("11", min="1"),
    "min, max and default in one": ranging("10", min="10", max="10"),
    "a range below zero": ranging("-1", min="-2", max="-1"),
    "steps to default and max": ranging("3", min="1", max="9", step="2"),
    "a step that just fits": ranging(min="1", step="9"),
    "steps of fractions": ranging("500m", min="0", step="250m"),
    "fractions from below zero": ranging("500m", min="-1", step="250m"),
}
"""Slices that are right, each close to one that is not."""
