"""Derived attributes in the searches that count."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Failed
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.chain import SearchMode

DRIVER = "gpu.example.com"
KIND = f'device.attributes["{DRIVER}"].kind == "{{}}"'
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


_PLACES = st.lists(st.integers(0, 2), min_size=1, max_size=5)
CASES = st.fixed_dictionaries(
    {
        "gpus": _PLACES,
        "nics": _PLACES,
        "used": st.sets(st.integers(0, 9), max_size=3),
        "counts": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "shifts": st.tuples(st.integers(0, 1), st.integers(0, 1)),
        "constraint": st.sampled_from(("matchAttribute", "distinctAttribute")),
    }
)


@pytest.mark.parametrize("kinds", ["gpu nic", "gpu gpu"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_counting_decides_as_the_plain_search(
    scene_with: Any, ask: Any, kinds: str, case: dict[str, Any]
) -> None:
    """Whatever requests derive, and whether they can take the same devices."""
    scene = scene_with()
    gpus = [gpu(f"g{number}", place) for number, place in enumerate(case["gpus"])]
    make = nic if "nic" in kinds else gpu
    devices = [*gpus, *(make(f"n{number}", place) for number, place in enumerate(case["nics"]))]
    scene.nodes("n")
    scene.slice("s", *devices)
    for number in case["used"] & set(range(len(devices))):
        scene.hold(f"holder-{number}", devices[number]["name"], "pool")
    attributes = {"gpu": "numa", "nic": "socket"}
    requests = [
        ask(f"r{number}", count, KIND.format(kind), **of(f"{attributes[kind]} + {shift}"))
        for number, (kind, count, shift) in enumerate(
            zip(kinds.split(), case["counts"], case["shifts"], strict=True)
        )
    ]
    claim = scene.claim(*requests, constraints=[{case["constraint"]: "d/x"}])

    plain = Allocator(
        scene.inventory, scene.ledger, clock=lambda: 0.0, share_ids=str, searching=SearchMode.PLAIN
    )

    assert scene.decide(claim) == plain.allocate((claim,))
