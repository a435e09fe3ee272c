"""Recorded decisions decided again: what is the same, what was only stored in another order, and what differs why."""

import json

import pytest
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app
from dra_operator.history.check import IN_GAP, REORDERED, check_decisions
from dra_operator.history.reader import Reader
from dra_operator.history.schema import MICRO, open_store
from dra_operator.history.writer import Change, Writer
from factories import GPU, allocation, claim, device_class, pod, request, resource_slice, result, selectors

from .histories import node

END = 300
TAINT = {"key": "hot", "effect": "NoSchedule"}


def change(at, body):
    """An object as it is from a time on."""
    metadata = body["metadata"]
    key = body["kind"], metadata.get("namespace", ""), metadata["name"]
    return Change(round(at * MICRO), key, metadata["name"], str(hash(str(body))), body)


def cards(number=3, *, tainted=(), generation=1):
    """A slice of some cards, of which some are tainted."""
    devices = [
        {
            "name": f"gpu-{each}",
            "attributes": {"number": {"int": each}},
            "taints": [TAINT] if each in tainted else [],
        }
        for each in range(number)
    ]
    return resource_slice("slice-1", devices, generation=generation)


def parts():
    """A slice of another pool of the node."""
    devices = [{"name": "part-0", "attributes": {"kind": {"string": "part"}}}]
    return resource_slice("slice-2", devices, pool="node-1-parts", nodeName="node-1")


def job(name, created, stored, *results, ended=None, requests=(), alone=False):
    """Yield how a pod with a claim comes, gets a node and devices, and goes; alone: how a claim does."""
    names = {
        "namespace": "team-a",
        "creationTimestamp": f"1970-01-01T00:{created // 60:02}:{created % 60:02}Z",
    }
    results = [result(each) if isinstance(each, str) else each for each in results]
    asked = claim(name, *requests, uid=name, **names)
    yield change(created, asked)
    yield change(stored, {**asked, "status": {"allocation": allocation(*results)}})
    user = pod(f"pod-{name}", {"name": "gpu", "resourceClaimName": name}, uid=f"pod-{name}", **names)
    if not alone:
        yield change(created, user)
        yield change(stored, {**user, "spec": {**user["spec"], "nodeName": "node-1"}})
    if ended is not None:
        yield Change(round(ended * MICRO), ("ResourceClaim", "team-a", name))


@pytest.fixture
def url(tmp_path):
    """The URL of a store."""
    return f"sqlite:///{tmp_path}/history.db"


@pytest.fixture
def check(url):
    """Return a function that checks what happens on a node with cards; without slices there are three."""

    def check(*happenings, slices=None, gap=None):
        writer = Writer(open_store(url, create=True))
        there = [node("node-1"), device_class(), *([cards()] if slices is None else slices)]
        writer.commit([change(0, body) for body in there], 0)
        changes = sorted((each for jobs in happenings for each in jobs), key=lambda each: each.at)
        if gap is not None:
            writer.commit([], gap[0] * MICRO)
            writer.commit([change(gap[1], body) for body in there], gap[1] * MICRO, is_gap=True)
        writer.commit(changes, END * MICRO)
        reader = Reader(open_store(url))
        return check_decisions(reader, reader.span)

    return check


def differences(report):
    """Return the claims that differ, with the sort."""
    return [(each.claims, each.difference) for each in report.differences]


def test_what_is_decided_in_order_is_the_same(check, url):
    """Pods and a claim that no pod uses get the first card that is free, also one that came back; exit code 0."""
    report = check(
        job("a", 1, 2, "gpu-0", ended=20),
        job("b", 2, 3, "gpu-1", alone=True),
        job("c", 5, 6, "gpu-2"),
        job("d", 7, 21, "gpu-0"),
    )

    assert (report.decisions, report.same, report.differences, report.counts) == (4, 4, (), {})
    command = ["replay", "--history", url, "--since", "1970-01-01T00:00:00Z", "--check", "-o", "json"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0
    assert json.loads(found.stdout)["same"] == 4


def test_what_is_stored_later_may_be_made_earlier(check):
    """The first two cards were given away before the third, and stored after it."""
    report = check(job("a", 1, 4, "gpu-0"), job("b", 1, 5, "gpu-1"), job("c", 1, 3, "gpu-2"))

    assert (report.same, report.counts) == (3, {REORDERED: 2})


def only(number):
    """A request for one card alone."""
    return request("gpu", "gpu", f'device.attributes["{GPU}"].number == {number}')


def test_no_more_is_made_earlier_than_is_needed(check):
    """Of two that could have been made before another, only the one that made a difference to it was."""
    report = check(
        job("early", 1, 3, "gpu-1"),
        job("aside", 1, 4, "gpu-2", requests=[only(2)]),
        job("first", 1, 5, "gpu-0"),
    )

    assert (report.same, report.counts) == (3, {REORDERED: 1})


def test_where_none_explains_it_none_is_made_earlier(check):
    """A card that one job has later is not given to it while another one has it."""
    report = check(
        job("a", 1, 2, "gpu-0", ended=2.9),
        job("released", 1, 3, "gpu-1"),
        [change(5, cards(tainted=(0,)))],
        job("between", 6, 7, "gpu-2", ended=9),
        job("later", 1, 30, "gpu-2", requests=[only(2)]),
    )

    assert (differences(report), report.counts) == ([("team-a/released", "Released")], {})


def test_what_came_later_was_not_made_earlier(check):
    """A job that was not there yet is no reason for leaving out a card."""
    report = check(job("a", 1, 3, "gpu-1"), job("b", 5, 6, "gpu-0"))

    assert differences(report) == [("team-a/a", "Other")]


def test_a_card_in_another_pool_was_given_away_earlier(check):
    """What a job got elsewhere on the node can be why another one got its second choice."""
    either = {
        "name": "gpu",
        "firstAvailable": [
            {"name": name, "deviceClassName": "gpu", "selectors": selectors(f"{sign}has({kind})")}
            for kind in [f'device.attributes["{GPU}"].kind']
            for name, sign in (("card", "!"), ("part", ""))
        ],
    }
    part = result("part-0", "node-1-parts", request="gpu/part")

    report = check(
        job("second", 1, 3, part, requests=[either]),
        job("first", 1, 4, "gpu-0", requests=[request()]),
        slices=[cards(1), parts()],
    )

    assert (report.same, report.counts) == (2, {REORDERED: 1})


def test_what_is_nearest_in_time_explains_it(check):
    """Both came back and were given away later: what came back just before counts, and holds nothing up."""
    report = check(
        job("a", 1, 2, "gpu-0", ended=10),
        job("b", 1, 10.5, "gpu-1"),
        job("c", 11, 12, "gpu-0", ended=13),
        job("d", 1, 30, "gpu-0"),
    )

    assert (differences(report), report.counts) == ([("team-a/b", "Released")], {})


def test_released_is_what_was_not_heard_of(check):
    """The first card was given back just before, and the second one given: of that the scheduler had not heard."""
    report = check(job("a", 1, 2, "gpu-0", ended=10), job("b", 3, 11, "gpu-1"))

    assert differences(report) == [("team-a/b", "Released")]
    (difference,) = report.differences
    assert (difference.recorded, difference.decided) == (("node-1/gpu-1",), ("node-1/gpu-0",))


def test_released_a_while_ago_was_heard_of(check):
    """What came back more than a minute before is free."""
    report = check(job("a", 1, 2, "gpu-0", ended=10), job("b", 3, 71, "gpu-1"))

    assert differences(report) == [("team-a/b", "Other")]


def test_changed_is_what_the_cluster_was_just_before(check):
    """The first card was tainted until just before, and the next job got the second one."""
    report = check(job("a", 1, 11, "gpu-1"), [change(10, cards())], slices=[cards(tainted=(0,))])

    assert differences(report) == [("team-a/a", "Changed")]


def test_a_change_that_explains_nothing_is_no_reason(check):
    """A taint that came just before, on another card, is not why the first one was left out."""
    report = check(job("a", 1, 11, "gpu-1"), [change(10, cards(tainted=(2,)))])

    assert differences(report) == [("team-a/a", "Other")]


def test_released_and_changed_come_together(check):
    """Two cards are skipped: one that came back just before, and one that was tainted until just before."""
    report = check(
        job("a", 1, 2, "gpu-0", ended=10),
        job("b", 3, 11, "gpu-2"),
        [change(9, cards())],
        slices=[cards(tainted=(1,))],
    )

    assert differences(report) == [("team-a/b", "Changed")]


def test_undecided_is_what_ends_in_an_error(check, url):
    """A selector that fails on a device decides nothing today; the exit code is 1."""
    fails = request("gpu", "gpu", f'device.attributes["{GPU}"].none == 1')

    report = check(job("a", 1, 2, "gpu-0", requests=[fails]))

    assert differences(report) == [("team-a/a", "Undecided")]
    found = CliRunner().invoke(
        app, ["replay", "--history", url, "--since", "1970-01-01T00:00:00Z", "--check"]
    )
    assert found.exit_code == 1
    assert "0 of 1 decision got the same devices again" in found.stdout


def test_next_to_a_gap_nothing_is_decided_again(check):
    """What is stored within a minute of a gap is left out, and counted."""
    report = check(job("a", 40, 50, "gpu-2"), job("b", 95, 100, "gpu-0"), gap=(20, 30))

    assert (report.decisions, report.same, report.counts) == (1, 1, {IN_GAP: 1})


def test_where_all_is_next_to_a_gap_nothing_could_be_checked(check, url):
    """The first line does not count the same of none, and the note tells one decision as one."""
    report = check(job("a", 40, 50, "gpu-2"), gap=(20, 30))

    assert (report.decisions, report.same) == (0, 0)
    found = CliRunner().invoke(
        app, ["replay", "--history", url, "--since", "1970-01-01T00:00:00Z", "--check"]
    )
    assert found.stdout.splitlines()[0] == "no decision could be checked"
    assert f"note: 1 decision {IN_GAP}" in found.stderr
