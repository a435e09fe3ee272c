"""What the API server refuses of slices, rules, classes, names and derived attributes is found, with what to do."""

from typing import Any

import pytest

import slips
import slips_of_asides
import slips_of_derived
import slips_of_names
import slips_of_values
from slips_of_names import class_with
from too_long import slice_of

CASES = (
    slips.CASES
    | slips_of_values.CASES
    | slips_of_names.CASES
    | slips_of_derived.NAMES
    | slips_of_asides.CASES
)
RIGHT = (
    slips.RIGHT
    | slips_of_values.RIGHT
    | slips_of_names.RIGHT
    | slips_of_derived.RIGHT
    | slips_of_asides.RIGHT
    | slips_of_asides.OF_A_NODE
)


@pytest.mark.parametrize(("body", "path", "message"), CASES.values(), ids=CASES)
def test_a_refusal_names_field_value_and_remedy(
    refused: Any, body: dict[str, Any], path: str, message: str
) -> None:
    """Each slip is told once, with the path of the field."""
    ((found, text),) = refused(body)

    assert found == path
    assert text.startswith(message)
    assert ": " in text


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_not_refused(refused: Any, body: dict[str, Any]) -> None:
    """However close it comes."""
    assert refused(body) == []


def test_what_an_api_server_has_taken_is_not_refused(refused: Any) -> None:
    """A newer one may take more."""
    assert refused(CASES["devices beside counters"][0], uid="u") == []
    assert refused(CASES["a rule whose effect is misspelt"][0], uid="u") == []
    assert refused(class_with({}), uid="u") == []
    assert refused(slips_of_derived.NAMES["an attribute that is derived twice"][0], uid="u") == []


@pytest.mark.parametrize(
    ("item", "field", "problem"),
    [
        (3, "", "3 is not an object"),
        ({"mapping": "cpu"}, ".mapping", '"cpu" is not an object'),
        ({"mapping": {"capacityKey": ["cores"]}}, ".mapping.capacityKey", '["cores"] is not text'),
        ({"mapping": {"capacityKey": 1}}, ".mapping.capacityKey", "1 is not text: write it in quotes"),
        ({"mapping": {"deviceMultiplier": [1]}}, ".mapping.deviceMultiplier", "[1] is not a quantity"),
        ({"overhead": {"perPod": "much"}}, ".overhead.perPod", '"much" is not a quantity'),
    ],
)
def test_resources_of_the_node_are_read_as_the_api_server_reads_them(
    refused: Any, item: Any, field: str, problem: str
) -> None:
    """The operator does not read them, but an API server would refuse the slice."""
    ((path, message),) = refused(slips_of_asides.consuming(item))

    assert path == f'{slips_of_asides.AT}["cpu"]{field}'
    assert message.startswith(problem)


def test_resources_of_the_node_are_no_list(refused: Any) -> None:
    """They have names."""
    ((path, message),) = refused(slice_of({"name": "d", "nodeAllocatableResources": ["cpu"]}))

    assert (path, message) == (slips_of_asides.AT, '["cpu"] is not an object')
