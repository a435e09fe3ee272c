"""What the operator says, and the pages that list it."""

import re
from pathlib import Path

import pytest

from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
)
from dra_operator.controller import messages

_LOG_TEXTS = [
    value
    for name, value in vars(messages).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("EVENT_") and "/" not in value
]
_EVENT_REASONS = [value for name, value in vars(messages).items() if name.startswith("EVENT_")]


@pytest.mark.parametrize("text", _LOG_TEXTS)
def test_every_log_text_is_documented(repository: Path, text):
    """Whoever searches the documentation for a log line finds what it means."""
    page = (repository / "docs" / "operator.md").read_text()

    assert f"`{text}`" in page


@pytest.mark.parametrize("reason", _EVENT_REASONS)
def test_every_reason_of_an_event_is_documented(repository: Path, reason):
    """Whoever reads an Event finds its reason on the page of reasons."""
    page = (repository / "docs" / "reasons.md").read_text()

    assert re.search(rf"^- `{reason}`", page, re.MULTILINE)


def test_an_event_names_device_request_and_node():
    """The Event of an allocated claim says which device serves which request, and where."""
    result = DeviceRequestAllocationResult("gpu", "gpu.example.com", "node-1", "gpu-0")
    allocation = AllocationResult(DeviceAllocationResult((result,)), NodeSelector())

    said = messages.allocated(allocation, "node-1")

    assert said == "allocated gpu.example.com/node-1/gpu-0 for gpu on node node-1"
