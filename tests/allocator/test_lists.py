"""Constraints on attributes that are lists: the searches that count, and the exhaustive one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.search import chain
from dra_operator.allocator.search.chain import SearchMode

DRIVER = "gpu.example.com"
KIND = f'device.attributes["{DRIVER}"].kind == "{{}}"'


@contextmanager
def _with_the_hardest_first() -> Iterator[None]:
    with (
        patch.object(chain, "lowest_devices", lambda *_: None),
        patch.object(chain, "first_fit", lambda *_: None),
    ):
        yield


WAYS = {
    "as it is": nullcontext,
    "with the hardest first": _with_the_hardest_first,
}


def listed(name: str, *values: str, kind: str = "gpu") -> dict[str, Any]:
    """Return a device with some links; one alone is no list."""
    links = {"strings": list(values)} if len(values) > 1 else {"string": values[0]}
    return {"name": name, "attributes": {"links": links, "kind": {"string": kind}}}


# --- the exhaustive search, and the others at each of their ways

_LETTERS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3)
VALUES = st.one_of(
    _LETTERS.map(lambda items: {"strings": items}),
    _LETTERS.map(lambda items: {"strings": items}),
    st.sampled_from("abcd").map(lambda item: {"string": item}),
    st.sampled_from(
        [None, {"ints": [1, 2]}, {"ints": [2]}, {"int": 2}, {"versions": ["1.0.0"]}, {"strings": []}]
    ),
)
DEVICE = st.fixed_dictionaries(
    {
        "links": VALUES,
        "rails": VALUES,
        "kind": st.sampled_from(["x", "x", "y"]),
        "shareable": st.sampled_from([False, False, False, True]),
        "used": st.sampled_from([False, False, False, True]),
        "cores": st.sampled_from([0, 0, 0, 1, 2]),
    }
)
ASKED = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 1, 2, 2, 3]),
        "kind": st.sampled_from([None, None, "x", "y"]),
        "other": st.sampled_from([None, None, None, 1, 2]),
        "admin": st.sampled_from([False, False, False, False, True]),
    }
)
CONSTRAINT = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(["matchAttribute", "matchAttribute", "distinctAttribute"]),
        "attribute": st.sampled_from(["links", "links", "rails"]),
        "requests": st.sampled_from([[], [], ["r0"], ["r1", "r0"], ["r0/s1"]]),
    }
)
WIDE = st.fixed_dictionaries(
    {
        "devices": st.lists(DEVICE, min_size=1, max_size=8),
        "requests": st.lists(ASKED, min_size=1, max_size=3),
        "constraints": st.lists(CONSTRAINT, min_size=1, max_size=3),
    }
)
# Devices of three kinds that have one of two values in common with most others.
_PAIR = st.sampled_from([*map("".join, combinations("abcd", 2)), *"abc"]).map(
    lambda pair: {"strings": [*pair]}
)
_OF_KIND = {"count": st.sampled_from([1, 1, 2]), "other": st.none(), "admin": st.just(value=False)}
DENSE = st.fixed_dictionaries(
    {
        "devices": st.lists(
            st.fixed_dictionaries(
                {
                    "links": _PAIR,
                    "rails": _PAIR,
                    "kind": st.sampled_from("xyz"),
                    "shareable": st.just(value=False),
                    "used": st.just(value=False),
                    "cores": st.just(0),
                }
            ),
            min_size=6,
            max_size=10,
        ),
        "requests": st.tuples(
            *(st.fixed_dictionaries({**_OF_KIND, "kind": st.just(kind)}) for kind in "xyz")
        ),
        "constraints": st.sampled_from(
            [
                [("matchAttribute", "links", [])],
                [("matchAttribute", "links", []), ("matchAttribute", "rails", [])],
                [("matchAttribute", "links", []), ("distinctAttribute", "rails", [])],
                [("matchAttribute", "links", ["r0", "r2"]), ("matchAttribute", "rails", ["r1", "r2"])],
            ]
        ).map(
            lambda rules: [dict(zip(("rule", "attribute", "requests"), rule, strict=True)) for rule in rules]
        ),
    }
)
CASES = st.one_of(WIDE, DENSE)


def _device(name: str, drawn: dict[str, Any]) -> dict[str, Any]:
    attributes = {item: drawn[item] for item in ("links", "rails") if drawn[item] is not None}
    use = {"counterSet": "set", "counters": {"cores": {"value": str(drawn["cores"])}}}
    return {
        "name": name,
        "attributes": {"kind": {"string": drawn["kind"]}, **attributes},
        "allowMultipleAllocations": drawn["shareable"],
        "consumesCounters": [use] if drawn["cores"] and not drawn["shareable"] else [],
    }


def _request(ask: Any, number: int, asked: dict[str, Any]) -> dict[str, Any]:
    selectors = [KIND.format(asked["kind"])] if asked["kind"] else []
    made: dict[str, Any] = ask(f"r{number}", asked["count"], *selectors)
    if asked["other"]:
        other = made.pop("exactly")
        made["firstAvailable"] = [
            {"name": "s0", **other},
            {"name": "s1", **other, "count": asked["other"]},
        ]
    elif asked["admin"]:
        made["exactly"]["adminAccess"] = True
    return made


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "lists switched off"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_counting_decides_as_the_plain_search(
    scene_with: Any, ask: Any, way: Callable[[], Any], case: dict[str, Any], *, lists: bool
) -> None:
    """Whatever lists devices have, and whichever requests constraints bind."""
    scene = scene_with(list_type_attributes=lists)
    scene.nodes("n")
    scene.put("Namespace", "team", labels={"resource.kubernetes.io/admin-access": "true"})
    devices = [_device(f"d{number}", drawn) for number, drawn in enumerate(case["devices"])]
    scene.slice("s", *devices, count=2)
    scene.slice("t", sharedCounters=[{"name": "set", "counters": {"cores": {"value": "3"}}}], count=2)
    for number, drawn in enumerate(case["devices"]):
        if drawn["used"] and not drawn["shareable"]:
            scene.hold(f"holder-{number}", f"d{number}", "pool")
    requests = [_request(ask, number, asked) for number, asked in enumerate(case["requests"])]
    constraints = [
        {item["rule"]: f"{DRIVER}/{item['attribute']}", "requests": item["requests"]}
        for item in case["constraints"]
    ]
    claim = scene.claim(*requests, constraints=constraints)
    plain = Allocator(
        scene.inventory,
        scene.ledger,
        features=scene.allocator.features,
        clock=lambda: 0.0,
        share_ids=lambda: "id",
        searching=SearchMode.PLAIN,
    )
    scene.allocator.share_ids = lambda: "id"

    with way():
        decision = scene.decide(claim)

    assert decision == plain.allocate((claim,))
