"""Parts that many objects have alike."""

import gc
from datetime import UTC, datetime
from typing import Any
from weakref import ref

import pytest

from dra_operator.api.read import ObjectError, read_object


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


@pytest.mark.parametrize("other", [spec(count=2), spec(adminAccess=True), configured({"a": 1})])
def test_claims_that_differ_share_nothing(other: dict[str, Any]) -> None:
    """Each has the spec that was written for it."""
    kept = read(spec())
    assert read(other).spec != kept.spec


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


def test_what_is_no_json_is_read_by_itself() -> None:
    """Parameters that the decoder carries in bytes are no hindrance."""
    assert parameters_of(read(configured(b'{"deep": true}'))) == b'{"deep": true}'


def test_null_is_as_good_as_absent() -> None:
    """A spec with null in it is read as one without, however often."""
    for _ in range(2):
        assert read(spec(adminAccess=None)).spec == read(spec()).spec


def test_expressions_with_null_in_them_are_shared() -> None:
    """Only a value that is null keeps a spec from being shared, not a text about it."""
    selectors = [{"cel": {"expression": "device.attributes['a.io'].nullable != null"}}]
    assert read(spec(selectors=selectors)).spec is read(spec(selectors=selectors), "d").spec


def test_what_is_wrong_is_told_of_each() -> None:
    """A spec that cannot be read is not kept, and the message names the claim and the field."""
    for name in "ab":
        with pytest.raises(ObjectError, match=rf'"ns/{name}": spec\.devices\.requests\[0\]\.exactly\.count'):
            read(spec(count="1"), name)


def test_a_spec_that_no_claim_has_is_let_go() -> None:
    """It is in memory for as long as somebody uses it."""
    claim = read(spec(deviceClassName="only-here"))
    there = ref(claim.spec)
    del claim
    gc.collect()
    assert there() is None
