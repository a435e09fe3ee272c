"""What a selector compared, in the words of the device."""

from typing import Any

import pytest

from dra_operator.allocator import comparison
from dra_operator.api.read import read_object
from dra_operator.inventory.columns import Columns
from dra_operator.inventory.slices import Slice, read_slice


@pytest.fixture
def content() -> Slice:
    """A slice with one device."""
    device = {
        "name": "a",
        "attributes": {"model": {"string": "a100"}, "index": {"int": 3}, "healthy": {"bool": False}},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": "gpu.io", "pool": pool, "allNodes": True, "devices": [device]}
    return read_slice(read_object({"metadata": {"name": "s"}, "spec": spec}, "ResourceSlice"), Columns())


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ('device.driver == "nic.io"', "driver gpu.io != nic.io"),
        ('device.attributes["gpu.io"].model == "h100"', "model a100 != h100"),
        ("device.attributes['gpu.io'].index >= 4", "index 3 < 4"),
        ('!device.attributes["gpu.io"].healthy', "healthy false != false"),
        ('device.attributes["gpu.io"].model in ["h100", "b200"]', 'model a100 not in ["h100", "b200"]'),
        ('device.attributes["gpu.io"].healthy', "healthy false != true"),
        ('device.attributes["gpu.io"].other == 1', "other missing != 1"),
        ('device.capacity["gpu.io"].memory.compareTo(quantity("80Gi")) >= 0', "memory 40Gi < 80Gi"),
        ('device.capacity["gpu.io"].memory.isGreaterThan(quantity("80Gi"))', "memory 40Gi <= 80Gi"),
        ('device.capacity["gpu.io"].memory == quantity("64Gi")', "memory 40Gi != 64Gi"),
        ('device.capacity["gpu.io"]["memory"] == quantity("64Gi")', "memory 40Gi != 64Gi"),
        ('device.attributes["gpu.io"].model.startsWith("h")', None),
    ],
)
def test_plain_comparisons_are_told(content: Slice, expression: str, told: str | None) -> None:
    """With the device's own value; anything else is not guessed at."""
    found = comparison.read(expression)

    assert (None if found is None else found.tell(content, 0)) == told


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a && b", ["a", "b"]),
        ("a && (b && c)", ["a", "(b && c)"]),
        ('a == "x && y" && b', ['a == "x && y"', "b"]),
        ("a || b && c", ["a || b && c"]),
        ("a ? b && c : d", ["a ? b && c : d"]),
        ("x.?y.orValue(1) == 1 && b", ["x.?y.orValue(1) == 1", "b"]),
    ],
)
def test_only_the_top_is_taken_apart(expression: str, parts: list[str]) -> None:
    """What stands in brackets, quotes, or beside `||` stays whole."""
    assert comparison.conjuncts(expression) == tuple(parts)
