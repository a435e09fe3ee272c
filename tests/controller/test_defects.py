"""Defects of our own: whatever breaks is logged with its traceback, counted, and costs one object at most."""

import ast
import re
from pathlib import Path

import pytest
import structlog

from cluster import CLASS, claim, node, resource_slice
from dra_operator.allocator.allocator import Allocator
from dra_operator.cluster.delivery import Delivery
from dra_operator.cluster.events import EventRecorder
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.reflector import Delta, Reflector
from dra_operator.cluster.writer import Writer
from dra_operator.controller.fencing import WriteFence
from dra_operator.controller.health import ReadAccess
from dra_operator.controller.ingest import Ingest
from dra_operator.controller.loop import Loop
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.object_problems import ObjectProblems
from dra_operator.controller.write_results import ClaimWrites

BREAKABLE = {
    Defect.PASS: (WriteFence, "is_pending"),
    Defect.DECISION: (Allocator, "allocate"),
    Defect.TIDYING: (ClaimWrites, "release_unmanaged"),
    Defect.REPORT: (ObjectProblems, "report_inventory"),
    Defect.INTAKE: (Ingest, "apply"),
    Defect.EFFECT: (Writer, "submit"),
    Defect.WRITE: (Delivery, "deliver"),
    Defect.OUTCOME: (Reflector, "observe"),
    Defect.EVENT: (EventRecorder, "_deliver"),
    Defect.REFLECTOR: (Reflector, "_event"),
    Defect.DELTA: (Loop, "put"),
    Defect.TASK: (ReadAccess, "check"),
}
"""What is called where each defect is met."""


@pytest.fixture
def break_once(monkeypatch):
    """Have what a defect interrupts raise the next time it is called, and never again."""
    monkeypatch.setattr("dra_operator.controller.loop.RETRY", (0.01, 0.02))

    def once(defect):
        owner, name = BREAKABLE[defect]
        sound, broken = getattr(owner, name), []

        def call(self, *args, **options):
            # Whatever else is put is no business of the reflector's.
            if not broken and (defect is not Defect.DELTA or isinstance(args[0], Delta)):
                broken.append(defect)
                raise RuntimeError("a defect")
            return sound(self, *args, **options)

        monkeypatch.setattr(owner, name, call)

    return once


def counted(metrics):
    """Return how many errors were counted, by place."""
    series = r'^dra_operator_errors_total\{place="(.*)"\} (.*)$'
    return dict(re.findall(series, metrics.text().decode(), re.MULTILINE))


@pytest.mark.parametrize("defect", Defect, ids=lambda defect: defect.place)
async def test_a_defect_is_logged_and_counted(cluster, unwatched, break_once, defect):
    """Whoever watches `dra_operator_errors_total` learns of each line that the page calls a defect of ours."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"))
    await unwatched.settled()
    with structlog.testing.capture_logs() as logs:
        break_once(defect)
        cluster.put(claim("first"))
        # It may be met in another thread, which counts it first and then logs it.
        await cluster.until(lambda: defect.text in [line["event"] for line in logs], defect.text)

    assert [type(line["exc_info"]) for line in logs if line["event"] == defect.text] == [RuntimeError]
    counts = counted(unwatched.manager.metrics)
    assert {place: number for place, number in counts.items() if number != "0.0"} == {defect.place: "1.0"}


@pytest.mark.parametrize("defect", [found for found in Defect if found is not Defect.TASK], ids=str)
async def test_a_defect_costs_one_object_at_most(cluster, unwatched, break_once, defect):
    """The next claim is allocated."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"))
    await unwatched.settled()
    break_once(defect)
    cluster.put(claim("first"))
    await cluster.until(lambda: counted(unwatched.manager.metrics)[defect.place] == "1.0", defect.text)
    cluster.put(claim("second"))

    assert await cluster.allocated("second")


@pytest.mark.parametrize("defect", [Defect.EFFECT, Defect.WRITE, Defect.OUTCOME], ids=str)
async def test_no_write_is_waited_for_in_vain(cluster, unwatched, break_once, defect):
    """Else its claim could not be decided again before the operator ends."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"))
    await unwatched.settled()
    break_once(defect)
    cluster.put(claim())
    await cluster.until(lambda: counted(unwatched.manager.metrics)[defect.place] == "1.0", defect.text)

    await cluster.until(lambda: not unwatched.manager._cycle._in_flight, "the end of the write")


def test_every_place_is_counted_from_zero():
    """Of a series that begins at one Prometheus tells no increase."""
    assert counted(Metrics()) == {defect.place: "0.0" for defect in Defect}


def test_no_traceback_is_logged_beside_the_count(repository: Path):
    """Only `cluster.faults` logs exceptions, which counts them, and the start, when there is nobody to ask yet."""
    found = set()
    for folder in ("cluster", "controller"):
        for path in (repository / "operator" / "dra_operator" / folder).glob("*.py"):
            for call in ast.walk(ast.parse(path.read_text())):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                    continue
                by = ast.unparse(call.func)
                # `task.exception()`, without a text, logs nothing.
                traced = (call.args and by.endswith(".exception")) or any(
                    word.arg == "exc_info" for word in call.keywords
                )
                if traced and not by.endswith("defect_logger.exception"):
                    found.add((path.name, by))

    assert found == {
        ("faults.py", "log.error"),
        ("faults.py", "log.critical"),
        ("kopf_app.py", "log.critical"),
    }


def test_the_page_lists_each_place_with_its_line(repository: Path):
    """Whoever is woken by a place finds what it costs and which line of the log to look for."""
    page = (repository / "docs" / "operator.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", page, re.MULTILINE)

    assert rows == [(defect.place, defect.text) for defect in Defect]
