"""The rows that kubectl prints."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_operator.sim import tables
from dra_operator.sim.resources import RESOURCES
from dra_operator.sim.store import Stored
from dra_operator.sim.tables import IncludeObject

BY_KIND = {resource.kind: resource for resource in RESOURCES}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cells(kind: str, **body: Any) -> list[Any]:
    """Return the cells of an object named x."""
    full = {"metadata": {"name": "x", **body.pop("metadata", {})}, "spec": {}, "status": {}, **body}
    return list(tables.row(Stored("x", full, 1), BY_KIND[kind], "v1", NOW, IncludeObject.NONE)["cells"])


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
