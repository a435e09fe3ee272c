"""Paths: what of a device an expression reads."""

import pytest

from dra_operator.cel.run.planner import plan
from dra_operator.cel.run.steps import reads, table_entry
from dra_operator.cel.types.environment import STORED


@pytest.fixture
def read(check):
    """Return a function that says what an expression reads."""
    return lambda text: reads(plan(check(text), STORED))


@pytest.fixture
def entry(check):
    """Return a function that says which entry of a prepared device an expression is."""

    def found(text):
        return table_entry(tuple(plan(check(text), STORED).step.qualifiers))

    return found


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("true", set()),
        ("device.driver == 'a'", {"driver"}),
        ("device.allowMultipleAllocations", {"allowMultipleAllocations"}),
        ("device.attributes['d'].model == 'a'", {"attributes/d/model"}),
        ("device.attributes['d'][?'model'].orValue('a') == 'a'", {"attributes/d/model"}),
        ("has(device.capacity['d'].memory)", {"capacity/d/memory"}),
        ("'model' in device.attributes['d']", {"attributes/d/model"}),
        ("cel.bind(a, device.attributes['d'], a.x == a.y)", {"attributes/d/x", "attributes/d/y"}),
        (
            "device.driver == 'a' ? device.attributes['d'].x == 1 : device.attributes['d'].y == 1",
            {"driver", "attributes/d/x", "attributes/d/y"},
        ),
        ("[1, 2].exists(i, device.attributes['d'].x == i)", {"attributes/d/x"}),
    ],
)
def test_constant_paths_are_named(read, text, parts):
    """Every path is named once, also those behind a condition, in a loop, or bound to a name."""
    assert read(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "device.attributes['d'].exists(k, k == 'a')",
        "device.attributes[device.driver].x == 1",
        "size(device.capacity['d']) == 1",
        "cel.bind(a, device, a == a)",
        "device.attributes['d'] == device.attributes['e']",
        "device.attributes['d/x'].y == 1",
    ],
)
def test_whole_maps_and_computed_keys_are_anything(read, text):
    """What reads more than single attributes may read all of the device."""
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("device.attributes['d'].model", "attributes"),
        ("device.attributes['d'].?model", "attributes"),
        ("has(device.attributes['d'].model)", "attributes"),
        ("device.attributes['d'].model.further", "attributes"),
        ("device.capacity.d.model", "capacity"),
    ],
)
def test_a_constant_way_is_an_entry_of_a_table(entry, text, table):
    """An attribute is found by one key, whatever comes behind it or is asked of it."""
    assert entry(text) == (table, "d/model")


@pytest.mark.parametrize(
    "text",
    [
        "device.driver",
        "device.attributes['d']",
        "device.?attributes['d'].model",
        "device.attributes[?'d'].model",
        "device.attributes[device.driver].model",
        "device.attributes['d/x'].model",
    ],
)
def test_any_other_way_is_no_entry(entry, text):
    """What is optional before its end, computed or no attribute is found step by step."""
    assert entry(text) is None
