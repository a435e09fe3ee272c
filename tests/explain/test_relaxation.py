"""What a claim fits without, told beside its reason."""

from contextlib import suppress
from time import thread_time
from typing import Any

import pytest

from dra_operator.allocator import Limits, Reason, Unsatisfied
from dra_operator.allocator.decision import PreemptedError

DRIVER = "gpu.example.com"


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
        "at most 1 together even if none were in use, 2 requested"
    )


def test_constraints_that_only_conflict_blame_no_claim(grid: Any, ask: Any) -> None:
    """Waiting for it may help nothing: no two devices agree in both."""
    grid.use("holder", ask("g"))
    found = grid.explain(grid.claim(ask("g", 2), constraints=[match("row"), match("column")]))

    assert found.message.endswith(", at most 1 together even if none were in use, 2 requested")


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
    assert first.endswith("9 requested, at most 4 on one node if none were in use")
    assert second == (
        "devices are free, but none together satisfy constraint #0 (matchAttribute gpu.example.com/row), "
        "at most 1 together, 2 requested; others are in use by 2 claims (holder-d0, holder-d2)"
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

    assert found.message == "request g: " + "; ".join(
        f"{name}: devices are free, but none together satisfy constraint #{number} "
        f"(matchAttribute gpu.example.com/{name.removesuffix('s')}), "
        "at most 2 together even if none were in use, 3 requested"
        for number, name in enumerate(("rows", "columns"))
    )


def test_constraints_that_only_conflict_between_requests(grid: Any, ask: Any) -> None:
    """As for one request."""
    found = grid.explain(grid.claim(ask("g"), ask("h"), constraints=[match("row"), match("column")]))

    assert found.message == (
        "the requests fit together on node n1, but not with constraint #0 (matchAttribute gpu.example.com/row) "
        "beside constraint #1 (matchAttribute gpu.example.com/column)"
    )


def test_how_many_would_satisfy_a_constraint(grid: Any, ask: Any) -> None:
    """The number is the one to ask for."""
    found = grid.explain(grid.claim(ask("g", 3), constraints=[match("row")]))

    assert found.message.endswith(", at most 2 together even if none were in use, 3 requested")
    assert grid.picks(grid.claim(ask("g", 2), constraints=[match("row")])) == ["g=d0", "g=d1"]


@pytest.mark.parametrize(
    ("constraint", "count", "most"),
    [("matchAttribute", 3, 2), ("distinctAttribute", 3, 2), ("matchAttribute", 2, None)],
)
def test_whether_it_would_help_if_no_device_were_in_use(
    scene: Any, ask: Any, constraint: str, count: int, *, most: int | None
) -> None:
    """Two devices of one row are there on each node, and two rows; whoever wants three of either waits in vain."""
    scene.nodes("n1", "n2")
    for node in ("n1", "n2"):
        scene.slice(node, *(device(f"d{n}", row=n // 2) for n in range(4)), nodeName=node)
        for name in ("d0",) if count == 3 else ("d0", "d2"):
            scene.hold(f"{node}-{name}", name, node)
    found = scene.explain(scene.claim(ask("g", count), constraints=[{constraint: f"{DRIVER}/row"}]))

    if most is None:
        assert found.message.endswith(
            f" together, {count} requested; others are in use by 4 claims (n1-d0, n1-d2, n2-d0, 1 more)"
        )
    elif f"at most {most} together" in found.message:
        assert found.message.endswith(f" together even if none were in use, {count} requested")
    else:
        assert found.message.endswith(f" together, {count} requested, at most {most} if none were in use")


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
    )
    assert every.message.endswith("3 left, but not all of a node together, as they draw on the same counters")


def test_the_node_that_is_named_has_so_many_together(scene: Any, ask: Any) -> None:
    """On the first node the two that are left draw on the same counter, which has enough for one of them."""
    scene.nodes("n1", "n2")
    total = {"name": "set", "counters": {"cores": {"value": "1"}}}
    draws = {"consumesCounters": [{"counterSet": "set", "counters": {"cores": {"value": "1"}}}]}
    scene.slice("s1", sharedCounters=[total], nodeName="n1", count=2)
    scene.slice("s2", {"name": "a", **draws}, {"name": "b", **draws}, nodeName="n1", count=2)
    scene.slice("s3", "a", "b", nodeName="n2")
    found = scene.explain(scene.claim(ask("r", 3)))

    assert found.message.endswith("4 left, at most 2 on one node (n2), 3 requested")


def test_devices_of_groups_that_exclude_each_other(scene: Any, ask: Any) -> None:
    """There is enough of the counter, so that alone is not blamed."""
    scene.nodes("n1")
    counters = [{"name": "set", "counters": {"memory": {"value": "40Gi"}}}]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters)
    uses = [
        {"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}, "compatibilityGroups": [group]}
        for group in "xy"
    ]
    scene.slice(
        "s",
        *({"name": f"d{n}", "consumesCounters": [use]} for n, use in enumerate(uses)),
        nodeName="n1",
        count=2,
    )
    found = scene.explain(scene.claim(ask("r", 2)))

    assert found.message.endswith(
        "but only 1 of them together as they draw on the same counters or have no group in common, 2 requested"
    )


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
        "not even for x and y; n1 has 2 devices left for x and y, which want 3"
    )


def test_other_requests_that_do_not_fit_are_named_with_their_reason(scene: Any, ask: Any) -> None:
    """Unless it is the same: whoever waits for the first would wait in vain for the second."""
    scene.nodes("n1")
    scene.slice("s", "a")
    scene.use("holder", ask())
    found = scene.explain(scene.claim(ask("x"), ask("y"), ask("z", 1, "device.driver == 'nic'")))

    assert (found.reason, found.request) == (Reason.DEVICE_IN_USE, "x")
    assert found.message == (
        "request x: 1 device published, 1 in class gpu, 1 in use by 1 claim (holder); "
        "request z does not fit either (SelectorMatchesNoDevice)"
    )


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        ("a", "b", "x has a, y has b"),
        (0, "0", 'x has int 0, y has string "0"'),
        (1, 1, ""),
    ],
)
def test_devices_that_never_agree(scene: Any, ask: Any, left: Any, right: Any, told: str) -> None:
    """Their values are told, with types if these differ; where some agree and are in use, what is left is."""
    scene.nodes("n1")
    scene.slice(
        "s", device("a1", k="only", side=left), device("a2", side="c"), device("b", k="b", side=right)
    )
    first, second = (f'device.attributes["{DRIVER}"].?k.orValue("") == "{k}"' for k in ("only", "b"))
    wants = (ask("x", 1, first), ask("y", 1, second))
    if not told:
        wants = (ask("x", 1, f'device.attributes["{DRIVER}"].?k.orValue("") != "b"'), wants[1])
        scene.use("holder", ask("r", 1, first))
    found = scene.explain(scene.claim(*wants, constraints=[match("side")]))

    name = "the requests fit together on node n1, but not with constraint #0 (matchAttribute gpu.example.com/side)"
    assert found.reason is Reason.CONSTRAINT_UNSATISFIABLE
    assert found.message == (
        f"{name}; their devices have no value in common: {told}"
        if told
        else f'{name}; n1 has enough left for x with string "c", for y with int 1; '
        "others are in use by 1 claim (holder)"
    )


def test_values_of_different_types_are_told(scene: Any, ask: Any) -> None:
    """They look the same to whoever looks at the devices."""
    scene.nodes("n1")
    scene.slice("s", device("a", side=1), device("b", side="1"))
    found = scene.explain(scene.claim(ask("x", 2), constraints=[match("side")]))

    assert found.message.endswith(
        "at most 1 together even if none were in use, 2 requested; "
        'its values are of different types, as int 1 and string "1"'
    )


def test_an_explanation_that_takes_too_long_is_no_search_given_up(ticking: Any, ask: Any) -> None:
    """The search has said no; only why is open."""
    scene = ticking(Limits(seconds=0))
    scene.nodes("n1")
    scene.slice("s", *(device(f"d{number}", row=number) for number in range(100)))
    claim = scene.claim(ask("g", 1, f'device.attributes["{DRIVER}"].row < 0'))
    (found,) = scene.explainer.explain((claim,), Unsatisfied())

    assert found.reason is Reason.SEARCH_ABORTED
    assert found.message == (
        "it fits on no node; the cause was not found, as the search was given up after 0 s"
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
    assert found.message == "the requests fit together on node n1, but not with its 2 constraints"


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
        "but no node has room for all of them; n1 has 1 device left for p and q, which want 2"
    )


def test_a_selector_that_fails_on_the_only_device_left_is_told(scene: Any, ask: Any) -> None:
    """The claim never comes to it either, but the others fit together, and nothing else is there for the request."""
    scene.nodes("n1", "n2")
    scene.slice("n1", device("a", k="a"), nodeName="n1")
    scene.slice("n2", device("c", k="c"), nodeName="n2")
    kind = f'device.attributes["{DRIVER}"].k == "{{}}"'
    fails = f'{kind.format("c")} && device.attributes["{DRIVER}"].z == 1'
    found = scene.explain(scene.claim(ask("p", 1, kind.format("a")), ask("r", 1, fails)))

    assert (found.reason, found.request) == (Reason.SELECTOR_FAILED, "r")


def test_a_selector_that_fails_without_any_constraint_is_not_blamed(scene: Any, ask: Any) -> None:
    """Whether a constraint is in the way is not known then, and only that the claim is bound by it is told."""
    scene.nodes("n1", "n2")
    scene.slice("n1", device("c", k="c", z=1), nodeName="n1")
    scene.slice("n2", device("a", k="a", x=1), device("b", k="b", x=2), device("c", k="c"), nodeName="n2")
    kinds = {name: f'device.attributes["{DRIVER}"].k == "{name}"' for name in "abc"}
    fails = f'{kinds["c"]} && device.attributes["{DRIVER}"].z == 1'
    constraint = {"matchAttribute": f"{DRIVER}/x", "requests": ["a", "b"]}
    requests = (ask("a", 1, kinds["a"]), ask("b", 1, kinds["b"]), ask("c", 1, fails))
    found = scene.explain(scene.claim(*requests, constraints=[constraint]))

    assert found.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER
    assert found.message == (
        "each request fits alone (a on n2, b on n2, c on n1), but no node has room for all of them with "
        "constraint #0 (matchAttribute gpu.example.com/x)"
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


def test_a_request_for_all_devices_that_would_break_its_constraint_once_they_are_free(
    scene: Any, ask: Any
) -> None:
    """Waiting ends in an error, which names the request of whoever waits."""
    scene.nodes("n1")
    scene.slice("s", device("a", row=1), device("b", row=2))
    scene.hold("holder", "a", "pool")
    told = [
        scene.explain(scene.claim(ask(name, allocationMode="All"), constraints=[match("row")]))
        for name in ("one", "other")
    ]

    for name, found in zip(("one", "other"), told, strict=True):
        assert found.reason is Reason.DEVICE_IN_USE
        assert found.message.startswith(f"request {name}: ")
        assert "; if none were in use, it asks for all devices, but constraint #0 " in found.message
