"""What claims ask for, as a key."""

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from dra_operator.allocator import AdminAccess, Allocator, Unsatisfied
from dra_operator.allocator.asked import asked_by
from dra_operator.allocator.plan import Planner
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import (
    CapacityRequirements,
    CELSelector,
    DerivedAttribute,
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
)
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


def asked(item: Any) -> object:
    """Return what a claim asks for."""
    return asked_by(item.spec.devices)


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


def test_the_name_of_a_claim_is_not_asked_for() -> None:
    """Nor are the objects the claims were read into."""
    assert asked(claim("a")) == asked(claim("b"))
    assert hash(asked(claim("a"))) == hash(asked(claim("b")))


@pytest.mark.parametrize(
    "other",
    [
        claim(request="s"),
        claim(deviceClassName="nic"),
        claim(count=2),
        claim(allocationMode="All", count=0),
        claim(adminAccess=True),
        claim(adminAccess=False),
        claim(selectors=[]),
        claim(selectors=[{"cel": {"expression": "false"}}]),
        claim(selectors=[{}]),
        claim(tolerations=[]),
        claim(tolerations=[{"operator": "Exists", "key": "k"}]),
        claim(capacity=None),
        claim(capacity={"requests": {}}),
        claim(capacity={"requests": {"memory": "1000m", "cores": "2"}}),
        claim(capacity={"requests": {"cores": "2", "memory": "1"}}),
        claim(derivedAttributes=[]),
        claim(derivedAttributes=[{"name": "a.io/b", "expression": "2"}]),
        claim(constraint={"requests": ["r"], "distinctAttribute": "a.io/b"}),
        claim(constraint={"requests": [], "matchAttribute": "a.io/b"}),
        claim(constraint={"requests": ["r"], "matchAttribute": "a.io/c"}),
        with_devices(
            "c",
            requests=[{"name": "r", "firstAvailable": [EXACTLY | {"name": "r"}]}],
            constraints=[CONSTRAINT],
        ),
        with_devices(
            "c",
            requests=[{"name": "r", "firstAvailable": [EXACTLY | {"name": "s"}]}],
            constraints=[CONSTRAINT],
        ),
        with_devices("c", requests=[{"name": "r", "exactly": EXACTLY}] * 2, constraints=[CONSTRAINT]),
        with_devices("c", requests=[{"name": "r"}], constraints=[CONSTRAINT]),
    ],
)
def test_whatever_a_plan_is_made_of_is_asked_for(other: Any) -> None:
    """A claim that differs in it has a plan of its own; an empty list of amounts differs from none."""
    assert asked(other) != asked(claim())


def test_each_field_of_a_request_and_of_a_constraint_is_asked_for() -> None:
    """Two claims share a plan only if they are equal in every field but configuration."""
    read: set[tuple[type, str]] = set()

    class Noting:
        def __init__(self, item: Any) -> None:
            self._item = item

        def __getattr__(self, name: str) -> Any:
            read.add((type(self._item), name))
            return noting(getattr(self._item, name))

    def noting(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(noting, value))
        return Noting(value) if is_dataclass(value) else value

    requests = [
        {"name": "r", "exactly": EXACTLY},
        {"name": "s", "firstAvailable": [EXACTLY | {"name": "t"}]},
    ]
    constraints = [CONSTRAINT, {"distinctAttribute": "a.io/b"}, {}]
    asked_by(noting(with_devices("c", requests=requests, constraints=constraints).spec.devices))

    kinds = (
        DeviceClaim, DeviceRequest, ExactDeviceRequest, DeviceSubRequest, DeviceConstraint, DeviceSelector,
        CELSelector, CapacityRequirements, DerivedAttribute,
    )  # fmt: skip
    every = {(kind, field.name) for kind in kinds for field in fields(kind)}
    assert every - read == {(DeviceClaim, "config")}


def test_a_plan_serves_every_claim_that_asks_for_the_same(allocator: Allocator) -> None:
    """It is the one that would be made for the claim itself."""
    first, second = claim("a"), claim("b")
    made = Planner(allocator.inventory.classes, allocator.candidates).plan(second)

    assert allocator.plan(first).signature == made.signature
    assert allocator.plan(second) == made
    assert allocator.plan(first).claim is first
    assert allocator.plan(second).claim is second
    assert allocator.plan(second).requests is allocator.plan(first).requests


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


def test_a_plan_goes_with_its_claim(allocator: Allocator) -> None:
    """A claim that waits keeps its plan for the next time, until it is gone or has got what it asked for."""
    first = claim("a")
    assert isinstance(allocator.allocate((first,)), Unsatisfied)
    before = allocator.plan(first)
    assert allocator.plan(first) is before

    allocator.forget(("ns", "a"))

    assert allocator.plan(first) is not before
    assert allocator.plan(first) == before
