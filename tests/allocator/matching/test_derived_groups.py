"""Derived attributes in the searches that count."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator import Allocator, Failed, Reason, SearchMode
from dra_operator.allocator.matching import groups
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch

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


def _unexpected(_: ExhaustiveSearch) -> None:
    raise AssertionError("the exhaustive search was asked")


def test_devices_are_aligned_by_what_is_called_differently(counted_only: Any, ask: Any) -> None:
    """A GPU and a card of one place, the first that has both."""
    counted_only.slice("s", gpu("g0", 0), gpu("g1", 1), nic("n1", 1), nic("n2", 2))
    claim = counted_only.claim(
        ask("g", 1, KIND.format("gpu"), **of("numa")),
        ask("n", 1, KIND.format("nic"), **of("socket")),
        constraints=MATCH,
    )

    assert counted_only.picks(claim) == ["g=g1", "n=n1"]


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


def test_devices_differ_in_what_is_derived(counted_only: Any, ask: Any) -> None:
    """Of two at one place the first is taken."""
    counted_only.slice("s", gpu("a", 0), gpu("b", 0), gpu("c", 1))
    claim = counted_only.claim(ask("g", 2, **of("numa")), constraints=[{"distinctAttribute": "d/x"}])

    assert counted_only.picks(claim) == ["g=a", "g=c"]


def test_what_is_published_counts_for_who_derives_nothing(counted_only: Any, ask: Any) -> None:
    """A device without it satisfies no constraint."""
    cards = [nic("n0", 0), {"name": "n1", "attributes": {"d/x": {"int": 1}, "kind": {"string": "nic"}}}]
    counted_only.slice("s", gpu("g0", 0), gpu("g1", 1), *cards)
    claim = counted_only.claim(
        ask("g", 1, KIND.format("gpu"), **of("numa")), ask("n", 1, KIND.format("nic")), constraints=MATCH
    )

    assert counted_only.picks(claim) == ["g=g1", "n=n1"]


@pytest.mark.parametrize("derived", ["1", "[1, 2]"])
def test_what_one_request_derives_nobody_else_sees(scene: Any, ask: Any, derived: str) -> None:
    """A device that has no value for the other request is none for it, though both could take it."""
    scene.nodes("n")
    scene.slice("s", gpu("a", 0), gpu("b", 1))

    for wanted in (ask("p", **derive(derived)), ask("q")), (ask("p"), ask("q", **derive(derived))):
        assert scene.picks(scene.claim(*wanted, constraints=MATCH)) is None


def test_a_value_hides_the_published_one(counted_only: Any, ask: Any) -> None:
    """For the request that derives it."""
    counted_only.slice("s", *({"name": name, "attributes": {"d/x": {"string": name}}} for name in "ab"))

    assert counted_only.picks(counted_only.claim(ask("r", 2), constraints=MATCH)) is None
    assert counted_only.picks(counted_only.claim(ask("r", 2, **derive("1")), constraints=MATCH)) == [
        "r=a",
        "r=b",
    ]


def test_two_ways_to_say_the_same_are_no_difference(counted_only: Any, ask: Any) -> None:
    """Requests that can take the same devices may derive the attribute in other words, or read it."""
    places = (("a", 0), ("b", 1), ("c", 1))
    counted_only.slice(
        "s", *(gpu(name, place) | {"attributes": {"d/x": {"int": place}}} for name, place in places)
    )
    claim = counted_only.claim(
        ask("p", 1, **derive('device.attributes["d"].x')),
        ask("q", 1, **derive('device.attributes["d"].x + 0')),
        ask("r", 1),
        constraints=[{"requests": ["p", "q"], "matchAttribute": "d/x"}, {"distinctAttribute": "d/x"}],
    )
    two = counted_only.claim(
        ask("p", 1, **derive('device.attributes["d"].x')), ask("r", 1), constraints=MATCH
    )

    assert counted_only.picks(claim) is None
    assert counted_only.picks(two) == ["p=b", "r=c"]


def test_an_expression_that_may_take_long_is_left_to_the_plain_search(scene: Any, ask: Any) -> None:
    """It asks no further than it has to."""
    scene.nodes("n")
    scene.slice("s", gpu("a", 1), gpu("b", 2))
    costly = f'lists.range(device.attributes["{DRIVER}"].numa)[0]'

    assert scene.picks(scene.claim(ask("r", 1, **derive(costly)), constraints=MATCH)) == ["r=a"]
    (values,) = scene.allocator.candidates.derived._expressions[costly].values.values()
    assert values.known == 0b01


def test_devices_match_in_any_value_of_a_derived_list(counted_only: Any, ask: Any) -> None:
    """Others may derive a single value, or have it published."""
    published = {"name": "d", "attributes": {"d/x": {"ints": [8, 5]}, "kind": {"string": "nic"}}}
    counted_only.slice("s", gpu("a", 0), gpu("b", 1), gpu("c", 2), published)
    numa = f'device.attributes["{DRIVER}"].numa'
    lists = ask("r", 2, KIND.format("gpu"), **derive(f"[{numa} / 2, 7 + {numa}]"))
    single = ask("s", 1, KIND.format("gpu"), **derive("8"))

    assert counted_only.picks(counted_only.claim(lists, constraints=MATCH)) == ["r=a", "r=b"]
    last = ask("t", 1, KIND.format("nic"))
    listed = ask("r", 1, KIND.format("gpu"), **derive(f"[{numa} / 2, 7 + {numa}]"))
    assert counted_only.picks(counted_only.claim(listed, last, constraints=MATCH)) == ["r=b", "t=d"]
    assert counted_only.picks(counted_only.claim(single, last, constraints=MATCH)) == ["s=a", "t=d"]


def test_more_derived_groups_than_there_is_room_for_are_left_to_the_plain_search(
    scene: Any, ask: Any
) -> None:
    """As where they are published, or derived and published together."""
    published = {"name": "d", "attributes": {"d/x": {"ints": [8, 5]}, "kind": {"string": "nic"}}}
    scene.nodes("n")
    scene.slice("s", gpu("a", 0), gpu("b", 1), published)
    listed = ask("r", 1, KIND.format("gpu"), **derive(f'[device.attributes["{DRIVER}"].numa + 7, 1, 2, 3]'))
    last = ask("t", 1, KIND.format("nic"))
    claim = scene.claim(listed, last, constraints=MATCH)

    with patch.object(groups, "_MOST_PLACES", 0):
        assert scene.picks(claim) == ["r=b", "t=d"]
        with patch.object(ExhaustiveSearch, "run", _unexpected), pytest.raises(AssertionError, match="asked"):
            scene.picks(claim)


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
