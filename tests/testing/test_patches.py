"""Merge-patches, JSON-patches, and how patch bodies are read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.testing import patches
from dra_operator.testing.patches import strategic_merge

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(document: Any, patch: Any, expected: Any) -> None:
    """A merge-patch does what the appendix of the RFC says."""
    assert patches.merge(document, patch) == expected


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_is_applied_once(document: Any, patch: Any) -> None:
    """A second time changes nothing."""
    once = patches.merge(document, patch)

    assert patches.merge(once, patch) == once


def test_a_merge_patch_leaves_its_arguments_alone() -> None:
    """Neither document nor patch is changed."""
    document, patch = {"a": {"b": 1}}, {"a": {"c": 2}}

    patches.merge(document, patch)

    assert (document, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}})


NODE, POD, CLAIM = "core/v1.Node", "core/v1.Pod", "resource/v1.ResourceClaim"


def conditions(*pairs: str) -> dict[str, Any]:
    """Return a node with conditions, each written `Type=Status`."""
    items = [dict(zip(("type", "status"), pair.split("="), strict=True)) for pair in pairs]
    return {"status": {"conditions": items}}


def test_the_replace_directive_replaces_a_list() -> None:
    """`$patch: replace` among the items throws the old ones away."""
    patch = {"status": {"conditions": [{"$patch": "replace"}, {"type": "C", "status": "True"}]}}

    assert strategic_merge(conditions("A=True"), patch, NODE) == conditions("C=True")


def test_the_document_is_not_changed() -> None:
    """The stored object stays as it was."""
    document = conditions("A=True")

    strategic_merge(document, conditions("A=False", "B=True"), NODE)

    assert document == conditions("A=True")
