"""Devices that must agree, or differ, in an attribute."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.constraints import (
    DISTINCT,
    MATCH,
    Constraint,
    ConstraintPlan,
    fresh,
)
from dra_operator.api.attributes import UNKNOWN, AttributeValue
from dra_operator.inventory import Features


def value(content: Any) -> AttributeValue:
    """Return an attribute value: ints, strings, bools and lists of them; None is unknown."""
    if content is None:
        return UNKNOWN
    kinds = {int: "int", str: "string", bool: "bool"}
    if isinstance(content, list):
        return AttributeValue(f"{kinds[type(content[0])] if content else 'int'}s", tuple(content))  # type: ignore[arg-type]
    return AttributeValue(kinds[type(content)], content)  # type: ignore[arg-type]


def accepted(constraint: Constraint, *contents: Any) -> list[bool]:
    """Return which of these values a constraint takes, one after the other."""
    return [constraint.add(value(content)) for content in contents]


@pytest.mark.parametrize(
    ("contents", "scalar", "lists"),
    [
        pytest.param(["x", "x"], [True, True], [True, True], id="equal"),
        pytest.param(["x", "y"], [True, False], [True, False], id="different"),
        pytest.param([1, True], [True, False], [True, False], id="one is not true"),
        pytest.param(
            [["x", "y"], ["y", "z"]], [True, False], [True, True], id="lists with something in common"
        ),
        pytest.param([["x", "y"], "y"], [True, False], [True, True], id="list and scalar"),
        pytest.param(
            [["x", "y"], ["y", "z"], ["x"]], [True, False, False], [True, True, False], id="common to all"
        ),
        pytest.param([None], [True], [False], id="unknown as the first"),
        pytest.param([[]], [True], [False], id="empty list as the first"),
    ],
)
def test_match(contents: list[Any], scalar: list[bool], lists: list[bool]) -> None:
    """Without the list feature a list is a value of unknown type: fine alone, equal to nothing."""
    assert (
        accepted(fresh(ConstraintPlan(MATCH, "a"), Features(list_type_attributes=False)), *contents) == scalar
    )
    assert accepted(fresh(ConstraintPlan(MATCH, "a"), Features()), *contents) == lists


@pytest.mark.parametrize(
    ("contents", "scalar", "lists"),
    [
        pytest.param(["x", "y", "x"], [True, True, False], [True, True, False], id="compared with all"),
        pytest.param(
            [1, True, "1"], [True, True, True], [True, True, True], id="different types are distinct"
        ),
        pytest.param([["x", "y"], ["z"]], [True, False], [True, True], id="disjoint lists"),
        pytest.param([["x", "y"], ["y"]], [True, False], [True, False], id="overlapping lists"),
        pytest.param([["x"], "y"], [True, True], [True, True], id="scalar after a list"),
        pytest.param([None, "x"], [True, True], [False, True], id="unknown as the first"),
    ],
)
def test_distinct(contents: list[Any], scalar: list[bool], lists: list[bool]) -> None:
    """Without the list feature a list is accepted as the first and refused beside anything."""
    assert (
        accepted(fresh(ConstraintPlan(DISTINCT, "a"), Features(list_type_attributes=False)), *contents)
        == scalar
    )
    assert accepted(fresh(ConstraintPlan(DISTINCT, "a"), Features()), *contents) == lists


VALUES = st.one_of(
    st.none(),
    st.integers(0, 2),
    st.booleans(),
    st.lists(st.integers(0, 2), max_size=2),
    st.sampled_from("xy"),
)


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("kind", [MATCH, DISTINCT])
@given(
    before=st.lists(VALUES, max_size=4),
    between=st.lists(VALUES, max_size=4),
    after=st.lists(VALUES, max_size=4),
)
def test_what_is_undone_leaves_nothing_behind(
    kind: str, before: list[Any], between: list[Any], after: list[Any], *, lists: bool
) -> None:
    """A constraint answers after an undo as if the devices had never been there."""
    tried, plain = (
        fresh(ConstraintPlan(kind, "a"), Features(list_type_attributes=lists)),
        fresh(ConstraintPlan(kind, "a"), Features(list_type_attributes=lists)),
    )
    accepted(tried, *before)
    accepted(plain, *before)
    for _ in range(sum(accepted(tried, *between))):
        tried.undo()

    assert accepted(tried, *after) == accepted(plain, *after)


KIND = "gpu.example.com/kind"
