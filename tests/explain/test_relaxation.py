"""What a claim fits without, told beside its reason."""

from contextlib import suppress
from time import thread_time
from typing import Any

import pytest

from dra_operator.allocator.decision import PreemptedError, Unsatisfied
from dra_operator.allocator.reasons import Reason

DRIVER = "gpu.example.com"
NEVER = "; it would not fit even if no device were in use or tainted"


def device(name: str, **attributes: Any) -> dict[str, Any]:
    """Return a device with attributes: ints, or else strings."""
    kinds = {key: "int" if isinstance(value, int) else "string" for key, value in attributes.items()}
    return {"name": name, "attributes": {key: {kinds[key]: value} for key, value in attributes.items()}}


@pytest.fixture
def grid(scene: Any) -> Any:
    """A node whose four devices agree in pairs: by row, by column, and all of them by kind."""
    scene.nodes("n1")
    scene.slice("s", *(device(f"d{n}", row=n // 2, column=n % 2, kind="x") for n in range(4)))
    return scene


def match(name: str) -> dict[str, Any]:
    """Return a constraint."""
    return {"matchAttribute": f"{DRIVER}/{name}"}


def test_constraints_that_only_conflict_are_both_named(grid: Any, ask: Any) -> None:
    """Two devices of one row are there, and two of one column; a constraint that is not in the way is not named."""
    constraints = [match("kind"), match("row"), match("column")]
    found = grid.explain(grid.claim(ask("g", 2), constraints=constraints))

    assert found.message == (
        "request g: devices are free, but none together satisfy constraint #1 (matchAttribute gpu.example.com/row) "
        "beside constraint #2 (matchAttribute gpu.example.com/column), "
        "at most 1 together, 2 requested; it would not fit even if no device were in use or tainted"
    )


def test_alternatives_that_a_constraint_refuses_are_told_one_by_one(grid: Any, ask: Any) -> None:
    """Each with what it could have; one that does not fit in any case does not decide about the reason."""
    for name in ("d0", "d2"):
        grid.hold(f"holder-{name}", name, "pool")
    alternatives = [{"name": name, **ask("", count)["exactly"]} for name, count in (("many", 9), ("two", 2))]
    found = grid.explain(
        grid.claim({"name": "g", "firstAvailable": alternatives}, constraints=[match("row")])
    )

    assert found.reason is Reason.CONSTRAINT_UNSATISFIABLE
    first, _, second = found.message.partition("; two: ")
    assert first.startswith("request g: many: ")
    assert first.endswith("2 left, at most 2 on one node (n1), 9 requested")
    assert second == (
        "devices are free, but none together satisfy constraint #0 (matchAttribute gpu.example.com/row), "
        "at most 1 together, 2 requested"
    )


def test_alternatives_may_be_bound_by_different_constraints(grid: Any, ask: Any) -> None:
    """Each is told its own."""
    alternatives = [{"name": name, **ask("", 3)["exactly"]} for name in ("rows", "columns")]
    found = grid.explain(
        grid.claim(
            {"name": "g", "firstAvailable": alternatives},
            constraints=[
                {**match("row"), "requests": ["g/rows"]},
                {**match("column"), "requests": ["g/columns"]},
            ],
        )
    )

    assert (
        found.message
        == "request g: "
        + "; ".join(
            f"{name}: devices are free, but none together satisfy constraint #{number} "
            f"(matchAttribute gpu.example.com/{name.removesuffix('s')}), "
            "at most 2 together, 3 requested"
            for number, name in enumerate(("rows", "columns"))
        )
        + NEVER
    )


def test_devices_that_draw_on_the_same_counters(scene: Any, ask: Any) -> None:
    """They are left one by one, but not together."""
    scene.nodes("n1")
    counters = [{"name": "set", "counters": {"memory": {"value": "40Gi"}}}]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters)
    use = [{"counterSet": "set", "counters": {"memory": {"value": "20Gi"}}}]
    halves = [{"name": name, "consumesCounters": use} for name in "abc"]
    scene.slice("s", *halves, nodeName="n1", count=2)
    three = scene.explain(scene.claim(ask("r", 3)))
    every = scene.explain(scene.claim(ask("r", allocationMode="All")))

    assert three.reason is every.reason is Reason.NOT_ENOUGH_DEVICES
    assert three.message.endswith(
        "3 left, at most 3 on one node, but only 2 of them together as they draw on the same counters, 3 requested"
        + NEVER
    )
    assert every.message.endswith("3 left, all requested, but not all of them together on one node" + NEVER)


def test_of_many_requests_those_that_are_stuck_are_named(scene: Any, ask: Any) -> None:
    """The others have nothing to do with it."""
    scene.nodes("n1", "n2")
    scene.slice("a", "a1", "a2", nodeName="n1")
    scene.slice("b", device("b1", kind="b"), nodeName="n2")
    kind = f'has(device.attributes["{DRIVER}"].kind)'
    found = scene.explain(scene.claim(ask("x"), ask("y", 2), ask("z", 1, kind)))

    assert found.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER
    assert found.message == (
        "each request fits alone (x on n1, y on n1, z on n2), but no node has room for all of them, "
        "not even for x and y; they would fit with 1 instead of 2 for y" + NEVER
    )


def test_a_selector_that_would_fail_without_a_constraint_is_not_blamed(scene: Any, ask: Any) -> None:
    """The claim never comes to that device, as the constraint stops it before."""
    scene.nodes("n1", "n2")
    scene.slice(
        "n1",
        device("a", k="a", x=1, y=1),
        device("b", k="b", x=2, y=2),
        device("c", k="c", z=1),
        nodeName="n1",
    )
    scene.slice(
        "n2", device("a", k="a", x=1, y=1), device("b", k="b", x=1, y=2), device("c", k="c"), nodeName="n2"
    )
    kinds = {name: f'device.attributes["{DRIVER}"].k == "{name}"' for name in "abc"}
    fails = f'{kinds["c"]} && device.attributes["{DRIVER}"].z == 1'
    constraints = [{"matchAttribute": f"{DRIVER}/{name}", "requests": ["a", "b"]} for name in "xy"]
    requests = (ask("a", 1, kinds["a"]), ask("b", 1, kinds["b"]), ask("c", 1, fails))
    found = scene.explain(scene.claim(*requests, constraints=constraints))

    assert found.reason is Reason.CONSTRAINT_UNSATISFIABLE
    assert found.message == "the requests fit together on node n1, but not with its 2 constraints" + NEVER


def test_a_selector_that_fails_where_others_do_not_fit_is_not_blamed(scene: Any, ask: Any) -> None:
    """The claim never comes to that device, as nothing is left for the request before."""
    scene.nodes("n1")
    scene.slice("n1", device("a", k="a"), device("c", k="c"), nodeName="n1")
    kind = f'device.attributes["{DRIVER}"].k == "{{}}"'
    fails = f'{kind.format("c")} && device.attributes["{DRIVER}"].z == 1'
    requests = (ask("p", 1, kind.format("a")), ask("q", 1, kind.format("a")), ask("r", 1, fails))
    found = scene.explain(scene.claim(*requests))

    assert found.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER
    assert found.message == (
        "leaving aside r (SelectorFailed), each request fits alone (p on n1, q on n1), "
        "but no node has room for all of them"
    )


def test_an_explanation_that_is_cut_off_again_and_again_comes_to_its_end(scene: Any, ask: Any) -> None:
    """Each attempt goes on from what the one before has evaluated; the text is that of a single attempt."""
    scene.nodes("n1")
    scene.slice("s", *(device(f"d{number}", row=number) for number in range(12)))
    slow = f'lists.range(9).all(a, lists.range(99).all(b, device.attributes["{DRIVER}"].row + a + b >= 0))'
    claim = scene.claim(ask("g", 1, f'{slow} && device.attributes["{DRIVER}"].row < 0'))
    cut_off, found = 0, ()
    for _ in range(100):
        until = thread_time() + 0.05
        with suppress(PreemptedError):
            found = scene.explainer.explain(
                (claim,), Unsatisfied(), is_preempted=lambda until=until: thread_time() > until
            )
            break
        cut_off += 1

    assert cut_off > 1
    assert found == (scene.explain(claim),)
    assert found[0].reason is Reason.SELECTOR_MATCHES_NO_DEVICE
