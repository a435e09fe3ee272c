"""The plans of claims, and who shares them."""

from typing import Any
from weakref import ref

import pytest

from dra_operator.allocator import AdminAccess, Allocator
from dra_operator.allocator import plan as plans
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.plan import Planner
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

EXACTLY: dict[str, Any] = {
    "deviceClassName": "gpu",
    "allocationMode": "ExactCount",
    "count": 1,
    "selectors": [{"cel": {"expression": "true"}}],
    "tolerations": [{"operator": "Exists"}],
    "capacity": {"requests": {"memory": "1", "cores": "2"}},
    "derivedAttributes": [{"name": "a.io/b", "expression": "1"}],
}
CONSTRAINT = {"requests": ["r"], "matchAttribute": "a.io/b"}


def claim(name: str = "c", *, constraint: dict[str, Any] | None = None, **changed: Any) -> Any:
    """Return a claim with one request, some of its fields changed, and one constraint."""
    request = {"name": changed.pop("request", "r"), "exactly": EXACTLY | changed}
    return with_devices(name, requests=[request], constraints=[constraint or CONSTRAINT])


def with_devices(name: str, **devices: Any) -> Any:
    """Return a claim that asks for this."""
    body = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": devices}}
    return apply_defaults(read_object(body, "ResourceClaim"))


@pytest.fixture
def allocator() -> Allocator:
    """An allocator that knows class `gpu`."""
    inventory = Inventory()
    inventory.put(read_object({"metadata": {"name": "gpu"}}, "DeviceClass"))
    return Allocator(
        inventory,
        Ledger(),
        clock=lambda: 0.0,
        share_ids=lambda: "id",
        admin_access=AdminAccess.ANY_NAMESPACE,
    )


def test_a_plan_serves_every_claim_with_its_spec(allocator: Allocator) -> None:
    """It is the one that would be made for the claim itself."""
    first, second = claim("a"), claim("b")
    made = Planner(allocator.inventory.classes, allocator.candidates).plan(second)

    assert allocator.plan(first).claim is first
    assert allocator.plan(second).claim is second
    assert allocator.plan(second).requests is allocator.plan(first).requests
    assert allocator.plan(second) == made


OTHERS = [
    claim(request="s"),
    claim(count=2),
    claim(allocationMode="All", count=0),
    claim(adminAccess=True),
    claim(selectors=[]),
    claim(selectors=[{"cel": {"expression": "false"}}]),
    claim(tolerations=[]),
    claim(tolerations=[{"operator": "Exists", "key": "k"}]),
    claim(capacity={"requests": {}}),
    claim(capacity={"requests": {"memory": "1000m", "cores": "2"}}),
    claim(derivedAttributes=[]),
    claim(derivedAttributes=[{"name": "a.io/b", "expression": "2"}]),
    claim(constraint={"requests": ["r"], "distinctAttribute": "a.io/b"}),
    claim(constraint={"requests": ["s"], "matchAttribute": "a.io/b"}),
    claim(constraint={"requests": ["r"], "matchAttribute": "a.io/c"}),
    with_devices("c", requests=[{"name": "r", "firstAvailable": [EXACTLY | {"name": "s"}]}]),
]


@pytest.mark.parametrize("other", OTHERS)
def test_whatever_is_asked_for_is_in_the_plan(allocator: Allocator, other: Any) -> None:
    """A claim that differs in any of it has another plan."""
    plan, others = allocator.plan(claim()), allocator.plan(other)
    assert (plan.requests, plan.constraints) != (others.requests, others.constraints)


def test_plans_are_of_claims_alone(allocator: Allocator) -> None:
    """Those that were planned before make no difference."""
    for item in [claim(), *OTHERS]:
        alone = Planner(allocator.inventory.classes, allocator.candidates)
        assert allocator.plan(item) == alone.plan(item)


def test_a_plan_goes_with_its_class(allocator: Allocator) -> None:
    """Claims planned before are planned anew once a class has changed."""
    first = claim("a")
    before = allocator.plan(first)
    selectors = [{"cel": {"expression": "false"}}]
    allocator.inventory.put(
        read_object({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}, "DeviceClass")
    )
    allocator.refresh()

    (alternative,) = allocator.plan(claim("b")).requests[0].alternatives
    assert alternative.key.content.class_selectors == ("false",)
    assert allocator.plan(first) != before


def test_a_plan_goes_with_its_spec(allocator: Allocator, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many plans are kept, and whatever the ids of specs that are gone, each claim gets its own."""
    monkeypatch.setattr(plans, "_MAX_SPECS", 4)
    allocator._planner._room = 2
    kept = [claim(count=count) for count in range(1, 9)]
    for item in [*kept, *reversed(kept)]:
        (alternative,) = allocator.plan(item).requests[0].alternatives
        assert alternative.count == item.spec.devices.requests[0].exactly.count
        assert len(allocator._planner._by_spec) <= 4


def test_plans_of_claims_that_wait_are_kept_while_others_come_and_go(allocator: Allocator) -> None:
    """Those of specs that are gone make room; they are never more than those that are there and a few."""
    waiting = [claim(tolerations=[{"key": f"{number}", "operator": "Exists"}]) for number in range(100)]
    plans_before = [allocator.plan(item).requests for item in waiting]
    for number in range(1000):
        allocator.plan(claim(selectors=[{"cel": {"expression": f"{number} == 1"}}]))
        assert len(allocator._planner._by_spec) <= 2 * len(waiting) + 64

    assert all(
        allocator.plan(item).requests is before for item, before in zip(waiting, plans_before, strict=True)
    )


def test_an_error_names_its_claim_each_time(allocator: Allocator) -> None:
    """Claims with one spec that cannot be planned are each told so."""
    for name in "ab":
        with pytest.raises(FatalError, match="device class nic does not exist") as error:
            allocator.plan(claim(name, deviceClassName="nic"))
        assert error.value.claim == ("ns", name)


def test_nothing_of_a_spec_stays_with_its_plan(allocator: Allocator) -> None:
    """What users have written goes with their claims, and a spec in its place gets a plan of its own."""
    item = with_devices(
        "c",
        requests=[{"name": "r", "exactly": EXACTLY}],
        config=[{"opaque": {"driver": "d", "parameters": {"only": "here"}}}],
    )
    allocator.plan(item)
    there = ref(item.spec)
    del item
    assert there() is None

    kept = [claim(count=number) for number in range(1, 9)]
    assert [allocator.plan(item).requests[0].alternatives[0].count for item in kept] == list(range(1, 9))


def test_a_plan_is_not_that_of_a_spec_that_had_the_same_id(allocator: Allocator) -> None:
    """An id is given out again once its spec is gone."""
    gone, there = claim(count=1), claim(count=2)
    allocator.plan(gone)
    known = allocator._planner._by_spec
    known[id(there.spec)] = known.pop(id(gone.spec))

    (alternative,) = allocator.plan(there).requests[0].alternatives
    assert alternative.count == 2
