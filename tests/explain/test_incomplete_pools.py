"""What a claim for all devices waits for while a pool somewhere is not complete."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.decision import Allocated, Failed
from dra_operator.allocator.reasons import Reason

MIG = 'device.driver == "mig"'


@pytest.fixture
def migs(scene: Any, put_pool: Any) -> Any:
    """A node with two devices, one of them in use, and a class for them."""
    scene.nodes("m1", "m2")
    scene.device_class("mig", MIG)
    put_pool("mig", "m1", "a", "b")
    scene.use("holder", wants_all(count=1))
    return scene


@pytest.fixture
def put_pool(scene: Any) -> Any:
    """Puts a pool of a driver for a node; `count` slices belong to it, of which one is there."""

    def put(driver: str, node: str, *names: str, count: int = 1, copy: str = "") -> None:
        scene.slice(f"{driver}-{node}{copy}", *names, driver=driver, nodeName=node, count=count)

    return put


@pytest.fixture
def put_invalid(put_pool: Any) -> Any:
    """Puts a pool in which one device is there twice."""

    def put(driver: str, node: str) -> None:
        put_pool(driver, node, "x", count=2)
        put_pool(driver, node, "x", count=2, copy="-copy")

    return put


def wants_all(name: str = "r", count: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a request for all devices of the class, or for some."""
    mode = {"allocationMode": "All"} if count is None else {"count": count}
    return {"name": name, "exactly": {"deviceClassName": "mig", **mode, **more}}


def test_an_invalid_pool_without_a_device_for_the_claim_is_not_named(migs: Any, put_invalid: Any) -> None:
    """To mend it would not help: the devices are on another node, in use."""
    put_invalid("dup", "m2")
    claim = migs.claim(wants_all())
    decision = migs.decide(claim)
    found = migs.explain(claim)

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.POOL_INVALID
    assert (found.reason, found.request) == (Reason.DEVICE_IN_USE, "r")
    assert found.message == (
        "request r: 4 devices published, 2 in class mig, 1 in use by 1 claim (holder), 1 left, all requested"
    )


def test_an_invalid_pool_that_alone_keeps_the_claim_waiting_is_named(migs: Any, put_invalid: Any) -> None:
    """Once nobody uses the devices the pool of another node still ends the attempt, if that comes first."""
    migs.ledger.remove("team", "holder")
    migs.nodes("m0")
    put_invalid("dup", "m0")
    found = migs.explain(migs.claim(wants_all()))

    assert found.reason is Reason.POOL_INVALID
    assert found.message == (
        "request r: asks for all devices, but resource pool dup/m0 is currently invalid: duplicate device name x"
    )


def test_an_invalid_pool_that_has_such_devices_is_named_beside_those_in_use(
    migs: Any, put_invalid: Any
) -> None:
    """Each of the two would help: it is the pool of the devices that is named, not the first that is invalid."""
    put_invalid("dup", "m2")
    put_invalid("mig", "m2")
    found = migs.explain(migs.claim(wants_all()))

    assert found.message == (
        "request r: 6 devices published, 4 in class mig, 2 in invalid pools (mig/m2: duplicate device name x on 2), "
        "1 in use by 1 claim (holder), 1 left, all requested"
    )


def test_where_no_node_has_such_devices_an_incomplete_pool_is_the_cause(migs: Any, put_pool: Any) -> None:
    """And an invalid one is not: its devices are known."""
    migs.device_class("none", 'device.driver == "none"')
    claim = migs.claim({"name": "r", "exactly": {"deviceClassName": "none", "allocationMode": "All"}})
    put_pool("late", "m2", "x", count=2)
    incomplete = migs.explain(claim)
    put_pool("late", "m2", "x", count=2, copy="-copy")
    invalid = migs.explain(claim)

    assert incomplete.reason is Reason.POOL_INCOMPLETE
    assert (
        "resource pool late/m2 is currently incomplete: 1 of 2 slices of generation 1 missing"
        in incomplete.message
    )
    assert invalid.reason is Reason.CLASS_MATCHES_NO_DEVICE
    assert invalid.message == (
        "request r: 4 devices published, 0 in class none (driver late != none on 2, driver mig != none on 2)"
    )


def test_requests_that_do_not_fit_together_do_so_with_pools_set_aside(migs: Any, put_invalid: Any) -> None:
    """Each would fit alone only if the pool were not there; where such a pool has devices, it is named."""
    migs.ledger.remove("team", "holder")
    claim = migs.claim(wants_all("a"), wants_all("b", 1))
    put_invalid("dup", "m2")
    aside = migs.explain(claim)
    put_invalid("mig", "m2")
    found = migs.explain(claim)

    assert aside.reason is Reason.REQUESTS_DO_NOT_FIT_TOGETHER
    assert aside.message.startswith("leaving aside pools that are not complete, each request fits alone")
    assert found.reason is Reason.POOL_INVALID


@pytest.mark.parametrize(
    ("node", "reason"), [("m1", Reason.SELECTOR_FAILED), ("m0", Reason.POOL_INVALID)], ids=["its", "another"]
)
def test_a_selector_that_fails_on_the_node_of_the_pool_comes_first(
    migs: Any, put_invalid: Any, node: str, reason: Reason
) -> None:
    """It fails whatever becomes of the pool; on a later node it does not where the claim fits before."""
    migs.nodes("m0")
    put_invalid("dup", node)
    fails = [{"cel": {"expression": 'device.attributes["mig"].nope == "x"'}}]
    found = migs.explain(migs.claim(wants_all(selectors=fails)))

    assert found.reason is reason


_PLACES = [(driver, node) for driver in ("mig", "other") for node in ("m1", "m2", "m3")]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["none", "complete", "invalid"]), min_size=6, max_size=6), st.integers(0, 3))
def test_an_invalid_pool_is_the_reason_only_where_it_matters(scene: Any, kinds: list[str], used: int) -> None:
    """Without the invalid pools the claim fits, or one of them has devices for it; and else they are not named."""
    pools = dict(zip(_PLACES, kinds, strict=True))

    def explained(those: tuple[str, ...]) -> Any:
        """Return why the claim waits where there are only pools of some kinds, or None if it does not."""
        kept = scene.allocator
        fresh = type(scene)(kept.features, kept.limits, kept.clock)
        fresh.nodes("m1", "m2", "m3")
        fresh.device_class("mig", MIG)
        for (driver, node), kind in pools.items():
            for copy in {"complete": "a", "invalid": "ab"}.get(kind, "") if kind in those else "":
                count = 1 + (kind == "invalid")
                fresh.slice(f"{driver}-{node}-{copy}", "x", driver=driver, nodeName=node, count=count)
        for number in range(used):
            request = wants_all(count=1)
            claim = fresh.claim(request, name=f"user-{number}")
            if isinstance(decision := fresh.decide(claim), Allocated):
                fresh.ledger.assume("team", claim.metadata.name, decision.results[0])
        claim = fresh.claim(wants_all())
        found = fresh.explainer.explain((claim,), fresh.decide(claim))
        return found[0] if found else None

    found = explained(("complete", "invalid"))
    if found is None:
        return
    named = set(re.findall(r"(?:pool |[(, ])(mig|other)/m\d(?: is currently|: dup)", found.message))
    fits = explained(("complete",)) is None
    assert fits == ("is currently invalid" in found.message)
    assert fits or named <= {"mig"}
    assert ("mig" in named) == ("invalid" in kinds[:3]) or fits
    if found.reason is Reason.POOL_INVALID:
        assert fits or "invalid" in kinds[:3]
