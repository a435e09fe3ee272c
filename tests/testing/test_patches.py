"""What patches do that no recorded answer shows: to lists as a whole, and to what they are given."""

from typing import Any

from dra_operator.testing.patches import merge, strategic_merge

NODE = "core/v1.Node"


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


def test_a_merge_patch_leaves_its_arguments_alone() -> None:
    """Neither document nor patch is changed."""
    document, patch = {"a": {"b": 1}}, {"a": {"c": 2}}

    merge(document, patch)

    assert (document, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}})
