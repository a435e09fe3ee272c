"""What requests that each fit alone take from each other."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator import Allocated, Reason

KIND = 'device.attributes["gpu.example.com"].kind == "{}"'
DRIVER = "gpu.example.com"
OF_KIND = f'device.attributes["{DRIVER}"].kind == "{{}}"'
SHARED = {"allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}


def kind(name: str, value: str, **more: Any) -> dict[str, Any]:
    """Return a device of some kind."""
    return {"name": name, "attributes": {"kind": {"string": value}}, **more}


def cause(scene: Any, *requests: dict[str, Any]) -> str:
    """Return the last clause of the line."""
    found = scene.explain(scene.claim(*requests))
    assert found.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER, found
    head, _, tail = found.message.partition("no node has room for all of them")
    assert head.startswith("each request fits alone (")
    return str(tail)


def test_requests_for_the_same_devices(scene: Any, ask: Any) -> None:
    """The line says how many devices there are for all of the requests, which is fewer than they want."""
    scene.nodes("n1")
    scene.slice("s", kind("a", "x"), kind("b", "x"), kind("c", "y"))

    told = cause(scene, ask("p", 2), ask("q", 2, KIND.format("x")))
    assert told == "; n1 has 3 devices left for p and q, which want 4"


def test_requests_for_devices_of_different_nodes(scene: Any, ask: Any) -> None:
    """They have no node in common, and the line says that this does not depend on who uses devices."""
    scene.nodes("n1", "n2")
    scene.slice("s", kind("a", "x"), nodeName="n1")
    scene.slice("t", kind("a", "y"), nodeName="n2")

    told = cause(scene, ask("p", 1, KIND.format("x")), ask("q", 1, KIND.format("y")))
    assert told == "; p and q have no node in common even if no device were in use"


def test_requests_that_wait_for_others_on_each_node(scene: Any, ask: Any) -> None:
    """They have nodes in common, on which others use what the one or the other needs: that ends some day."""
    scene.nodes("n1", "n2")
    for node in ("n1", "n2"):
        scene.slice(node, kind("a", "x"), kind("b", "y"), nodeName=node)
    scene.hold("holder-x", "a", "n1")
    scene.hold("holder-y", "b", "n2")

    told = cause(scene, ask("p", 1, KIND.format("x")), ask("q", 1, KIND.format("y")))
    assert told == "; no node has enough left for each of p and q"


kinds_and_uses = st.lists(st.tuples(st.sampled_from("xy"), st.booleans()), max_size=4)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(kinds_and_uses, min_size=2, max_size=3), st.integers(1, 2), st.integers(1, 2))
def test_what_is_said_of_nodes_in_common_holds(
    scene_with: Callable[[], Any], ask: Any, published: list[list[tuple[str, bool]]], p: int, q: int
) -> None:
    """That waiting is in vain is said where no node has as many devices, and that it is not where one has."""
    scene = scene_with()
    for number, devices in enumerate(published):
        node = f"n{number}"
        scene.nodes(node)
        scene.slice(node, *(kind(f"d{at}", each) for at, (each, _) in enumerate(devices)), nodeName=node)
        for at, (_, used) in enumerate(devices):
            if used:
                scene.hold(f"{node}-{at}", f"d{at}", node)
    claim = scene.claim(ask("p", p, KIND.format("x")), ask("q", q, KIND.format("y")))
    if isinstance(scene.decide(claim), Allocated):
        return
    found = scene.explain(claim)
    if found.reason is not Reason.REQUESTS_DO_NOT_FIT_TOGETHER:
        return
    all_of = [[each for each, _ in devices] for devices in published]
    in_vain = not any(each.count("x") >= p and each.count("y") >= q for each in all_of)
    end = (
        "p and q have no node in common even if no device were in use"
        if in_vain
        else "no node has enough left for each of p and q"
    )
    assert found.message.endswith(f"; {end}")


def test_the_first_node_is_told_on_which_each_fits_alone(scene: Any, ask: Any) -> None:
    """Not one that has only some of what they want."""
    scene.nodes("n1", "n2", "n3")
    scene.slice("s", kind("a", "x"), nodeName="n1")
    for node in ("n2", "n3"):
        scene.slice(node, kind("a", "x"), kind("b", "y"), nodeName=node)

    told = cause(scene, ask("p", 1, KIND.format("y")), ask("q", 2))
    assert told == "; n2 has 2 devices left for p and q, which want 3"


def test_the_node_is_told_on_which_all_fit_alone_though_few_are_stuck(scene: Any, ask: Any) -> None:
    """One that has nothing for the others would be no help if it had more for these."""
    scene.nodes("n1", "n2")
    scene.slice("n1", kind("a", "x"), nodeName="n1")
    scene.slice("n2", kind("a", "x"), kind("b", "x"), kind("c", "y"), nodeName="n2")

    told = cause(
        scene, ask("p", 1, KIND.format("y")), *(ask(name, 1, KIND.format("x")) for name in ("q", "r", "s"))
    )
    assert told == ", not even for q, r and s; n2 has 2 devices left for q, r and s, which want 3"


def partitions(scene: Any, memory: str, *draws: str) -> None:
    """Publish a device for each draw on a counter."""
    scene.nodes("n1")
    scene.slice("c", count=2, sharedCounters=[{"name": "set", "counters": {"memory": {"value": memory}}}])
    devices = []
    for number, draw in enumerate(draws):
        uses = [{"counterSet": "set", "counters": {"memory": {"value": draw}}}]
        devices.append(kind(f"d{number}", draw, consumesCounters=uses))
    scene.slice("s", *devices, count=2)


def test_requests_that_draw_on_the_same_counter(scene: Any, ask: Any) -> None:
    """The line says what is left of the counter."""
    partitions(scene, "40Gi", "30Gi", "30Gi", "20Gi")

    told = cause(scene, ask("p", 1, KIND.format("30Gi")), ask("q", 1, KIND.format("20Gi")))
    assert told == "; n1 has 40Gi of counter set/memory left for p and q, which want 50Gi"


def test_requests_whose_smallest_draws_are_too_much(scene: Any, ask: Any) -> None:
    """A request that may have a larger one is counted with the smaller one."""
    partitions(scene, "40Gi", "30Gi", "30Gi", "20Gi")

    told = cause(scene, ask("p", 1, KIND.format("30Gi")), ask("q", 1))
    assert told == "; n1 has 40Gi of counter set/memory left for p and q, which want at least 50Gi"


def test_requests_for_shares_of_the_same_devices(scene: Any, ask: Any) -> None:
    """The line says what is left of the capacity of the devices that each could have."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", **SHARED})
    scene.use("other", ask("r", 1, capacity={"requests": {"bandwidth": "2G"}}))
    wants = {"capacity": {"requests": {"bandwidth": "5G"}}}

    told = cause(scene, ask("p", 1, **wants), ask("q", 1, **wants))
    assert told == "; n1 has 8G of capacity bandwidth left for p and q, which want 10G"


def test_alternatives_count_by_the_smaller_one(scene: Any, ask: Any) -> None:
    """Whichever is taken, there are too few."""
    scene.nodes("n1")
    scene.slice("s", "a", "b", "c")
    alternatives = [{"name": name, **ask("", count)["exactly"]} for name, count in (("many", 3), ("few", 2))]

    told = cause(scene, {"name": "p", "firstAvailable": alternatives}, ask("q", 2))
    assert told == "; n1 has 3 devices left for p and q, which want at least 4"


def test_a_request_for_all_devices_beside_another(scene: Any, ask: Any) -> None:
    """It leaves none."""
    scene.nodes("n1")
    scene.slice("s", "a", "b", "c")

    told = cause(scene, ask("p", allocationMode="All"), ask("q"))
    assert told == "; n1 has 3 devices left for p and q, which want 4"


def test_requests_with_admin_access_are_not_told_what_is_left(scene: Any, ask: Any) -> None:
    """Devices in use are there for them as well."""
    scene.nodes("n1")
    scene.slice("s", "a")
    scene.put("Namespace", "team", labels={"resource.kubernetes.io/admin-access": "true"})
    scene.use("other", ask())

    told = cause(scene, ask("p", adminAccess=True), ask("q", adminAccess=True))
    assert told == "; n1 has 1 device for p and q, which want 2"


def test_shares_of_a_device_that_draws_on_counters_need_its_capacity(scene: Any, ask: Any) -> None:
    """The first share pays the counters, so they are not what keeps the second one away."""
    uses = [{"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}]
    scene.nodes("n1")
    scene.slice("c", count=2, sharedCounters=[{"name": "set", "counters": {"memory": {"value": "1Gi"}}}])
    scene.slice("s", {"name": "a", **SHARED, "consumesCounters": uses}, count=2)

    told = cause(scene, ask("p"), ask("q"))
    assert told == "; n1 has 10G of capacity bandwidth left for p and q, which want 20G"


def test_requests_that_fit_together_without_constraints_are_not_said_to_want_the_same(
    scene: Any, ask: Any
) -> None:
    """On n1 only constraints keep them apart; without them the attempt ends on n0, with an error it never comes to."""

    def device(name: str, value: str, **others: int) -> Any:
        attributes = {key: {"int": number} for key, number in others.items()}
        return {"name": name, "attributes": {"kind": {"string": value}, **attributes}}

    scene.nodes("n0", "n1")
    scene.slice("s", device("a", "x", side=1), "b", nodeName="n0")
    scene.slice("t", device("c", "x", own=1, side=1), device("d", "x", side=2), nodeName="n1")
    rules = (("own", ["p"]), ("side", ["p", "q"]))
    constraints = [{"matchAttribute": f"gpu.example.com/{name}", "requests": of} for name, of in rules]

    found = scene.explain(scene.claim(ask("p"), ask("q", 1, KIND.format("x")), constraints=constraints))
    assert found.message.endswith("no node has room for all of them with its 2 constraints")


# --- what several requests could take


@pytest.fixture
def listing(ask: Any) -> Any:
    """Make a request with alternatives, each so many of a kind."""

    def make(name: str, *alternatives: tuple[int, str]) -> dict[str, Any]:
        items = [
            {"name": f"{count}-{which}", **ask("", count, KIND.format(which))["exactly"]}
            for count, which in alternatives
        ]
        return {"name": name, "firstAvailable": items}

    return make


def use(memory: str, *groups: str) -> dict[str, Any]:
    """Return what a device draws on the only counter set."""
    drawn = {"counterSet": "set", "counters": {"memory": {"value": memory}}}
    return {"consumesCounters": [{**drawn, "compatibilityGroups": list(groups)} if groups else drawn]}


def counted_pool(scene: Any, memory: str, *devices: dict[str, Any], count: int = 2) -> None:
    """Put the only node, and a pool for it of devices that draw on the same memory."""
    scene.nodes("n1")
    shared = [{"name": "set", "counters": {"memory": {"value": memory}}}]
    scene.slice("c", count=count, sharedCounters=shared)
    scene.slice("s", *devices, count=count)


def taken_together(scene: Any, *requests: dict[str, Any]) -> str:
    """Return what is said to be taken on a node."""
    return cause(scene, *requests).removeprefix("; ")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (16, "n1 has 30Gi of counter set/memory left for p and q, which want at least 32Gi"),
        (17, "on n1, p and q want at least 33 devices, and a claim can have 32"),
    ],
)
def test_more_devices_than_a_claim_can_have(
    scene: Any, ask: Any, listing: Any, number: int, told: str
) -> None:
    """Whatever else both could take, the limit of devices is told where no alternative stays within it."""
    devices = (kind(f"{which}{n}", which, **use("1Gi")) for which in "xy" for n in range(17))
    counted_pool(scene, "99Gi" if number > 16 else "30Gi", *devices)

    found = taken_together(
        scene, ask("p", 16, KIND.format("x")), listing("q", (number, "y"), (17, "y"), (1, "z"))
    )
    assert found == told


# --- values that are left


def rooted(name: str, kind: str, root: Any) -> dict[str, Any]:
    """Return a device of a kind, at a root."""
    value = {"bool": root} if isinstance(root, bool) else {"string": root}
    return {"name": name, "attributes": {"kind": {"string": kind}, "root": value}}


def said(scene: Any, constraint: str, *requests: dict[str, Any]) -> str:
    """Return what is said behind the constraint."""
    found = scene.explain(scene.claim(*requests, constraints=[{constraint: f"{DRIVER}/root"}]))
    assert found.reason is Reason.CONSTRAINT_UNSATISFIABLE, found
    head, _, tail = found.message.partition(f"constraint #0 ({constraint} {DRIVER}/root)")
    assert head.startswith("the requests fit together on node ")
    return str(tail)


@pytest.fixture
def roots(scene: Any) -> Any:
    """Three GPUs and two cards at each of two roots of a node."""
    scene.nodes("n1")
    devices = [
        rooted(f"{root}-{kind}{n}", kind, root)
        for root in "ab"
        for kind, n in (("gpu", 0), ("gpu", 1), ("nic", 0))
    ]
    scene.slice("s", *devices)
    return scene


def want(ask: Any, kind: str, count: int = 1) -> dict[str, Any]:
    """Return a request for devices of a kind, named after it."""
    made: dict[str, Any] = ask(kind, count, OF_KIND.format(kind))
    return made


def test_what_is_left_is_at_different_roots(roots: Any, ask: Any) -> None:
    """For each request, where there is enough for it."""
    for name in ("a-nic0", "b-gpu0"):
        roots.hold(name, name, "pool")

    assert said(roots, "matchAttribute", want(ask, "gpu", 2), want(ask, "nic")) == (
        "; n1 has enough left for gpu with a, for nic with b; others are in use by 2 claims (a-nic0, b-gpu0)"
    )


def test_no_root_has_enough_for_all(roots: Any, ask: Any) -> None:
    """Though for each."""
    assert said(roots, "matchAttribute", want(ask, "gpu", 2), ask("any", 2)) == (
        "; n1 has at most 3 with the same value left for gpu and any, which want 4"
    )


def test_too_few_values_for_all_to_differ(roots: Any, ask: Any) -> None:
    """However many devices there are."""
    assert said(roots, "distinctAttribute", want(ask, "gpu", 2), want(ask, "nic")) == (
        "; n1 has 2 values left for gpu and nic, which want 3"
    )


def test_one_value_is_one(scene: Any, ask: Any) -> None:
    """Devices that no request is for have others, which do not count."""
    scene.nodes("n1")
    scene.slice("s", rooted("a", "gpu", "x"), rooted("b", "nic", "x"), rooted("c", "cpu", "y"))

    assert said(scene, "distinctAttribute", want(ask, "gpu"), want(ask, "nic")) == (
        "; n1 has 1 value left for gpu and nic, which want 2"
    )


def test_values_that_would_be_enough_are_not_blamed(scene: Any, ask: Any) -> None:
    """Two requests want the same one of three."""
    scene.nodes("n1")
    cpus = [rooted(f"cpu-{root}", "cpu", root) for root in "abc"]
    scene.slice("s", rooted("gpu", "gpu", "a"), rooted("nic", "nic", "a"), *cpus)

    assert not said(scene, "distinctAttribute", want(ask, "gpu"), want(ask, "nic"), want(ask, "cpu"))


def test_a_number_that_would_be_enough_is_not_blamed(roots: Any, ask: Any) -> None:
    """Of four devices with one value two are of the kind that three are wanted of."""
    roots.slice("more", *(rooted(f"{root}-nic1", "nic", root) for root in "ab"), pool="more")
    more = {**want(ask, "gpu"), "name": "more"}

    assert not said(roots, "matchAttribute", want(ask, "gpu", 2), more, want(ask, "nic"))


def test_alternatives_want_at_least_what_the_smallest_wants(roots: Any, ask: Any) -> None:
    """And one of them that has room at a root is enough to name it."""
    options = [{"name": f"s{number}", **want(ask, "gpu", number)["exactly"]} for number in (3, 2)]
    either = {"name": "either", "firstAvailable": options}

    assert said(roots, "matchAttribute", either, ask("any", 2)) == (
        "; n1 has at most 3 with the same value left for either and any, which want at least 4"
    )
    for name in ("a-nic0", "b-gpu0"):
        roots.hold(name, name, "pool")
    assert said(roots, "matchAttribute", either, want(ask, "nic")).startswith(
        "; n1 has enough left for either with a, for nic with b;"
    )


def test_devices_that_are_shared_are_not_counted(scene: Any, ask: Any) -> None:
    """Three could serve four, if they had more room."""
    scene.nodes("n1")
    capacity = {"memory": {"value": "10"}}
    scene.slice(
        "s",
        *(
            {**rooted(f"{root}{number}", "gpu", root), "allowMultipleAllocations": True, "capacity": capacity}
            for root in "ab"
            for number in range(3)
        ),
    )
    requests = [ask(name, 2, capacity={"requests": {"memory": "6"}}) for name in ("one", "two")]

    assert not said(scene, "matchAttribute", *requests)


def test_values_that_are_true_or_false(scene: Any, ask: Any) -> None:
    """They are written as in the slice."""
    scene.nodes("n1")
    scene.slice(
        "s", rooted("a", "gpu", root=True), rooted("b", "nic", root=False), rooted("c", "nic", root=True)
    )
    scene.hold("holder", "c", "pool")

    assert said(scene, "matchAttribute", want(ask, "gpu"), want(ask, "nic")) == (
        "; n1 has enough left for gpu with true, for nic with false; others are in use by 1 claim (holder)"
    )


def test_each_value_of_a_list_is_told(scene: Any, ask: Any) -> None:
    """Two processors list their roots, and neither has the one that has a card."""
    scene.nodes("n1")
    cpus = [rooted(f"cpu{number}", "cpu", "") for number in range(2)]
    for number, cpu in enumerate(cpus):
        cpu["attributes"]["root"] = {"strings": [f"r{2 * number}", f"r{2 * number + 1}"]}
    scene.slice("s", *cpus, rooted("nic", "nic", "r2"))
    scene.hold("holder", "cpu1", "pool")

    assert said(scene, "matchAttribute", want(ask, "cpu"), want(ask, "nic")) == (
        "; n1 has enough left for cpu with r0 and r1, for nic with r2; others are in use by 1 claim (holder)"
    )


def test_no_node_has_enough_for_each(scene: Any, ask: Any) -> None:
    """Each fits alone with the constraint, but nowhere do all."""
    scene.nodes("n1", "n2")
    scene.slice(
        "n1", rooted("a", "gpu", "x"), rooted("b", "gpu", "x"), rooted("c", "nic", "y"), nodeName="n1"
    )
    scene.slice("n2", *(rooted(name, "nic", "x") for name in "abc"), nodeName="n2")

    requests = (want(ask, "gpu", 2), ask("any", 3))
    scene.slice("n3", *(rooted(f"d{n}", "gpu", f"{n}") for n in range(5)), nodeName="n3")
    scene.nodes("n3")
    assert (
        said(scene, "matchAttribute", *requests)
        == "; with it, no node has enough left for each of gpu and any"
    )


def test_a_request_with_an_alternative_that_is_not_bound_is_no_obstacle(roots: Any, ask: Any) -> None:
    """So of the others alone nothing is said."""
    roots.hold("holder", "a-nic0", "pool")
    alternatives = [{"name": name, **want(ask, "nic")["exactly"]} for name in ("near", "far")]
    either = {"name": "nic", "firstAvailable": alternatives}
    bound = ["gpu", "any", "nic/near"]
    constraint = {"matchAttribute": f"{DRIVER}/root", "requests": bound}
    found = roots.explain(roots.claim(want(ask, "gpu", 2), ask("any", 2), either, constraints=[constraint]))

    assert found.reason is Reason.CONSTRAINT_UNSATISFIABLE
    assert found.message.endswith(
        "; n1 has at most 3 with the same value left for gpu and any, which want 4; "
        "others are in use by 1 claim (holder); "
        f"even if none were in use, the requests do not fit together with constraint #0 (matchAttribute {DRIVER}/root)"
    )
