"""Planned jobs: a table of what is to come, for a replay on a cluster that files describe.

Source: docs/history.md, "Replay".
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from dra_operator.allocator.decision import Decider
from dra_operator.allocator.plan import MAX_DEVICES
from dra_operator.api.convert import Body
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.text import near_object, seconds_of, shown
from dra_operator.api.types import DeviceClass
from dra_operator.cel.advice import describe
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector
from dra_operator.history.jobs import Job, Jobs, Lifetime, Shapes
from dra_operator.history.reader import Moment, Span, StateRow, build_state
from dra_operator.history.schema import MICRO
from dra_operator.history.timeline import read_object
from dra_operator.inventory import bits
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.state import ClusterState

COLUMNS: Final = ("name", "arrival", "duration", "cpu", "memory", "class", "devices", "amount", "selector")
CLUSTER: Final = ("Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule", "Namespace")
"""The kinds that make the cluster."""
_REQUIRED: Final = ("name", "arrival", "class")
_NAMESPACE: Final = "default"
_MOST_SECONDS: Final = 1e10
_Value = TypeVar("_Value")


@dataclass(slots=True)
class FixedHistory:
    """A history in which nothing changes."""

    bodies: Sequence[Body]
    span: Span
    gaps: list[Span] = field(default_factory=list)

    def find_gap(self, at: int) -> None:
        """Return None."""

    def read_states(self, span: Span, *kinds: str) -> Iterator[StateRow]:
        """Yield what there is."""
        for body in self.bodies:
            if body["kind"] in kinds:
                names = "", body["metadata"]["name"], body["metadata"].get("uid") or "given"
                yield StateRow(body["kind"], *names, *span, body, found=False, is_open=True)


def read_planned(file: str, lines: Iterable[str], bodies: Sequence[Body]) -> tuple[FixedHistory, Jobs]:
    """Return the jobs of a table, and a history of the cluster in which they would have an end.

    Raises QuestionError, with a line for each cell that is wrong.
    """
    rows = csv.DictReader(lines)
    names = rows.fieldnames or ()
    problems = [f"no column {shown(name)}: add it" for name in _REQUIRED if name not in names]
    choice = ", ".join(COLUMNS)
    problems += [f"column {shown(name)}: choose from {choice}" for name in names if name not in COLUMNS]
    if problems:
        raise QuestionError("\n".join(f"{file}, line 1: {each}" for each in problems))
    table = _Table(file, bodies)
    jobs = sorted([table.read_job(rows.line_num, row) for row in rows], key=lambda job: job.arrival)
    if table.errors or not jobs:
        raise QuestionError("\n".join(table.errors) or f"{file}: has no job: write one a line")
    # By then each of them would have run after all others.
    until = jobs[-1].arrival + sum(job.duration or 0 for job in jobs) + MICRO
    return FixedHistory(bodies, Span(jobs[0].arrival, until)), Jobs(jobs, Counter())


class _Table:
    """Reads the lines of a table, and keeps what is wrong with them."""

    def __init__(self, file: str, bodies: Sequence[Body]) -> None:
        self.errors: list[str] = []
        self._file = file
        self._state = build_state(Moment(0, tuple(bodies), {}, ""))
        self._capacities: dict[str, str] = {}
        classes: Mapping[str, DeviceClass] = self._state.inventory.classes
        self._shapes = Shapes((), classes.values())
        self._line, self._cells = 0, dict[str, str]()

    def read_job(self, line: int, row: Mapping[str, str | list[str] | None]) -> Job:
        """Return the job of a line."""
        self._line = line
        self._cells = {name: value.strip() for name, value in row.items() if isinstance(value, str)}
        if None in row:
            self._add("has more cells than columns: put double quotes around what has a comma in it")
        name = self._read("name", str, "")
        arrival = self._read("arrival", _arrival, 0)
        duration = self._read("duration", _seconds, None)
        device_class = self._read("class", self._class, "")
        asked = {"cpu": self._read("cpu", _amount, ""), "memory": self._read("memory", _amount, "")}
        containers = [
            {"name": "job", "resources": {"requests": {key: each for key, each in asked.items() if each}}}
        ]
        pod = _body("Pod", name, {"containers": containers})
        claim = _body("ResourceClaim", name, {"devices": {"requests": [self._request(device_class)]}})
        shape = self._shapes.find(Lifetime(pod, claims=[("", Lifetime(claim))]))
        return Job(name, _NAMESPACE, device_class, shape, arrival, None, duration, 0, "", (), is_old=False)

    def _request(self, device_class: str) -> Body:
        exactly: dict[str, Any] = {"deviceClassName": device_class, "count": self._read("devices", _count, 1)}
        if selector := self._read("selector", _selector, ""):
            exactly["selectors"] = [{"cel": {"expression": selector}}]
        if (amount := self._read("amount", _amount, "")) and device_class:
            if device_class not in self._capacities:
                self._capacities[device_class] = _first_capacity(self._state, device_class)
            if not (capacity := self._capacities[device_class]):
                self._add(f"amount {shown(amount)}: no device of the class has a capacity: leave it empty")
            exactly["capacity"] = {"requests": {capacity: amount}}
        return {"name": "device", "exactly": exactly}

    def _class(self, name: str) -> str:
        if name not in (known := self._state.inventory.classes):
            near = near_object(name, known)
            meant = f'did you mean "{near}"?' if near else "give its manifest with -f"
            raise ValueError(f"there is no such DeviceClass: {meant}")
        return name

    def _read(self, column: str, read: Callable[[str], _Value], default: _Value) -> _Value:
        """Return what a cell says; one that is empty, or wrong, has a default."""
        text = self._cells.get(column, "")
        if not text:
            if column in _REQUIRED:
                self._add(f"{column} is empty: fill it in")
            return default
        try:
            return read(text)
        except CelError as error:
            self._add(f"{column} {shown(text)}: {describe(text, error)}")
        except ValueError as error:
            self._add(f"{column} {shown(text)}: {error}")
        return default

    def _add(self, problem: str) -> None:
        self.errors.append(f"{self._file}, line {self._line}: {problem}")


def _body(kind: str, name: str, spec: Body) -> Body:
    return {"kind": kind, "metadata": {"name": name, "namespace": _NAMESPACE}, "spec": spec}


def _first_capacity(state: ClusterState, device_class: str) -> str:
    """Return the first capacity of the first device of a class; empty if it has none."""
    requests = [{"name": "device", "exactly": {"deviceClassName": device_class}}]
    claim = read_object(_body("ResourceClaim", "first", {"devices": {"requests": requests}}))
    explainer = state.explainers[Decider.KUBE_SCHEDULER]
    for _, found in explainer.find_devices(claim, decider=Decider.KUBE_SCHEDULER):
        slice_ = found.slice_.slice_
        for index in bits.each(found.left):
            return next(iter(slice_.capacity_of(index)), "")
    return ""


def _seconds(text: str) -> int:
    """Return seconds as microseconds."""
    try:
        found = float(text)
    except ValueError:
        found = -1
    if not 0 <= found < _MOST_SECONDS:
        raise ValueError("is no number of seconds: write 3600, or leave it empty for a job that stays")
    return round(found * MICRO)


def _arrival(text: str) -> int:
    """Return a time in microseconds, of seconds or as Kubernetes writes it."""
    for seconds in (text, str(seconds_of(text))):
        with suppress(ValueError):
            return _seconds(seconds)
    raise ValueError("is no time: write seconds, or 2026-05-01T15:00:00Z")


def _amount(text: str) -> str:
    if parse_quantity(text).nano < 0:
        raise ValueError("is less than nothing: write an amount such as 500m or 16Gi")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_DEVICES:
        raise ValueError(f"is no number of devices of a claim: write one from 1 to {MAX_DEVICES}")
    return int(text)


def _selector(text: str) -> str:
    compile_selector(text)
    return text
