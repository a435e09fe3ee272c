"""What is left for requests of the attribute that a constraint is about."""

from typing import Any

import pytest

from dra_operator.allocator import Reason
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.explanation.tally import TallyMaker

DRIVER = "gpu.example.com"
KIND = f'device.attributes["{DRIVER}"].kind == "{{}}"'


def device(name: str, kind: str, root: Any) -> dict[str, Any]:
    """Return a device of a kind, at a root."""
    value = {"bool": root} if isinstance(root, bool) else {"string": root}
    return {"name": name, "attributes": {"kind": {"string": kind}, "root": value}}


def told(scene: Any, constraint: str, *requests: dict[str, Any]) -> str:
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
        device(f"{root}-{kind}{n}", kind, root)
        for root in "ab"
        for kind, n in (("gpu", 0), ("gpu", 1), ("nic", 0))
    ]
    scene.slice("s", *devices)
    return scene


def want(ask: Any, kind: str, count: int = 1) -> dict[str, Any]:
    """Return a request for devices of a kind, named after it."""
    made: dict[str, Any] = ask(kind, count, KIND.format(kind))
    return made


def test_what_is_left_is_at_different_roots(roots: Any, ask: Any) -> None:
    """For each request, where there is enough for it."""
    for name in ("a-nic0", "b-gpu0"):
        roots.hold(name, name, "pool")

    assert told(roots, "matchAttribute", want(ask, "gpu", 2), want(ask, "nic")) == (
        "; n1 has enough left for gpu with a, for nic with b; others are in use by 2 claims (a-nic0, b-gpu0)"
    )


def test_no_root_has_enough_for_all(roots: Any, ask: Any) -> None:
    """Though for each."""
    assert told(roots, "matchAttribute", want(ask, "gpu", 2), ask("any", 2)) == (
        "; n1 has at most 3 with the same value left for gpu and any, which want 4"
    )


def test_too_few_values_for_all_to_differ(roots: Any, ask: Any) -> None:
    """However many devices there are."""
    assert told(roots, "distinctAttribute", want(ask, "gpu", 2), want(ask, "nic")) == (
        "; n1 has 2 values left for gpu and nic, which want 3"
    )


def test_one_value_is_one(scene: Any, ask: Any) -> None:
    """Devices that no request is for have others, which do not count."""
    scene.nodes("n1")
    scene.slice("s", device("a", "gpu", "x"), device("b", "nic", "x"), device("c", "cpu", "y"))

    assert told(scene, "distinctAttribute", want(ask, "gpu"), want(ask, "nic")) == (
        "; n1 has 1 value left for gpu and nic, which want 2"
    )


def test_values_that_would_be_enough_are_not_blamed(scene: Any, ask: Any) -> None:
    """Two requests want the same one of three."""
    scene.nodes("n1")
    cpus = [device(f"cpu-{root}", "cpu", root) for root in "abc"]
    scene.slice("s", device("gpu", "gpu", "a"), device("nic", "nic", "a"), *cpus)

    assert not told(scene, "distinctAttribute", want(ask, "gpu"), want(ask, "nic"), want(ask, "cpu"))


def test_a_number_that_would_be_enough_is_not_blamed(roots: Any, ask: Any) -> None:
    """Of four devices with one value two are of the kind that three are wanted of."""
    roots.slice("more", *(device(f"{root}-nic1", "nic", root) for root in "ab"), pool="more")
    more = {**want(ask, "gpu"), "name": "more"}

    assert not told(roots, "matchAttribute", want(ask, "gpu", 2), more, want(ask, "nic"))


def test_alternatives_want_at_least_what_the_smallest_wants(roots: Any, ask: Any) -> None:
    """And one of them that has room at a root is enough to name it."""
    options = [{"name": f"s{number}", **want(ask, "gpu", number)["exactly"]} for number in (3, 2)]
    either = {"name": "either", "firstAvailable": options}

    assert told(roots, "matchAttribute", either, ask("any", 2)) == (
        "; n1 has at most 3 with the same value left for either and any, which want at least 4"
    )
    for name in ("a-nic0", "b-gpu0"):
        roots.hold(name, name, "pool")
    assert told(roots, "matchAttribute", either, want(ask, "nic")).startswith(
        "; n1 has enough left for either with a, for nic with b;"
    )


def test_devices_that_are_shared_are_not_counted(scene: Any, ask: Any) -> None:
    """Three could serve four, if they had more room."""
    scene.nodes("n1")
    capacity = {"memory": {"value": "10"}}
    scene.slice(
        "s",
        *(
            {**device(f"{root}{number}", "gpu", root), "allowMultipleAllocations": True, "capacity": capacity}
            for root in "ab"
            for number in range(3)
        ),
    )
    requests = [ask(name, 2, capacity={"requests": {"memory": "6"}}) for name in ("one", "two")]

    assert not told(scene, "matchAttribute", *requests)


def test_values_that_are_true_or_false(scene: Any, ask: Any) -> None:
    """They are written as in the slice."""
    scene.nodes("n1")
    scene.slice(
        "s", device("a", "gpu", root=True), device("b", "nic", root=False), device("c", "nic", root=True)
    )
    scene.hold("holder", "c", "pool")

    assert told(scene, "matchAttribute", want(ask, "gpu"), want(ask, "nic")) == (
        "; n1 has enough left for gpu with true, for nic with false; others are in use by 1 claim (holder)"
    )


def test_each_value_of_a_list_is_told(scene: Any, ask: Any) -> None:
    """Two processors list their roots, and neither has the one that has a card."""
    scene.nodes("n1")
    cpus = [device(f"cpu{number}", "cpu", "") for number in range(2)]
    for number, cpu in enumerate(cpus):
        cpu["attributes"]["root"] = {"strings": [f"r{2 * number}", f"r{2 * number + 1}"]}
    scene.slice("s", *cpus, device("nic", "nic", "r2"))
    scene.hold("holder", "cpu1", "pool")

    assert told(scene, "matchAttribute", want(ask, "cpu"), want(ask, "nic")) == (
        "; n1 has enough left for cpu with r0 and r1, for nic with r2; others are in use by 1 claim (holder)"
    )


def test_no_node_has_enough_for_each(scene: Any, ask: Any) -> None:
    """Each fits alone with the constraint, but nowhere do all."""
    scene.nodes("n1", "n2")
    scene.slice(
        "n1", device("a", "gpu", "x"), device("b", "gpu", "x"), device("c", "nic", "y"), nodeName="n1"
    )
    scene.slice("n2", *(device(name, "nic", "x") for name in "abc"), nodeName="n2")

    requests = (want(ask, "gpu", 2), ask("any", 3))
    scene.slice("n3", *(device(f"d{n}", "gpu", f"{n}") for n in range(5)), nodeName="n3")
    scene.nodes("n3")
    assert (
        told(scene, "matchAttribute", *requests)
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
        "even if none were in use, the requests do not fit together with constraint #0"
    )


def test_users_that_take_too_long_to_find_are_left_out(
    roots: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known without them is told."""
    for name in ("a-nic0", "b-gpu0"):
        roots.hold(name, name, "pool")

    def late(*_: object) -> None:
        raise AbortedError("the time is up")

    monkeypatch.setattr(TallyMaker, "make", late)

    assert told(roots, "matchAttribute", want(ask, "gpu", 2), want(ask, "nic")) == (
        "; n1 has enough left for gpu with a, for nic with b"
    )
