"""What bodies become on their way through Go structs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.testing import schema

CLAIM = "resource/v1.ResourceClaim"
SLICE = "resource/v1.ResourceSlice"


def decoded(body: dict[str, Any], struct: str = CLAIM) -> dict[str, Any]:
    """Return the decoded body alone."""
    return schema.decode(body, struct)[0]


def test_unknown_fields_are_dropped_and_named_by_path() -> None:
    """A field that the struct does not have vanishes, and its path is reported."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "c", "colour": "red"}}

    body, unknown = schema.decode({"spec": {"devices": {"requests": [request]}}, "extra": 1}, CLAIM)

    assert unknown == ["spec.devices.requests[0].exactly.colour", "extra"]
    assert "colour" not in body["spec"]["devices"]["requests"][0]["exactly"]


def test_the_path_of_an_unknown_field_names_the_keys_of_maps() -> None:
    """An unknown field below a map is reported with the key above it."""
    device = {"name": "d", "attributes": {"model": {"str": "x"}}}

    unknown = schema.decode({"spec": {"devices": [device]}}, SLICE)[1]

    assert unknown == ["spec.devices[0].attributes.model.str"]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"name": "a", "labels": None}, {"name": "a"}, id="null is absent"),
        pytest.param(
            {"name": "a", "labels": {}, "finalizers": []}, {"name": "a"}, id="empty maps and lists hide"
        ),
        pytest.param(
            {"name": "a", "generation": 0, "namespace": ""}, {"name": "a"}, id="zero and empty text hide"
        ),
        pytest.param(
            {"deletionGracePeriodSeconds": 0}, {"deletionGracePeriodSeconds": 0}, id="a pointer to zero shows"
        ),
    ],
)
def test_empty_values_hide_where_go_hides_them(metadata: dict[str, Any], expected: dict[str, Any]) -> None:
    """`omitempty` hides null, zero and empty values, but not what a pointer points to."""
    assert decoded({"metadata": metadata})["metadata"] == expected


def test_fields_without_omitempty_show_although_absent() -> None:
    """A claim always has spec, its list of requests, and status."""
    assert decoded({}) == {"metadata": {}, "spec": {"devices": {"requests": None}}, "status": {}}


@pytest.mark.parametrize(
    ("written", "stored"),
    [("1024Mi", "1Gi"), ("0.5", "500m"), (3, "3"), ("1000", "1k"), ("1E3", "1E3"), ("+12", "+12")],
)
def test_quantities_come_back_as_they_are_stored(written: Any, stored: str) -> None:
    """Mostly in the canonical form. Measured with the API server."""
    body = decoded({"spec": {"devices": [{"name": "d", "capacity": {"m": {"value": written}}}]}}, SLICE)

    assert body["spec"]["devices"][0]["capacity"]["m"]["value"] == stored


@pytest.mark.parametrize(
    ("exactly", "message"),
    [
        (
            {"count": "two"},
            (
                "json: cannot unmarshal string into Go struct field "
                "ExactDeviceRequest.spec.devices.requests.exactly.count of type int64"
            ),
        ),
        (
            {"count": 1.5},
            (
                "json: cannot unmarshal number 1.5 into Go struct field "
                "ExactDeviceRequest.spec.devices.requests.exactly.count of type int64"
            ),
        ),
        (
            {"selectors": {}},
            (
                "json: cannot unmarshal object into Go struct field "
                "ExactDeviceRequest.spec.devices.requests.exactly.selectors of type []v1.DeviceSelector"
            ),
        ),
        (
            {"adminAccess": "yes"},
            (
                "json: cannot unmarshal string into Go struct field "
                "ExactDeviceRequest.spec.devices.requests.exactly.adminAccess of type bool"
            ),
        ),
    ],
)
def test_a_wrong_type_is_refused_in_gos_words(exactly: dict[str, Any], message: str) -> None:
    """The text names the innermost struct, the path without indexes, and the Go type."""
    with pytest.raises(schema.DecodeTextError) as refusal:
        decoded({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}})

    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"renewTime": "2026-01-01T00:00:00Z"}, 'cannot parse "Z" as ".000000"'),
        ({"renewTime": "yesterday"}, 'cannot parse "yesterday" as "2006"'),
    ],
)
def test_a_lease_takes_times_with_microseconds_only(spec: dict[str, Any], message: str) -> None:
    """MicroTime refuses a time without a fraction."""
    with pytest.raises(schema.DecodeTextError, match="parsing time") as refusal:
        decoded({"spec": spec}, "coordination/v1.Lease")

    assert message in str(refusal.value)


def test_times_are_written_in_utc() -> None:
    """A time with an offset comes back in UTC, to the second."""
    body = decoded({"metadata": {"deletionTimestamp": "2026-01-01T02:00:00.5+02:00"}})

    assert body["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab0", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "devices", "requests", "exactly", "count", "labels", "x"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON.filter(lambda value: isinstance(value, dict)))
def test_decoding_twice_changes_nothing_more(body: dict[str, Any]) -> None:
    """What Go has encoded, Go decodes to the same."""
    try:
        once = decoded(body)
    except schema.DecodeTextError:
        return

    assert schema.decode(once, CLAIM) == (once, [])
