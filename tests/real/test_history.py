"""`kubectl dra record` on the real control plane, with the rights of manifests/record, beside pods that come and go."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from controlplane.manifests import MANIFESTS
from dra_operator.api.text import seconds_of
from dra_operator.cli.snapshot import read_objects
from dra_operator.cluster.credentials import load_access
from dra_operator.cluster.session import ApiSession
from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import MICRO, StoreError, open_store
from history.histories import plain

from .watched_pods import Life, Watched, farthest, recorded_spans

log = logging.getLogger(__name__)
SETUP = ("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
PROGRAM = Path(sys.executable).with_name("kubectl-dra")
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
PODS, DEVICES = 8, 4
SECONDS = float(os.environ.get("SECONDS", "40"))
WITHIN = float(os.environ.get("WITHIN", "30"))
"""So many seconds a record may be off: a machine that has much to do is late."""
SNAPSHOTS = int(SECONDS / 12)


@pytest.fixture
def postgres():
    """Run Debian's PostgreSQL as the user postgres, and return the URL of a database."""
    if POSTGRES is None or os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("CI requires Debian's package postgresql, and to be root")
        pytest.skip("needs Debian's package postgresql, and root to become the user postgres")
    # Its user may not enter the folders of the tests.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    shutil.chown(folder, "postgres")

    def run(*command):
        subprocess.run(
            ["runuser", "-u", "postgres", "--", *command], check=True, capture_output=True, cwd="/"
        )

    run(POSTGRES / "initdb", "-D", folder, "--auth=trust", "--no-sync")
    run(
        POSTGRES / "pg_ctl",
        "-D",
        folder,
        "-w",
        "-l",
        folder / "log",
        "-o",
        f"-k {folder} -c listen_addresses=''",
        "start",
    )
    yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
    run(POSTGRES / "pg_ctl", "-D", folder, "-w", "-m", "immediate", "stop")
    shutil.rmtree(folder)


@pytest.fixture
def sqlite(tmp_path):
    """Return the URL of a file."""
    return f"sqlite:///{tmp_path}/history.db"


@pytest.fixture
def record(full_scene, full_control_plane, tmp_path):
    """Return a function that records to stores with the rights of manifests/record."""
    access = MANIFESTS / "record" / "access.yaml"
    full_control_plane.kubectl("apply", "-f", str(access))
    processes = []

    def start(*urls):
        config = full_control_plane.kubeconfig_for("dra-record", "dra-record")
        for url in urls:
            command = [PROGRAM, "record", "--to", url, "--kubeconfig", config]
            with (tmp_path / f"record-{len(processes)}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stderr=log))

    yield start
    for each in processes:
        each.terminate()
        assert each.wait(240) == 0
    full_control_plane.kubectl("delete", "-f", str(access))


def read(url, condition, client):
    """Wait until what a store has fulfils a condition, and return its reader."""
    found = []

    def is_there(_):
        try:
            found[:] = [Reader(open_store(url))]
        except StoreError:
            return False
        return condition(found[0])

    client.wait_for("/version", is_there, seconds=240, what="the record")
    return found[0]


def pod(number):
    """A pod with a claim of its own."""
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"project": "a"}},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"claim-{number}"}],
        },
    }


def check(url, scene, client):
    """Compare a record with what the API server has."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods"
    bound = {
        each["metadata"]["uid"]: each for each in client.get(path)["items"] if each["spec"].get("nodeName")
    }

    def is_told(reader):
        """Return whether the pods are bound, and their claims have had devices for a while."""
        rows = [*reader.read_states(Span(reader.span.until, reader.span.until + 1), "Pod", "ResourceClaim")]
        pods = {row.uid for row in rows if row.kind == "Pod" and row.body["spec"].get("nodeName")}
        held = [
            row
            for row in rows
            if row.kind == "ResourceClaim"
            and (row.body.get("status") or {}).get("allocation")
            and row.since < reader.span.until - 3 * MICRO
        ]
        return pods >= bound.keys() and len(held) == DEVICES

    reader = read(url, is_told, client)
    for row in reader.read_waits(reader.span):
        if row.uid in bound and not row.is_open and row.until < reader.span.until:
            (condition,) = [
                each for each in bound[row.uid]["status"]["conditions"] if each["type"] == "PodScheduled"
            ]
            # Conditions tell whole seconds, and a machine that has much to do is late.
            last = max(each.until for each in reader.read_waits(reader.span) if each.uid == row.uid)
            assert abs(last / MICRO - seconds_of(condition["lastTransitionTime"])) < 30
    answer = subprocess.run(
        [PROGRAM, "report", "--history", url, "-o", "json"], capture_output=True, text=True, check=True
    )
    report = json.loads(answer.stdout)
    names = {row["name"]: row for row in report["items"]}
    assert names[scene.namespace]["held"] > 0
    (period,) = report["periods"]
    states = [period.get(name, 0) for name in ("used", "shared", "free", "tainted", "blocked", "unknown")]
    assert sum(states) == pytest.approx(period["published"], abs=1e-5)
    claims = subprocess.run(
        [PROGRAM, "claims", "-A", "--history", url, "-o", "json"], capture_output=True, text=True, check=True
    )
    held = {item["name"] for item in json.loads(claims.stdout)["items"] if item.get("devices")}
    assert held == {
        each["metadata"]["name"]
        for each in scene.all_claims()
        if (each.get("status") or {}).get("allocation")
    }


@pytest.mark.timeout(1200)
def test_record_is_what_the_cluster_does(full_scene, sqlite, postgres, record):
    """Pods that kube-scheduler places are in both stores as the API server has them; those that wait have reasons."""
    client = full_scene.client
    full_scene.apply(*SETUP)
    record(sqlite, postgres)
    for url in (sqlite, postgres):
        read(url, lambda _: True, client)
    path = f"/api/v1/namespaces/{full_scene.namespace}/pods"
    for number in range(PODS):
        full_scene.create_claim(f"claim-{number}", "example-device-class")
        client.create(path, pod(number))
    client.wait_for(
        path,
        lambda found: sum(bool(each["spec"].get("nodeName")) for each in found["items"]) == DEVICES,
        seconds=240,
    )

    def has_reason(reader):
        return any(row.reason not in ("", "Gated") and row.is_open for row in reader.read_waits(reader.span))

    for url in (sqlite, postgres):
        read(url, has_reason, client)
        check(url, full_scene, client)


async def take_snapshot(plane):
    """Return the times before and after a snapshot, in microseconds, and its objects."""
    async with ApiSession(load_access(str(plane.admin_kubeconfig))) as session:
        before = time.time()
        bodies = (await read_objects(session)).bodies
        return round(before * MICRO), round(time.time() * MICRO), bodies


def texts_of(bodies):
    """Return objects as texts by kind, namespace and name."""
    names = [
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in bodies
    ]
    return {name: plain([body])[0] for name, body in zip(names, bodies, strict=True)}


def check_snapshot(reader, before, after, bodies):
    """Compare each object of a snapshot with those of the record around it; return whether it is one state of it."""
    span, options = Span(before, after + round(WITHIN * MICRO)), defaultdict(set)
    lasts, edges = defaultdict(int), {before}
    for row in reader.read_states(span):
        edges |= {at for at in (row.since, row.until) if before < at < span.until}
        if row.kind in ("Server", "Unread"):
            continue
        (key, text), *_ = texts_of([row.body]).items()
        options[key].add(text)
        lasts[key] += min(row.until, span.until) - max(row.since, span.since)
    taken = texts_of(bodies)
    for key in options.keys() | taken.keys():
        # One that came or went meanwhile may be missing.
        might_be_missing = lasts[key] < span.until - span.since
        assert taken[key] in options[key] if key in taken else might_be_missing, key
    return any(texts_of(reader.read_moment(at).bodies) == taken for at in edges)


@pytest.mark.timeout(SECONDS + 900)
def test_record_is_what_watchers_and_snapshots_saw(full_scene, full_control_plane, sqlite, postgres, record):
    """While pods come and go, both stores have each interval as a watcher saw it, and snapshots as they were taken."""
    client, namespace, random = full_scene.client, full_scene.namespace, Random(1)  # noqa: S311
    full_scene.apply(*SETUP)
    record(sqlite, postgres)
    for url in (sqlite, postgres):
        read(url, lambda _: True, client)
    watched, life, snapshots = Watched(client, namespace, SECONDS + 60), Life(client, namespace, SECONDS), []
    life.start()
    for _ in range(SNAPSHOTS):
        time.sleep(random.random() * 2 * SECONDS / SNAPSHOTS * 0.8)
        snapshots.append(asyncio.run(take_snapshot(full_control_plane)))
    life.join()
    assert life.error is None
    time.sleep(3)
    last = (time.time() + min(WITHIN, 3)) * MICRO
    for url in (sqlite, postgres):
        reader = read(url, lambda reader: reader.span.until > last, client)
        assert not reader.gaps
        off = farthest(recorded_spans(reader, namespace), watched.spans)
        equal = sum(check_snapshot(reader, *each) for each in snapshots)
        counts = {
            fact: sum(len(spans) for (each, _), spans in watched.spans.items() if each == fact)
            for fact in off
        }
        log.info("%s: intervals %s, off by at most %s s", url.partition(":")[0], counts, off)
        log.info("%d of %d snapshots are states of the record", equal, len(snapshots))
        assert max(off.values()) <= WITHIN
        command = [PROGRAM, "report", "--history", url, "-o", "json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        rows = {row["name"]: row for row in json.loads(answer.stdout)["items"]}
        until = reader.span.until / MICRO
        held = [
            (until if end is None else end) - since
            for (fact, _), each in watched.spans.items()
            if fact == "held"
            for since, end in each
        ]
        assert rows[namespace]["held"] * 3600 == pytest.approx(sum(held), abs=WITHIN * len(held))
