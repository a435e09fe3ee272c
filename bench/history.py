"""A month in a record: `python bench/history.py [URL] [--load 0.7] [--jobs 100000]`; how large it is, and the report.

1,000 nodes of 8 cards, on 100 of them each card is cut into 20 partitions; 60 shapes of claims, a pod for each claim
with three reasons to wait, pods without claims, changes of slices and nodes. The load is what is asked for of what the
devices serve. A tenth of the nodes has little cpu. The jobs start in their order where there is room, later ones first
if earlier ones do not fit. Times are of the processor; the last line is the peak of memory.
"""

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sqlalchemy import Engine, text

from dra_operator.history.jobs import read_jobs
from dra_operator.history.reader import Reader, time_text
from dra_operator.history.replay import Replay
from dra_operator.history.report import ReportQuery, make_report
from dra_operator.history.schema import MICRO, POD_SHAPE, POD_SUM, SERVER, open_store
from dra_operator.history.timeline import ChangedHistory, Changes
from dra_operator.history.writer import Change, WaitChange, Writer
from dra_operator.questions.kept_fields import trim
from factories import GPU, allocation, claim, device_class, manifest, pod, resource_slice, result

BEGIN: Final = 1_790_000_000
SECONDS: Final = 30 * 86400
CARDS: Final = 8
SIZES: Final = (1, 1, 1, 2, 2, 4, 8)
"""Cards, or eighths of one, that jobs ask for."""
CPU: Final = 4
"""For each card."""
MOST_DEVICES: Final = 64
"""Of a slice, for an API server, if they draw on counters."""
_COMMIT: Final = 3600
_REASONS: Final = (
    ("", ""),
    ("DevicesInUse", "no node has {} free devices of class gpu: 8 of 8 are in use on most"),
    ("NodeResources", "insufficient cpu on {} nodes with free devices"),
)


@dataclass(frozen=True, slots=True)
class Month:
    """How much happens in it."""

    load: float = 0.7
    jobs: int = 100_000
    residents: int = 600_000
    nodes: int = 1000
    cut: int = 100
    seed: int = 1


@dataclass(slots=True)
class Job:
    """A claim and its pod; -1 as a start: it waits until the month ends."""

    number: int
    size: int
    is_cut: bool
    created: float
    seconds: float
    started: float = -1
    node: int = 0
    devices: tuple[str, ...] = ()


def name_of_node(number: int) -> str:
    """Return the name of a node, which is that of its pool."""
    return f"node-{number:04}"


# --- who runs where


class _Fleet:
    """The free devices of the nodes: of a cut card as bits of eighths."""

    def __init__(self, month: Month) -> None:
        self._cut = month.cut
        self._cards = [set(range(CARDS)) for _ in range(month.nodes)]
        self._eighths = [[0] * CARDS for _ in range(month.cut)]
        self._cpu = [CPU * CARDS // (2 if number % 10 == 9 else 1) for number in range(month.nodes)]
        self._random = Random(month.seed)  # noqa: S311 - the same month each time

    def place(self, job: Job) -> bool:
        """Give a job devices of a node, if one has room."""
        first, last = (0, self._cut) if job.is_cut else (self._cut, len(self._cards))
        begin = self._random.randrange(first, last)
        for number in (*range(begin, last), *range(first, begin)):
            if self._cpu[number] < CPU * (1 if job.is_cut else job.size):
                continue
            if job.is_cut:
                found = self._cut_card(number, job.size)
            else:
                cards = self._cards[number]
                found = tuple(f"gpu-{card}" for card in sorted(cards)[: job.size])
                found = found if len(found) == job.size else ()
                cards -= {int(each[4:]) for each in found}
            if found:
                job.node, job.devices = number, found
                self._cpu[number] -= CPU * len(found)
                return True
        return False

    def _cut_card(self, number: int, size: int) -> tuple[str, ...]:
        for card, used in enumerate(self._eighths[number]):
            for start in range(0, CARDS, size):
                bits = (1 << size) - 1 << start
                if not used & bits:
                    self._eighths[number][card] |= bits
                    return (f"gpu-{card}-{size}g-{start}",)
        return ()

    def free(self, job: Job) -> None:
        """Take the devices of a job back."""
        self._cpu[job.node] += CPU * len(job.devices)
        for each in job.devices:
            _, card, *part = each.split("-")
            if part:
                bits = (1 << int(part[0][:-1])) - 1 << int(part[1])
                self._eighths[job.node][int(card)] &= ~bits
            else:
                self._cards[job.node].add(int(card))


def plan_jobs(month: Month) -> list[Job]:
    """Return the jobs of a month: when they were created and started, and what they had."""
    random = Random(month.seed)  # noqa: S311
    jobs = []
    for number in range(month.jobs):
        is_cut = bool(month.cut) and random.random() < month.cut / month.nodes
        jobs.append(
            Job(number, random.choice(SIZES), is_cut, random.random() * SECONDS, random.expovariate(1))
        )
    jobs.sort(key=lambda job: job.created)
    for is_cut in (False, True):
        chosen = [job for job in jobs if job.is_cut is is_cut]
        cards = (month.cut if is_cut else month.nodes - month.cut) * CARDS
        asked = sum(job.seconds * job.size / (8 if is_cut else 1) for job in chosen)
        for job in chosen:
            job.seconds = max(job.seconds * month.load * cards * SECONDS / asked, 60.0)
    _start(jobs, _Fleet(month))
    return jobs


def _start(jobs: list[Job], fleet: _Fleet) -> None:
    ends: list[tuple[float, int, Job]] = []
    waiting: dict[tuple[bool, int], list[Job]] = defaultdict(list)
    for job in jobs:
        while ends and ends[0][0] <= job.created:
            at, _, ended = heappop(ends)
            fleet.free(ended)
            for (is_cut, _), queue in waiting.items():
                while is_cut is ended.is_cut and queue and fleet.place(queue[0]):
                    queue[0].started = at + 1
                    heappush(ends, (at + 1 + queue[0].seconds, queue[0].number, queue.pop(0)))
        queue = waiting[job.is_cut, job.size]
        if not queue and fleet.place(job):
            job.started = job.created + 3
            heappush(ends, (job.started + job.seconds, job.number, job))
        else:
            queue.append(job)


# --- objects


def _stamp(at: float) -> str:
    return time_text(round((BEGIN + at) * MICRO) // MICRO * MICRO)


def _node(number: int, change: int) -> dict[str, Any]:
    name = name_of_node(number)
    labels = {"kubernetes.io/hostname": name, "rack": f"r{number // 8}", "image": f"v{change // 4}"}
    cpu = CPU * CARDS // (2 if number % 10 == 9 else 1)
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": str(cpu + 8), "memory": "1Ti", "pods": "110"},
    }
    return manifest(
        "Node", name, {"unschedulable": True} if change % 4 == 2 else {}, status=status, labels=labels
    )


def _devices(number: int, month: Month, change: int) -> list[dict[str, Any]]:
    found = []
    for card in range(CARDS):
        taints = [{"key": "hot", "effect": "NoSchedule"}] if change % 2 and card == change % CARDS else []
        attributes = {"model": {"string": "a100"}, "driverVersion": {"version": f"1.{change // 3}.0"}}
        common = {"attributes": attributes, **({"taints": taints} if taints else {})}
        if number >= month.cut:
            capacity = {"memory": {"value": "80Gi"}}
            found.append({"name": f"gpu-{card}", "capacity": capacity, **common})
            continue
        parts = [(size, start, "") for size in (1, 2, 4, 8) for start in range(0, 8, size)]
        for size, start, suffix in (*parts, *((1, start, "-me") for start in range(5))):
            counters = {"memory": {"value": f"{10 * size}Gi"}}
            counters |= {f"slice-{each}": {"value": "1"} for each in range(start, start + size)}
            found.append(
                {
                    "name": f"gpu-{card}-{size}g-{start}{suffix}",
                    "capacity": {"memory": {"value": f"{10 * size}Gi"}},
                    "consumesCounters": [{"counterSet": f"card-{card}", "counters": counters}],
                    **common,
                }
            )
    return found


def _slices(number: int, month: Month, change: int) -> Iterator[dict[str, Any]]:
    """Yield the slices of a node; each change is a generation."""
    pool, devices = name_of_node(number), _devices(number, month, change)
    kept = {"uid": f"slice-{number}", "creationTimestamp": _stamp(0)}
    if number >= month.cut:
        body = resource_slice(f"{pool}-0", devices, pool=pool, generation=change + 1)
        yield {**body, "metadata": {**body["metadata"], **kept}}
        return
    counters = {"memory": {"value": "80Gi"}, **{f"slice-{each}": {"value": "1"} for each in range(8)}}
    sets = [{"name": f"card-{card}", "counters": counters} for card in range(CARDS)]
    starts = range(0, len(devices), MOST_DEVICES)
    parts = [*(devices[start : start + MOST_DEVICES] for start in starts), []]
    for part, chosen in enumerate(parts):
        body = resource_slice(f"{pool}-{part}", chosen, pool=pool, generation=change + 1, count=len(parts))
        if not chosen:
            del body["spec"]["devices"]
            body["spec"]["sharedCounters"] = sets
        yield {**body, "metadata": {**body["metadata"], **kept, "uid": f"slice-{number}-{part}"}}


def _claim(job: Job, step: str) -> dict[str, Any]:
    name, team = f"job-{job.number}-gpu", f"team-{job.number % 40}"
    shape = {"name": "gpu", "exactly": {"deviceClassName": f"size-{job.size}" if job.is_cut else "gpu"}}
    if not job.is_cut and job.size > 1:
        shape["exactly"]["count"] = job.size
    if shade := job.number % (7 if job.is_cut else 8):
        shape["exactly"]["selectors"] = [
            {"cel": {"expression": f'device.attributes["{GPU}"].model != "model-{shade}"'}}
        ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name[:-4], "uid": f"pod-{job.number:032}"}
    kept = {"uid": f"claim-{job.number:030}", "creationTimestamp": _stamp(job.created)}
    body = claim(name, shape, namespace=team, ownerReferences=[{**owner, "controller": True}], **kept)
    if step == "created":
        return body
    body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    if step == "allocated":
        node = name_of_node(job.node)
        results = [result(each, node) for each in job.devices]
        told = allocation(*results, node=node, allocationTimestamp=_stamp(job.started))
        users = [{"resource": "pods", "name": name[:-4], "uid": owner["uid"]}]
        body["status"] = {"allocation": told, "reservedFor": users}
        fields = {"f:status": {"f:allocation": {}, "f:reservedFor": {}}}
        entry = {"manager": "kube-scheduler", "operation": "Update", "subresource": "status"}
        body["metadata"]["managedFields"] = [{**entry, "time": _stamp(job.started), "fieldsV1": fields}]
    return body


def _pod(job: Job, step: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{job.number // 5}", "controller": True}
    name, team = f"job-{job.number}", f"team-{job.number % 40}"
    kept = {"uid": f"pod-{job.number:032}", "creationTimestamp": _stamp(job.created)}
    labels = {"project": f"p{job.number % 300}", "batch.kubernetes.io/job-name": owner["name"]}
    entry = {"name": "gpu", "resourceClaimTemplateName": f"shape-{job.number % 60}"}
    body = pod(
        name, entry, namespace=team, labels=labels, ownerReferences=[{**owner, "uid": owner["name"]}], **kept
    )
    cpu = str(CPU * (1 if job.is_cut else job.size))
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": cpu, "memory": "8Gi"}, "claims": [{"name": "gpu"}]},
    }
    body["spec"]["containers"] = [container]
    times = {"created": job.created, "bound": job.started, "running": job.started + 4}
    at = _stamp(times.get(step, job.started + job.seconds))
    flag = "False" if step == "created" else "True"
    conditions = [{"type": "PodScheduled", "status": flag, "lastTransitionTime": at}]
    if step != "created":
        body["spec"]["nodeName"] = name_of_node(job.node)
        names = ("Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers")
        is_ready = "True" if step == "running" else "False"
        conditions += [{"type": each, "status": is_ready, "lastTransitionTime": at} for each in names]
    phase = {"running": "Running", "ended": "Succeeded"}.get(step, "Pending")
    named = [{"name": "gpu", "resourceClaimName": f"job-{job.number}-gpu"}]
    body["status"] = {"phase": phase, "conditions": conditions, "resourceClaimStatuses": named}
    return body


# --- what happens


def _at(seconds: float) -> int:
    return round((BEGIN + seconds) * MICRO)


def _put(at: float, body: dict[str, Any], version: str, *, labels: bool = False) -> Change:
    kept, metadata = trim(body), body["metadata"]
    if kept is not None and labels:
        # As the recorder does.
        kept = {**kept, "metadata": {**kept["metadata"], "labels": metadata["labels"]}}
    key = body["kind"], metadata.get("namespace", ""), metadata["name"]
    return Change(_at(at), key, metadata.get("uid", metadata["name"]), version, kept)


def _of_job(job: Job, step: int) -> Iterator[Change | WaitChange]:
    at = _times(job)[step]
    name, team = f"job-{job.number}", f"team-{job.number % 40}"
    pod_key, claim_key = ("Pod", team, name), ("ResourceClaim", team, f"{name}-gpu")
    uid = f"pod-{job.number:032}"
    if step == 0:
        yield _put(at, _pod(job, "created"), "1", labels=True)
        yield _put(at, _claim(job, "created"), "1")
    if step <= 2:
        reason, message = _REASONS[step]
        yield WaitChange(_at(at), pod_key, uid, reason, message.format(job.size), _at(job.created))
    elif step == 3:
        yield _put(at, _claim(job, "reserved"), "2")
        yield _put(at, _claim(job, "allocated"), "3")
        yield _put(at, _pod(job, "bound"), "2", labels=True)
        yield WaitChange(_at(at), pod_key, uid, None)
    elif step == 4:
        yield _put(at, _pod(job, "running"), "3", labels=True)
    elif step == 5:
        yield _put(at, _pod(job, "ended"), "4", labels=True)
        yield _put(at, _claim(job, "reserved"), "4")
    else:
        yield Change(_at(at), pod_key)
        yield Change(_at(at), claim_key)


def _times(job: Job) -> tuple[float, ...]:
    """Return when a job was created, found its reasons, started, ran, ended, and was deleted."""
    if job.started < 0:
        return job.created, job.created + 1, job.created + 60
    third = (job.started - job.created) / 3
    end = job.started + job.seconds
    return (
        job.created,
        job.created + third,
        job.created + 2 * third,
        job.started,
        job.started + 4,
        end,
        end + 60,
    )


_SHAPES: Final = 200


def _shape(number: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 * (number % 5 + 1)}m", "memory": "256Mi"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    body = manifest("Pod", "", spec, status={"phase": "Running"}, namespace=f"team-{number % 40}")
    return {**body, "metadata": {"namespace": body["metadata"]["namespace"]}}


def happenings(month: Month, jobs: Iterable[Job]) -> Iterator[Change | WaitChange]:
    """Yield the changes of a month in their order."""
    random = Random(month.seed + 1)  # noqa: S311
    for name in ("gpu", *(f"size-{size}" for size in (1, 2, 4, 8))):
        yield _put(0, device_class(name), "1")
    yield Change(
        _at(0),
        (SERVER, "", "kubernetes"),
        body={"kind": SERVER, "metadata": {}, "spec": {"version": "v1.37.0"}},
    )
    digests = [f"{each * 0x9E3779B97F4A7C15 % 2**64:016x}" for each in range(1, _SHAPES + 1)]
    for number, digest in enumerate(digests):
        yield Change(
            _at(0), (POD_SHAPE, "", digest), body={"kind": POD_SHAPE, "metadata": {}, "spec": _shape(number)}
        )
    events: list[tuple[float, int, Any]] = [
        (at, step, job) for job in jobs for step, at in enumerate(_times(job)) if at < SECONDS
    ]
    for number in range(month.nodes):
        events += [(0 if not each else random.random() * SECONDS, -2, number) for each in range(21)]
        events += [(0 if not each else random.random() * SECONDS, -3, number) for each in range(11)]
    for _ in range(month.residents):
        node, shape, at = random.randrange(month.nodes), random.choice(digests), random.random() * SECONDS
        # They are counted at most once a minute.
        ends = at + random.expovariate(1 / 7200)
        events += [(at // 60 * 60, -1, (node, shape, 1)), (ends // 60 * 60, -1, (node, shape, -1))]
    events = [event for event in events if event[0] < SECONDS]
    events.sort(key=lambda event: event[:2])
    # Daemons, which are always there.
    sums = [Counter(digests[:8]) for _ in range(month.nodes)]
    changes = Counter[tuple[int, int]]()
    touched = {(node, shape) for node in range(month.nodes) for shape in digests[:8]}
    minute = 0.0
    for at, step, what in events:
        if touched and at >= minute + 60:
            yield from _sums(minute, sums, touched)
            touched.clear()
        minute = at // 60 * 60
        if step >= 0:
            yield from _of_job(what, step)
        elif step == -1:
            node, shape, number = what
            sums[node][shape] += number
            touched.add((node, shape))
        else:
            change = changes[step, what]
            changes[step, what] += 1
            bodies = [_node(what, change)] if step == -2 else _slices(what, month, change)
            for body in bodies:
                yield _put(at, body, str(change))


def _sums(at: float, sums: list[Counter[str]], touched: Iterable[tuple[int, str]]) -> Iterator[Change]:
    for node, shape in sorted(touched):
        name, number = f"{name_of_node(node)}/{shape}", sums[node][shape]
        body = {"kind": POD_SUM, "metadata": {"name": name}, "spec": {shape: number}}
        yield Change(_at(at), (POD_SUM, "", name), body=body if number else None)


def fill(engine: Engine, month: Month) -> list[Job]:
    """Write a month into a store, and return its jobs."""
    jobs, writer = plan_jobs(month), Writer(engine)
    batch: list[Change | WaitChange] = []
    until = _at(_COMMIT)
    for change in happenings(month, jobs):
        if change.at >= until:
            writer.commit(batch, until - 1)
            batch, until = [], until + _COMMIT * MICRO
        batch.append(change)
    writer.commit(batch, _at(SECONDS))
    return jobs


def _megabytes(engine: Engine) -> float:
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
        return Path(engine.url.database or "").stat().st_size / 1e6
    with engine.connect() as connection:
        return float(connection.scalar(text("select pg_database_size(current_database())"))) / 1e6


def _replay(reader: Reader) -> None:
    """Replay the month, and print what it took and how many jobs waited at most at a time."""
    begun, span = time.process_time(), reader.span
    history = ChangedHistory(reader, Changes())
    jobs = read_jobs(history, span)
    read = time.process_time()
    runs = Replay(history, span, jobs.items).run()
    done = time.process_time()
    started = {run.job: run.started for run in runs}
    steps = [(job.arrival, 1) for job in jobs.items]
    steps += [(at, -1) for at in started.values()]
    most = max(accumulate(step for _, step in sorted(steps)))
    shapes = len({job.shape for job in jobs.items})
    print(
        f"replay: {done - begun:.0f} s, {read - begun:.0f} s to read {len(jobs.items):,} jobs of {shapes} shapes; "
        f"{len(runs):,} ran, at most {most:,} waited"
    )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--residents", type=int, default=600_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--report", action="store_true", help="of a store that is there")
    parser.add_argument("--replay", action="store_true", help="replay it, and no report")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(given.url or f"{folder}/month.db", create=not given.report)
        if not given.report:
            begun = time.process_time()
            jobs = fill(
                engine, Month(given.load, given.jobs, given.residents, given.nodes, given.nodes // 10)
            )
            waits = [job.started - job.created for job in jobs if job.started >= 0]
            print(
                f"{len(jobs):,} jobs in {time.process_time() - begun:.0f} s, longest wait {max(waits):,.0f} s"
            )
        print(f"{_megabytes(engine):,.0f} MB")
        # The plugin does without, too.
        gc.disable()
        begun, reader = time.process_time(), Reader(engine)
        if given.replay:
            _replay(reader)
            return
        report = make_report(reader, ReportQuery(reader.span))
        held = float(sum(row.held for row in report.rows))
        print(
            f"report: {time.process_time() - begun:.1f} s, {held:,.0f} card-hours held, {len(report.rows)} rows"
        )
        print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    _main()
