"""Merge-patches, JSON-patches, and how patch bodies are read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.sim import patches
from dra_operator.sim.errors import StatusError

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


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "remove", "path": "/none"}],
        [{"op": "replace", "path": "/none/x", "value": 1}],
        [{"op": "fly", "path": "/a"}],
        [{"path": "/a"}],
        [{"op": "add", "path": "a", "value": 1}],
    ],
)
def test_a_json_patch_that_cannot_be_applied_gets_422(operations: list[dict[str, Any]]) -> None:
    """A failed test, a missing path or an unknown operation is refused, without a useful word, as upstream does."""
    with pytest.raises(StatusError) as refusal:
        patches.apply_json_patch({"a": 1}, operations)

    assert (refusal.value.code, refusal.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("application/json", b"{}", 415),
        ("application/apply-patch+yaml", b"{}", 415),
        (patches.MERGE, b"{garbage", 400),
        (patches.MERGE, b"[]", 400),
        (patches.STRATEGIC, b"3", 400),
        (patches.JSON_PATCH, b'{"op": "remove"}', 400),
    ],
)
def test_bodies_that_are_no_patch_are_refused(content_type: str, body: bytes, code: int) -> None:
    """The content type must be one of the three, and the body must fit it."""
    with pytest.raises(StatusError) as refusal:
        patches.read(content_type, body, "resource/v1.ResourceClaim")({})

    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (patches.MERGE, {"metadata": {"labels": {"x": "y"}}}),
        (patches.STRATEGIC, {"metadata": {"labels": {"x": "y"}}}),
        (patches.JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]),
    ],
)
def test_each_content_type_means_its_patch(content_type: str, patch: Any) -> None:
    """The three formats can all add a label."""
    change = patches.read(content_type, json.dumps(patch).encode(), "resource/v1.ResourceClaim")

    assert change({"metadata": {}}) == {"metadata": {"labels": {"x": "y"}}}
