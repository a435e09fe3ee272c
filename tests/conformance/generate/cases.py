"""Cases: expressions with a device each, or expressions of any type without one."""

from typing import Any

from conformance.generate.chance import Chance
from conformance.generate.expressions import Expressions

Wire = dict[str, Any]

_STRINGS = ("a", "b", "gpu", "", "v2.1", "1.2.3", "10Gi", "dra.example.com", "é", "10.0.0.1")
_INTS = (0, 1, 2, -3, 5, 60, 9223372036854775807)
_VERSIONS = ("1.2.3", "1.0.0", "2.0.0-rc.1", "0.0.1+b", "550.54.15")
_QUANTITIES = ("80Gi", "1500m", "-5", "1e3", "0", "10Gi", "12E", "9223372036854775808", "100n")
_VALUE_TYPES = (
    "bool", "int", "uint", "double", "string", "bytes", "list_int", "list_string", "map", "semver",
    "quantity", "duration", "timestamp", "ip", "cidr", "url", "dyn", "list_dyn",
)  # fmt: skip


def make_case(seed: int, number: int) -> Wire:
    """Return the case of that number, in the format that `python -m conformance cel` reads."""
    chance = Chance(f"case {seed} {number}")
    depth = chance.pick(1, 2, 2, 3, 3, 4)
    if chance.maybe(0.3):
        return _value(chance, f"value-{seed}-{number}", depth)
    expressions = Expressions(chance, device=True)
    case: Wire = {"name": f"selector-{seed}-{number}", "expression": expressions.draw("bool", depth)}
    if chance.maybe(0.06):
        case["expression"] = expressions.damaged(case["expression"])
    if chance.maybe(0.25):
        case["env"] = "new"
    if chance.maybe(0.2):
        case["features"] = {"ConsumableCapacity": chance.maybe(0.5), "ListTypeAttributes": chance.maybe(0.5)}
    if chance.maybe(0.6):
        # Asks for the worst-case cost; what is written here does not matter.
        case["maxCost"] = 0
    case["device"] = _device(chance)
    return case


def _value(chance: Chance, name: str, depth: int) -> Wire:
    expressions = Expressions(chance, device=False)
    text = expressions.draw(chance.pick(*_VALUE_TYPES), depth)
    return {"name": name, "expression": expressions.damaged(text) if chance.maybe(0.06) else text}


def _device(chance: Chance) -> Wire:
    attributes: Wire = {
        "s": {"string": chance.pick(*_STRINGS)},
        "i": {"int": chance.pick(*_INTS)},
        "b": {"bool": chance.maybe(0.5)},
        "v": {"version": chance.pick(*_VERSIONS)},
        "ls": {"strings": chance.some(_STRINGS, 1, 3)},
        "li": {"ints": chance.some(_INTS, 1, 3)},
        "lb": {"bools": chance.some((True, False), 1, 2)},
        "lv": {"versions": chance.some(_VERSIONS, 1, 2)},
    }
    attributes = {name: attributes[name] for name in attributes if chance.maybe(0.85)}
    attributes["other.example.com/s"] = {"string": chance.pick(*_STRINGS)}
    attributes[chance.pick("name", "dra.example.com/name", "other.example.com/i")] = chance.pick(*_ANY)
    capacity = {
        name: {"value": chance.pick(*_QUANTITIES)}
        for name in chance.some(("memory", "other.example.com/cores"), 0, 2)
    }
    device: Wire = {
        "driver": chance.pick("dra.example.com", "dra.example.com", "other.example.com", ""),
        "attributes": attributes,
        "capacity": capacity,
    }
    if (shareable := chance.pick(True, False, None)) is not None:
        device["allowMultipleAllocations"] = shareable
    return device


_ANY = (
    *({"string": text} for text in _STRINGS[:3]),
    {"int": 7},
    {"bool": True},
    {"ints": [1, 2]},
    {"versions": ["1.0.0"]},
    {},
    {"version": "1.x"},
    {"strings": []},
)
