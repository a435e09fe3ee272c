"""Merge-patches, JSON-patches, and how patch bodies are read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.testing import patches
from dra_operator.testing.errors import StatusError
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


NODE, POD, CLAIM = "core/v1.Node", "core/v1.Pod", "resource/v1.ResourceClaim"


def conditions(*pairs: str) -> dict[str, Any]:
    """Return a node with conditions, each written `Type=Status`."""
    items = [dict(zip(("type", "status"), pair.split("="), strict=True)) for pair in pairs]
    return {"status": {"conditions": items}}


def test_a_keyed_list_is_merged_item_by_item() -> None:
    """The condition of the same type changes; the others stay, in their order."""
    merged = strategic_merge(conditions("A=True", "B=True", "C=True"), conditions("B=False"), NODE)

    assert merged == conditions("A=True", "B=False", "C=True")


def test_a_new_item_joins_a_keyed_list() -> None:
    """An item whose key is new is added; upstream puts it first."""
    merged = strategic_merge(conditions("A=True"), conditions("B=True"), NODE)

    assert merged == conditions("B=True", "A=True")


def test_the_delete_directive_takes_an_item_away() -> None:
    """`$patch: delete` with the key removes that item only."""
    patch = {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}

    assert strategic_merge(conditions("A=True", "B=True"), patch, NODE) == conditions("B=True")


def test_the_replace_directive_replaces_a_list() -> None:
    """`$patch: replace` among the items throws the old ones away."""
    patch = {"status": {"conditions": [{"$patch": "replace"}, {"type": "C", "status": "True"}]}}

    assert strategic_merge(conditions("A=True"), patch, NODE) == conditions("C=True")


def test_the_order_directive_sorts_a_keyed_list() -> None:
    """`$setElementOrder` decides the order of the items it names."""
    patch = {"status": {"$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}]}}

    assert strategic_merge(conditions("A=True", "B=True"), patch, NODE) == conditions("B=True", "A=True")


def test_a_list_without_a_key_is_replaced() -> None:
    """Devices of a claim's requests have no merge key: the patch's list is the new list."""
    document = {"spec": {"devices": {"requests": [{"name": "a"}, {"name": "b"}]}}}

    merged = strategic_merge(document, {"spec": {"devices": {"requests": [{"name": "b"}]}}}, CLAIM)

    assert merged == {"spec": {"devices": {"requests": [{"name": "b"}]}}}


def test_consumers_of_a_claim_are_keyed_by_uid() -> None:
    """`reservedFor` is merged by uid."""
    document = {"status": {"reservedFor": [{"uid": "1", "name": "p"}]}}

    merged = strategic_merge(document, {"status": {"reservedFor": [{"uid": "1", "name": "q"}]}}, CLAIM)

    assert merged == {"status": {"reservedFor": [{"uid": "1", "name": "q"}]}}


def test_finalizers_are_a_set() -> None:
    """A list of scalars with the strategy merge takes new items and keeps old ones, once each."""
    merged = strategic_merge(
        {"metadata": {"finalizers": ["a/a", "b/b"]}}, {"metadata": {"finalizers": ["b/b", "c/c"]}}, CLAIM
    )

    assert sorted(merged["metadata"]["finalizers"]) == ["a/a", "b/b", "c/c"]


def test_finalizers_can_be_taken_out() -> None:
    """`$deleteFromPrimitiveList` removes scalars."""
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}

    assert strategic_merge({"metadata": {"finalizers": ["a/a", "b/b"]}}, patch, CLAIM) == {
        "metadata": {"finalizers": ["b/b"]}
    }


@pytest.mark.parametrize(
    ("patch", "labels"),
    [
        ({"b": "2"}, {"a": "1", "b": "2"}),
        ({"a": None}, {}),
        ({"b": "2", "$patch": "replace"}, {"b": "2"}),
        ({"$patch": "delete"}, {}),
    ],
)
def test_maps_are_merged_by_key(patch: dict[str, Any], labels: dict[str, str]) -> None:
    """Labels come and go one by one, unless a directive says otherwise."""
    merged = strategic_merge({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": patch}}, CLAIM)

    assert merged["metadata"]["labels"] == labels


def test_retained_keys_are_the_only_ones_left() -> None:
    """`$retainKeys` drops the fields it does not name before the patch is merged."""
    document = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {
        "spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}
    }

    assert strategic_merge(document, patch, POD) == {
        "spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
    }


def test_an_item_without_its_key_is_refused() -> None:
    """A keyed list needs the key in every item of the patch."""
    with pytest.raises(StatusError, match="does not contain declared merge key: type"):
        strategic_merge(conditions("A=True"), {"status": {"conditions": [{"status": "True"}]}}, NODE)


def test_the_document_is_not_changed() -> None:
    """The stored object stays as it was."""
    document = conditions("A=True")

    strategic_merge(document, conditions("A=False", "B=True"), NODE)

    assert document == conditions("A=True")
