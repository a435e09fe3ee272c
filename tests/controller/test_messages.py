"""What the operator says, and the pages that list it."""

import ast
import re
from pathlib import Path

import pytest

from dra_operator.api.core import NodeSelector
from dra_operator.api.quantity import NANO
from dra_operator.api.types import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra_operator.cluster.events import shorten
from dra_operator.controller import messages
from dra_operator.ledger.overcommitment import Overcommitment, Resource

_EVENT_REASONS = [value for name, value in vars(messages).items() if name.startswith("EVENT_")]


@pytest.fixture(scope="module")
def logged(repository: Path):
    """Return the texts of all log calls in the source, constants of `messages` resolved; those of defects are apart."""
    texts: set[str] = set()
    for folder in ("cluster", "controller"):
        for path in (repository / "operator" / "dra_operator" / folder).glob("*.py"):
            for call in ast.walk(ast.parse(path.read_text())):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute | ast.Name):
                    texts |= _logged_by(call)
    return texts


def _logged_by(call: ast.Call) -> set[str]:
    """`tell` stands for one of two levels of a logger."""
    logger = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    names = {"log", "_log", "logger"} if isinstance(call.func, ast.Attribute) else {"tell"}
    if not isinstance(logger, ast.Name) or logger.id not in names or not call.args:
        return set()
    text = call.args[0]
    if isinstance(text, ast.Attribute):
        # `defect.text` is one of the lines of defects, which have a table of their own.
        return set() if text.attr == "text" else {getattr(messages, text.attr)}
    return {text.value} if isinstance(text, ast.Constant) else set()


def test_the_page_lists_exactly_the_log_texts_there_are(repository: Path, logged):
    """Whoever searches the documentation for a log line finds it, and finds none that is never written."""
    page = (repository / "docs" / "operator.md").read_text()
    section = page.partition("## What it logs")[2].partition("\n##")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    listed = {text for row in rows for text in re.findall(r"`([^`]+)`", row)}

    assert listed == logged


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

    assert said == "allocated on node node-1: gpu.example.com/node-1/gpu-0 for gpu"


def test_an_event_names_the_nodes_that_can_skip_node_operations():
    """kube-scheduler puts pods with such devices nowhere else, though the allocation has no node selector."""
    result = DeviceRequestAllocationResult(
        "seat", "seat.example.com", "all", "seat-0", skip_node_operations=("*",)
    )

    said = messages.allocated(AllocationResult(DeviceAllocationResult((result,)), None), "")

    assert said == (
        "allocated, usable on every node that can skip node operations: seat.example.com/all/seat-0 for seat"
    )


def test_a_counter_below_nothing_is_told_without_claims():
    """The API server admits it, and nothing need be allocated for it to be too little."""
    case = Overcommitment(
        pool=("gpu.example.com", "node-1"),
        resource=Resource.COUNTER,
        owner="gpu-0",
        name="memory",
        total=-NANO,
        used=0,
        parts=(),
        slice_name="slice",
        node="node-1",
    )

    assert messages.overcommitted(case, ()) == (
        "counter gpu-0/memory of pool gpu.example.com/node-1 on node node-1: -1 published, nothing allocated; "
        "the driver must not publish less than nothing"
    )


def test_an_event_of_many_devices_keeps_the_node():
    """What is cut is the end of a list, not the place, and a device that all nodes see is on no one of them."""
    results = tuple(
        DeviceRequestAllocationResult("gpu", "gpu.example.com", "node-1", f"gpu-{number}")
        for number in range(64)
    )
    here = AllocationResult(DeviceAllocationResult(results), NodeSelector())
    anywhere = AllocationResult(DeviceAllocationResult(results), None)

    assert shorten(messages.allocated(here, "node-1")).startswith(
        "allocated on node node-1: gpu.example.com/"
    )
    assert shorten(messages.allocated(anywhere, "")).startswith(
        "allocated, usable on every node: gpu.example.com/"
    )
