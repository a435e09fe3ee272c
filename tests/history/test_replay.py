"""Replays: in small random histories they are what a simulation comes to that tries everything at every event."""

import json
from argparse import Namespace
from collections import Counter

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app
from dra_operator.history.jobs import read_jobs
from dra_operator.history.reader import Reader, Span
from dra_operator.history.replay import Replay
from dra_operator.history.schema import MICRO, open_store
from dra_operator.history.timeline import ChangedHistory, Changes
from dra_operator.history.writer import Change, Writer
from factories import allocation, claim, device_class, pod, resource_slice, result
from replayfuzz.__main__ import check

from .histories import node


@pytest.mark.parametrize("seed", range(20))
def test_replay_is_what_trying_everything_comes_to(seed):
    """Each job runs when, where and with the devices that a simulation gives it which keeps nothing."""
    assert check(f"test {seed}", Namespace(), Counter()) == []


@pytest.fixture
def history(tmp_path):
    """Return the URL of a record: one card on node-1, for which four jobs wait in turn, ten seconds each."""
    url = f"sqlite:///{tmp_path}/history.db"
    writer = Writer(open_store(url, create=True))
    changes = [
        Change(0, (body["kind"], "", body["metadata"]["name"]), body["metadata"]["name"], "1", body)
        for body in (node("node-1"), device_class(), card("node-1"))
    ]
    writer.commit(changes, 0)
    happenings = [
        change
        for number in range(4)
        for change in (*job(number, number + 1, 1 + 10 * number), *ended(number, 11 + 10 * number))
    ]
    writer.commit(sorted(happenings, key=lambda change: change.at), 60 * MICRO)
    return url


def card(name):
    """A slice with one card."""
    return resource_slice(f"slice-{name}", [{"name": "gpu-0"}], pool=name)


def _change(at, body):
    metadata = body["metadata"]
    key = body["kind"], metadata.get("namespace", ""), metadata["name"]
    return Change(at * MICRO, key, metadata.get("uid", "1"), str(hash(str(body))), body)


def job(number, at, started):
    """A pod that gets the card, with its claim, from when it comes until it has a node."""
    names = {"namespace": "team-a", "creationTimestamp": f"1970-01-01T00:00:{at:02}Z"}
    asked = claim(f"claim-{number}", uid=f"claim-{number}", **names)
    body = pod(
        f"pod-{number}", {"name": "gpu", "resourceClaimName": f"claim-{number}"}, uid=f"pod-{number}", **names
    )
    yield _change(at, asked)
    yield _change(at, body)
    status = {"allocation": allocation(result())}
    if started == at:
        yield _change(started, {**asked, "status": status})
    yield _change(started, {**body, "spec": {**body["spec"], "nodeName": "node-1"}})


def ended(number, at):
    """The end of a pod and its claim."""
    for kind in ("Pod", "ResourceClaim"):
        yield Change(at * MICRO, (kind, "team-a", f"{kind.lower().removeprefix('resource')}-{number}"))


def ask(url, *arguments):
    """Return the answer of the verb as JSON."""
    command = [
        "replay",
        "--history",
        url,
        "--since",
        "1970-01-01T00:00:00Z",
        "-o",
        "json",
        *map(str, arguments),
    ]
    found = CliRunner().invoke(app, command)
    return found.exit_code, json.loads(found.stdout)


def test_another_card_halves_the_waits(history, tmp_path):
    """The replay waits as the record did, and with another node with a card, given by a file, jobs run side by side."""
    file = tmp_path / "more.yaml"
    file.write_text(yaml.safe_dump_all([node("node-2"), card("node-2")]))

    code, answer = ask(history, "--with", file)

    rows = {row["source"]: row for row in answer["items"] if not row.get("namespace")}
    assert code == 0
    assert rows["record"]["p90"] == rows["replay"]["p90"] == 27
    assert rows["changed"]["p90"] == 8
    assert rows["changed"]["held"] == rows["replay"]["held"]
    published = {each["source"]: each["published"] for each in answer["cards"]}
    assert published["changed"] == pytest.approx(2 * published["replay"], rel=1e-3)


def test_without_the_node_nothing_runs(history):
    """What is taken away serves nobody: all wait to the end."""
    _, answer = ask(history, "--without", "node/node-1")

    (row,) = [each for each in answer["items"] if each["source"] == "changed" and not each.get("namespace")]
    assert row["unserved"] == row["waits"] == 4
    (waiting,) = answer["unserved"]
    assert (waiting["jobs"], waiting["reason"]) == (4, "NoNodes")


def test_an_empty_file_is_refused(history, tmp_path):
    """A file without an object would read as a change that makes no difference."""
    file = tmp_path / "empty.yaml"
    file.write_text("# later\n")
    found = CliRunner().invoke(
        app, ["replay", "--history", history, "--since", "1970-01-01T00:00:00Z", "--with", str(file)]
    )
    assert found.exit_code == 2
    assert "empty.yaml has no object" in found.output


def test_a_file_of_something_else_is_refused(history, tmp_path):
    """Of what cannot be changed the kinds are named that can."""
    file = tmp_path / "claim.yaml"
    file.write_text(yaml.safe_dump(claim()))
    found = CliRunner().invoke(
        app, ["replay", "--history", history, "--since", "1970-01-01T00:00:00Z", "--with", str(file)]
    )
    assert found.exit_code == 2
    assert "choose from Node, ResourceSlice" in found.output


def test_what_ran_before_keeps_its_devices_if_they_are_there(tmp_path):
    """Pod and claim that have the second cards when the span begins keep them; without these they get the first one."""
    url = f"sqlite:///{tmp_path}/history.db"
    writer = Writer(open_store(url, create=True))
    names = {"namespace": "team-a", "creationTimestamp": "1970-01-01T00:00:01Z"}
    asked, alone = (claim(name, uid=name, **names) for name in ("asked", "alone"))
    user = pod("user", {"name": "gpu", "resourceClaimName": "asked"}, uid="user", **names)
    cards = [{"name": f"gpu-{number}"} for number in range(3)]
    there = [node("node-1"), device_class(), resource_slice("slice-1", cards)]
    bodies = [
        *there,
        {**user, "spec": {**user["spec"], "nodeName": "node-1"}},
        {**asked, "status": {"allocation": allocation(result("gpu-1"))}},
        {**alone, "status": {"allocation": allocation(result("gpu-2"))}},
    ]
    writer.commit([_change(1, body) for body in bodies], MICRO)
    keys = (
        ("Pod", "team-a", "user"),
        ("ResourceClaim", "team-a", "asked"),
        ("ResourceClaim", "team-a", "alone"),
    )
    writer.commit([Change(30 * MICRO, key) for key in keys], 60 * MICRO)

    def replay(*added):
        history = ChangedHistory(Reader(open_store(url)), Changes(added))
        span = Span(5 * MICRO, 60 * MICRO)
        return {
            run.job.name: (run.started, run.ended, run.node, run.allocations[0].devices.results[0].device)
            for run in Replay(history, span, read_jobs(history, span).items).run()
        }

    assert replay() == {
        "user": (5 * MICRO, 30 * MICRO, "node-1", "gpu-1"),
        "alone": (5 * MICRO, 30 * MICRO, "", "gpu-2"),
    }
    # What is gone is asked for anew.
    assert replay(resource_slice("slice-1", cards[:2]))["alone"] == (5 * MICRO, 30 * MICRO, "node-1", "gpu-0")


def test_a_claim_that_no_pod_uses_is_a_job(tmp_path):
    """It has devices from when it comes, for as long as it had them by the record."""
    url = f"sqlite:///{tmp_path}/history.db"
    writer = Writer(open_store(url, create=True))
    there = [node("node-1"), device_class(), card("node-1")]
    writer.commit([_change(0, body) for body in there], 0)
    asked = claim("alone", namespace="team-a", uid="alone", creationTimestamp="1970-01-01T00:00:03Z")
    had = {**asked, "status": {"allocation": allocation(result())}}
    gone = Change(24 * MICRO, ("ResourceClaim", "team-a", "alone"))
    writer.commit([_change(3, asked), _change(4, had), gone], 60 * MICRO)

    history = ChangedHistory(Reader(open_store(url)), Changes())
    (job,) = read_jobs(history, history.span).items
    (run,) = Replay(history, history.span, [job]).run()

    assert job.shape.requirements is None
    assert (run.started, run.ended, run.node) == (3 * MICRO, 23 * MICRO, "node-1")
