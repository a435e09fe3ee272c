"""Which nodes can be used."""

from typing import Any

import pytest

from dra_operator.inventory.nodes import read_node


@pytest.mark.parametrize(
    ("fields", "unusable"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param({"spec": {"unschedulable": True}}, "cordoned", id="cordoned"),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "not ready", id="not ready"
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            "not ready",
            id="gone silent",
        ),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, None, id="ready"),
        pytest.param(
            {"status": {"conditions": [{"type": "Disk", "status": "False"}]}}, None, id="something else"
        ),
    ],
)
def test_a_node_can_be_used_unless_it_says_otherwise(
    make: Any, fields: dict[str, Any], unusable: str | None
) -> None:
    """Absent fields mean usable; cordoned, Ready=False and Ready=Unknown mean not."""
    assert read_node(make("Node", "node-1", **fields)).unusable == unusable


def test_a_node_that_declares_the_feature_can_skip_operations(make: Any) -> None:
    """The kubelet's declared feature is what counts."""
    node = make("Node", "node-1", status={"declaredFeatures": ["DRAOptionalNodeOperations"]})

    assert read_node(node).skips_operations
    assert not read_node(make("Node", "node-2")).skips_operations


def test_a_node_has_what_selects_it_alone(make: Any) -> None:
    """It is made once, for all claims that are allocated there."""
    (term,) = read_node(make("Node", "node-1")).selector.node_selector_terms
    (only,) = term.match_fields

    assert not term.match_expressions
    assert (only.key, only.operator, only.values) == ("metadata.name", "In", ("node-1",))
