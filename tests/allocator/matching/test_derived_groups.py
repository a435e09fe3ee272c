"""Derived attributes in the searches that count."""

from typing import Any

import pytest

from dra_operator.allocator.decision import Failed
from dra_operator.allocator.reasons import Reason

DRIVER = "gpu.example.com"
MATCH = [{"matchAttribute": "d/x"}]


def gpu(name: str, numa: int) -> dict[str, Any]:
    """Return a GPU, which calls the place where it is its NUMA node."""
    return {"name": name, "attributes": {"kind": {"string": "gpu"}, "numa": {"int": numa}}}


def nic(name: str, socket: int) -> dict[str, Any]:
    """Return a network card, which calls it its socket."""
    return {"name": name, "attributes": {"kind": {"string": "nic"}, "socket": {"int": socket}}}


def derive(expression: str) -> dict[str, Any]:
    """Return the field of a request that derives the attribute."""
    return {"derivedAttributes": [{"name": "d/x", "expression": expression}]}


def of(name: str) -> dict[str, Any]:
    """Return the same, by another attribute."""
    return derive(f'device.attributes["{DRIVER}"].{name}')


@pytest.mark.parametrize(
    ("features", "picked"), [({}, ["p=a", "q=b"]), ({"list_type_attributes": False}, None)]
)
def test_derived_lists_agree_only_with_their_feature(
    scene_with: Any, ask: Any, features: dict[str, bool], picked: list[str] | None
) -> None:
    """With the feature switched off a list agrees with nothing, a list that is the same neither."""
    scene = scene_with(**features)
    scene.nodes("n")
    scene.slice("s", gpu("a", 0), gpu("b", 1), nodeName="n")
    claim = scene.claim(*[ask(name, **derive('["x", "y"]')) for name in "pq"], constraints=MATCH)

    assert scene.picks(claim) == picked


def test_an_error_ends_the_attempt_where_the_plain_search_meets_it(scene: Any, ask: Any) -> None:
    """Not where a device that is never reached would fail."""
    scene.nodes("n")
    scene.slice("s", gpu("a", 0), gpu("b", 0), nic("c", 0))
    two, three = (scene.claim(ask("r", count, **of("numa")), constraints=MATCH) for count in (2, 3))

    assert scene.picks(two) == ["r=a", "r=b"]
    failed = scene.decide(three)
    assert isinstance(failed, Failed)
    assert failed.reason is Reason.DERIVED_ATTRIBUTE_FAILED
