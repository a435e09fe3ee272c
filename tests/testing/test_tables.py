"""The rows that kubectl prints."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_operator.api.durations import age, human_duration
from dra_operator.testing import tables
from dra_operator.testing.errors import StatusError
from dra_operator.testing.resources import RESOURCES
from dra_operator.testing.store import StoredObject
from dra_operator.testing.tables import Form, IncludeObject, form_of

BY_KIND = {resource.kind: resource for resource in RESOURCES}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cells(kind: str, **body: Any) -> list[Any]:
    """Return the cells of an object named x."""
    full = {"metadata": {"name": "x", **body.pop("metadata", {})}, "spec": {}, "status": {}, **body}
    return list(tables.row(StoredObject("x", full, 1), BY_KIND[kind], "v1", NOW, IncludeObject.NONE)["cells"])


@pytest.mark.parametrize(
    ("status", "metadata", "state"),
    [
        ({}, {}, "pending"),
        ({"allocation": {}}, {}, "allocated"),
        ({"allocation": {}, "reservedFor": [{}]}, {}, "allocated,reserved"),
        ({}, {"deletionTimestamp": "now"}, "deleted"),
        ({"allocation": {}}, {"deletionTimestamp": "now"}, "deleted,allocated"),
    ],
)
def test_the_state_of_a_claim(status: dict[str, Any], metadata: dict[str, Any], state: str) -> None:
    """One column says pending, allocated, reserved and deleted."""
    assert cells("ResourceClaim", status=status, metadata=metadata)[1] == state


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"status": {"phase": "Pending"}}, "Pending"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
        (
            {
                "status": {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
                }
            },
            "SchedulingGated",
        ),
        (
            {
                "status": {
                    "phase": "Pending",
                    "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}],
                }
            },
            "ErrImagePull",
        ),
        (
            {
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}],
                }
            },
            "ExitCode:3",
        ),
        ({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}}, "Terminating"),
        ({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Succeeded"}}, "Succeeded"),
    ],
)
def test_the_state_of_a_pod(body: dict[str, Any], state: str) -> None:
    """The phase, unless something says it better."""
    assert cells("Pod", **body)[2] == state


@pytest.mark.parametrize(
    ("spec", "conditions", "state"),
    [
        ({}, [], "Unknown"),
        ({}, [{"type": "Ready", "status": "True"}], "Ready"),
        ({}, [{"type": "Ready", "status": "Unknown"}], "NotReady"),
        ({"unschedulable": True}, [{"type": "Ready", "status": "True"}], "Ready,SchedulingDisabled"),
    ],
)
def test_the_state_of_a_node(spec: dict[str, Any], conditions: list[dict[str, str]], state: str) -> None:
    """Ready or not, and cordoned."""
    assert cells("Node", spec=spec, status={"conditions": conditions})[1] == state


def test_the_roles_of_a_node() -> None:
    """They come from labels, sorted."""
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": "", "other": "x"}

    assert cells("Node", metadata={"labels": labels})[2] == "gpu,worker"


def test_an_event_that_repeats_shows_its_last_time_and_count() -> None:
    """Last seen, first seen and count come from the event's own fields."""
    found = cells(
        "Event",
        involvedObject={"kind": "ResourceClaim", "name": "c"},
        firstTimestamp="2025-12-31T23:00:00Z",
        lastTimestamp="2025-12-31T23:59:00Z",
        count=5,
        source={"component": "dra-operator"},
        message="m\n",
    )

    assert (found[0], found[3], found[5], found[6], found[7], found[8]) == (
        "60s",
        "resourceclaim/c",
        "dra-operator",
        "m",
        "60m",
        5,
    )


@pytest.mark.parametrize("kind", sorted(BY_KIND))
def test_every_kind_has_a_cell_for_each_column(kind: str) -> None:
    """Columns and cells are as many."""
    body: dict[str, Any] = {
        "involvedObject": {},
        "spec": {"driver": "d", "pool": {"name": "p"}, "taint": {"key": "k", "effect": "None"}},
    }

    assert len(cells(kind, **body)) == len(tables.column_definitions(BY_KIND[kind]))


MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (740 * DAY, "2y10d"),
        (8 * 365 * DAY, "8y"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    """The longer, the coarser, with at most two units."""
    assert human_duration(seconds) == text


def test_an_unknown_age() -> None:
    """No timestamp, no age."""
    assert age(None, datetime.now(UTC)) == "<unknown>"


def test_an_age_is_counted_from_the_timestamp() -> None:
    """The clock is an argument."""
    assert age("2026-01-01T00:00:00Z", datetime(2026, 1, 1, 0, 0, 42, tzinfo=UTC)) == "42s"


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        (f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.OBJECT),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form.METADATA),
        (f"application/vnd.kubernetes.protobuf,{TABLE}", Form.TABLE),
        ("text/html, application/json; q=0.5", Form.OBJECT),
    ],
)
def test_the_first_form_that_is_offered_wins(accept: str, form: Form) -> None:
    """Forms that are not spoken here are passed over."""
    assert form_of(accept) is form


def test_a_client_that_takes_nothing_offered_is_told() -> None:
    """Protobuf alone gets 406."""
    with pytest.raises(StatusError) as refusal:
        form_of("application/vnd.kubernetes.protobuf")

    assert refusal.value.code == 406
