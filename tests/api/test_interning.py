"""Parts that many objects have alike."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_operator.api.read import read_object


def spec(**exactly: Any) -> dict[str, Any]:
    """Return a spec as it is on the wire."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1} | exactly}
    return {"devices": {"requests": [request]}}


def configured(parameters: Any) -> dict[str, Any]:
    """Return a spec with parameters for a driver."""
    config = [{"opaque": {"driver": "d", "parameters": parameters}}]
    return {"devices": {"requests": [], "config": config}}


def read(body: Any, name: str = "c") -> Any:
    """Return the claim with this spec."""
    return read_object({"metadata": {"name": name, "namespace": "ns"}, "spec": body}, "ResourceClaim")


def parameters_of(claim: Any) -> Any:
    """Return what the driver is given."""
    (config,) = claim.spec.devices.config
    return config.opaque.parameters


def test_claims_from_one_template_share_its_spec() -> None:
    """Equal specs are one object, in templates too."""
    template = read_object({"spec": {"spec": spec()}}, "ResourceClaimTemplate")
    assert read(spec(), "a").spec is read(spec(), "b").spec
    assert template.spec.spec is read(spec()).spec


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (None, float("nan")),
        ("2026-01-01T00:00:00+00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        (1, 1.0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_what_only_looks_alike_in_json_is_kept_apart(first: Any, second: Any) -> None:
    """Parameters go to the driver as they were written, in their order and of their types."""
    kept = read(configured({"x": first}))
    found = parameters_of(read(configured({"x": second})))["x"]
    assert type(found) is type(second)
    assert repr(found) == repr(second)
    assert repr(parameters_of(kept)["x"]) == repr(first)
