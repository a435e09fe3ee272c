"""The plans of claims, and who shares them."""

from typing import Any

import pytest

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.decision import FatalError
from dra_operator.api.convert import apply_defaults
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


def test_an_error_names_its_claim_each_time(allocator: Allocator) -> None:
    """Claims with one spec that cannot be planned are each told so."""
    for name in "ab":
        with pytest.raises(FatalError, match="device class nic does not exist") as error:
            allocator.plan(claim(name, deviceClassName="nic"))
        assert error.value.claim == ("ns", name)
