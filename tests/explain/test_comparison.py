"""What a selector compared, in the words of the device."""

import json
from collections import Counter
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pytest

from dra_operator.allocator.budget import unlimited
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.api.read import read_object
from dra_operator.cel.device import prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector
from dra_operator.cel.types.environment import STORED
from dra_operator.explain import comparison
from dra_operator.inventory.slices import Columns, Slice, read_slice


def slice_of(*devices: dict[str, Any]) -> Slice:
    """Return a slice with these devices."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": "gpu.io", "pool": pool, "allNodes": True, "devices": [*devices]}
    return read_slice(read_object({"metadata": {"name": "s"}, "spec": spec}, "ResourceSlice"), Columns())


def told_of(expression: str, content: Slice, devices: int = 1) -> dict[str, int]:
    """Return what is told of devices that a selector refuses, each text with their number."""
    told: Counter[str] = Counter()
    for text, count in comparison.first_false(
        SelectorCache(STORED), expression, content, devices, unlimited()
    ):
        told[text] += count
    return told


@pytest.fixture
def content() -> Slice:
    """A slice with one device."""
    device = {
        "name": "a",
        "attributes": {
            "model": {"string": "a100"},
            "index": {"int": 3},
            "healthy": {"bool": False},
            "roots": {"strings": ["a", "b"]},
            "driver": {"version": "1.2.3"},
        },
        "capacity": {"memory": {"value": "40Gi"}},
    }
    return slice_of(device)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ('device.driver == "nic.io"', "driver gpu.io != nic.io"),
        ('device.attributes["gpu.io"].model == "h100"', "model a100 != h100"),
        ("device.attributes['gpu.io'].index >= 4", "index 3 < 4"),
        ('device.attributes["gpu.io"].other == 1', "other missing != 1"),
        ('device.capacity["gpu.io"].memory.compareTo(quantity("80Gi")) >= 0', "memory 40Gi < 80Gi"),
        ('device.capacity["gpu.io"].memory.isGreaterThan(quantity("80Gi"))', "memory 40Gi <= 80Gi"),
        ('device.capacity["gpu.io"].memory == quantity("64Gi")', "memory 40Gi != 64Gi"),
        ('device.capacity["gpu.io"]["memory"] == quantity("64Gi")', "memory 40Gi != 64Gi"),
        ('"h100" == device.attributes["gpu.io"].model', "model a100 != h100"),
        ('4 < device.attributes["gpu.io"].index', "index 3 <= 4"),
        ('((device.attributes["gpu.io"].model) == "h100")', "model a100 != h100"),
        ('(device.attributes["gpu.io"].model == "h100")', "model a100 != h100"),
        ('device.attributes["gpu.io"].index == "3"', 'index int 3 != string "3"'),
        ('device.attributes["gpu.io"].healthy == "false"', 'healthy bool false != string "false"'),
        ('device.attributes["gpu.io"].roots == "a"', 'roots list of strings [a, b] != string "a"'),
        ('device.attributes["gpu.io"].driver == "1.2.3"', 'driver version 1.2.3 != string "1.2.3"'),
        ('device.attributes["gpu.io"].driver == semver("1.2.4")', "driver 1.2.3 != 1.2.4"),
        ('device.attributes["gpu.io"].driver.compareTo(semver("2.0.0")) >= 0', "driver 1.2.3 < 2.0.0"),
        ('device.attributes["gpu.io"].driver.isGreaterThan(semver("2.0.0"))', "driver 1.2.3 <= 2.0.0"),
        ('device.attributes["gpu.io"].?other.orValue(0) == 1', "no gpu.io/other"),
        ('device.attributes["gpu.io"][?"index"].orValue(0) == 1', "index 3 != 1"),
        (
            'device.capacity["gpu.io"].?hbm.orValue(quantity("0")).isGreaterThan(quantity("1"))',
            "no gpu.io/hbm",
        ),
    ],
)
def test_plain_comparisons_are_told(content: Slice, expression: str, told: str) -> None:
    """With the device's own value."""
    assert told_of(expression, content) == {told: 1}


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ('device.attributes["gpu.io"].model.startsWith("h")', "model is a100"),
        ('!(device.attributes["gpu.io"].index > 1)', "index is 3"),
        ('device.driver.startsWith("nic")', "driver is gpu.io"),
        ('device.attributes["gpu.io"].healthy', "healthy is false"),
        ('device.attributes["gpu.io"].model in ["h100", "b200"]', "model is a100"),
        ('has(device.attributes["gpu.io"].other)', "no gpu.io/other"),
        (
            'has(device.attributes["gpu.io"].x) || device.capacity["gpu.io"].memory.isLessThan(quantity("1"))',
            "no gpu.io/x and memory is 40Gi",
        ),
        ("device.allowMultipleAllocations", "allowMultipleAllocations is false"),
        ('device.attributes["gpu.io"].exists(name, name == "x")', None),
        ("1 == 2", None),
    ],
)
def test_of_anything_else_what_it_reads_is_told(content: Slice, expression: str, told: str | None) -> None:
    """Unless it reads nothing, or what it reads is computed."""
    assert told_of(expression, content) == ({} if told is None else {told: 1})


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ('device.attributes["gpu.io"].model == "h100"', {"model a100 != h100": 2, "model b200 != h100": 1}),
        ('device.driver == "nic"', {"driver gpu.io != nic": 3}),
        ('device.attributes["gpu.io"].model.startsWith("h")', {"model is a100": 2, "model is b200": 1}),
    ],
)
def test_devices_of_which_the_same_is_told_are_counted(expression: str, told: dict[str, int]) -> None:
    """Those that are asked about, and no others."""
    models = ("a100", "h100", "b200", "a100")
    devices = [
        {"name": f"d{at}", "attributes": {"model": {"string": each}}} for at, each in enumerate(models)
    ]

    assert told_of(expression, slice_of(*devices), 0b1101) == told


VALUES = (0, 1, 2, "0", "1", "true", "false", True, False)
ORDER = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def refuses(expression: str, content: Slice) -> bool:
    """Return whether a selector says no to the device of a slice, and does not fail on it."""
    try:
        return not compile_selector(expression).match(prepare_device("gpu.io", content.device(0)))
    except CelError:
        return False


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("operator", ORDER)
def test_what_is_told_is_true_of_the_device(operator: str, *, backwards: bool) -> None:
    """Of whatever a selector refuses: both sides are shown so that the sign between them holds, types and all."""
    told = 0
    for value, literal in product(VALUES, VALUES):
        kind = {int: "int", bool: "bool", str: "string"}[type(value)]
        attribute = 'device.attributes["gpu.io"].a'
        sides = (json.dumps(literal), attribute) if backwards else (attribute, json.dumps(literal))
        expression = f"{sides[0]} {operator} {sides[1]}"
        content = slice_of({"name": "a", "attributes": {"a": {kind: value}}})
        if not refuses(expression, content):
            continue
        (text,) = told_of(expression, content)
        words = text.split()
        told += 1
        if type(value) is type(literal):
            shown = value if kind == "int" else str(value).lower()
            name, left, sign, right = words
            assert (name, left, right) == ("a", str(shown), str(literal).lower())
            assert ORDER[sign](value, literal)
        else:
            assert words[:2] == ["a", kind]
            assert words[3] == "!="
            assert words[4] != kind

    assert told >= len(VALUES)


@pytest.mark.parametrize(
    ("expression", "kind", "edited"),
    [
        ('device.driver == "a"', "string", 'device.driver == "7"'),
        ("4 < device.attributes['g'].index", "int", "7 < device.attributes['g'].index"),
        ('(device.attributes["g"].fast == false)', "bool", '(device.attributes["g"].fast == 7)'),
        ("device.attributes[\"g\"].model == '>= 1'", "string", 'device.attributes["g"].model == "7"'),
        (
            '"x" == device.attributes["g"].?m.orValue("y")',
            "string",
            '"7" == device.attributes["g"].?m.orValue("y")',
        ),
        (
            'device.capacity["g"].?m.orValue(quantity("0")).compareTo(quantity("8Gi")) >= 0',
            "quantity",
            'device.capacity["g"].?m.orValue(quantity("0")).compareTo(quantity("7")) >= 0',
        ),
        (
            'device.attributes["g"].v.isLessThan(semver("2.0.0"))',
            "version",
            'device.attributes["g"].v.isLessThan(semver("7"))',
        ),
        ('true && device.attributes["g"].index == -4', "int", 'true && device.attributes["g"].index == 7'),
    ],
)
def test_the_literal_of_a_plain_comparison_can_be_replaced(expression: str, kind: str, edited: str) -> None:
    """By a text that is quoted where the type needs it; everything else stays."""
    (literal,) = comparison.find_literals(expression)

    assert (literal.kind, literal.put(expression, "7")) == (kind, edited)


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["g"].model in ["a"]',
        'has(device.attributes["g"].model)',
        '!device.attributes["g"].fast',
        'device.attributes["g"].model == "a" || true',
        'device.attributes["g"].model.startsWith("a")',
        "1 == 1",
    ],
)
def test_other_expressions_have_no_such_literal(expression: str) -> None:
    """Lists, flags, alternatives and whatever is not a comparison of a device's own."""
    assert comparison.find_literals(expression) == ()
