"""What is stored stays whole: a store that fails, one that two write to, and what its messages tell."""

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import select

from dra_operator.api.names import LEASE_NAME
from dra_operator.cli.kubectl.commands import app
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.session import ApiSession
from dra_operator.history.holders import find_past_holders
from dra_operator.history.reader import Reader, Span, time_text
from dra_operator.history.recorder import Recorder
from dra_operator.history.schema import (
    CONTENT,
    MICRO,
    POD_SUM,
    OtherWriterError,
    StoreError,
    open_store,
    pack,
    unpack,
)
from dra_operator.history.writer import Change, WaitChange, Writer
from dra_operator.questions.device_table import HolderQuery
from dra_operator.testing.errors import Interceptor, StatusError
from dra_operator.testing.server import ApiServer
from factories import allocation, claim, manifest, result

from .histories import credentials, recorded
from .test_recorder import check_order

KEY = ("ResourceClaim", "team-a", "job")


def body_of(text):
    """A claim that differs by a label."""
    return {
        **claim("job"),
        "metadata": {"name": "job", "namespace": "team-a", "uid": "1", "labels": {"is": text}},
    }


async def test_a_store_that_is_away_loses_nothing(tmp_path):
    """What comes while neither can be written nor read is stored once it is back, behind a gap."""
    path, aside = tmp_path / "history.db", tmp_path / "aside"
    async with recorded(f"sqlite:///{path}", 1) as (world, recording):
        await recording.tick()
        path.rename(aside)
        path.mkdir()
        for _ in range(2):
            world.server.put(claim("meanwhile", namespace="team-a"))
            recording.seconds += 1
            await recording.caught_up()
            await recording.recorder.tick()
        assert recording.recorder.failures >= 2
        path.rmdir()
        aside.rename(path)
        recording.seconds += 1
        await recording.tick()
    reader = Reader(open_store(str(path)))

    assert len(reader.gaps) == 1
    names = [each["metadata"]["name"] for each in reader.read_moment(reader.span.until).bodies]
    assert names.count("meanwhile") == 1
    check_order(reader)


def test_a_second_writer_is_refused(tmp_path):
    """Whoever did not write last cannot write before it has read what the other one wrote."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    first = Writer(engine)
    first.commit([Change(1, KEY, "1", "1", body_of("a"))], 10)
    second = Writer(engine)
    second.commit([Change(11, KEY, "1", "2", body_of("b"))], 20)

    with pytest.raises(StoreError, match="another process writes to the store"):
        first.commit([Change(12, KEY, "1", "2", body_of("c"))], 21)

    rows = list(Reader(engine).read_states(Span(0, 100), "ResourceClaim"))
    assert [(row.since, row.is_open) for row in rows] == [(1, False), (11, True)]


def test_what_comes_while_it_is_stored_is_before_a_gap(tmp_path):
    """What is stored with a transaction does not begin after the time that this covers, where a gap may begin."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    writer = Writer(engine)
    writer.commit([Change(12, KEY, "1", "1", body_of("a"))], 10)
    writer.commit([Change(20, KEY)], 20, is_gap=True)

    assert [(row.since, row.until) for row in Reader(engine).read_states(Span(0, 21))] == [(10, 11)]


def test_what_ended_is_taken_off(tmp_path):
    """Retention takes off what ended before a time, with contents that nothing has any more."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    writer = Writer(engine)
    kept, gone = (POD_SUM, "", "node-1/a"), (POD_SUM, "", "node-1/b")
    sums = [
        Change(1, key, body={"kind": POD_SUM, "metadata": {}, "spec": {key[2][-1]: 1}})
        for key in (kept, gone)
    ]
    writer.commit([*sums, Change(1, KEY, "1", "1", body_of("a"))], 10)
    writer.commit([Change(11, KEY), Change(11, gone)], 20)
    writer.forget(15)
    writer.commit([], 30)
    reader = Reader(engine)

    assert [(row.kind, row.name) for row in reader.read_states(Span(0, 100))] == [kept[::2]]
    assert reader.span.since == 15
    assert len([*reader.rows(select(CONTENT.c.id))]) == 1


def test_claim_that_lost_its_devices_waits_from_then(tmp_path):
    """A claim that had devices when the record found it waits since it lost them, not since its creation."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    held = {**body_of("a"), "status": {"allocation": {"devices": {"results": []}}}}
    Writer(engine).commit([Change(10, KEY, "1", "1", held)], 20)
    writer = Writer(engine)
    writer.commit([Change(25, KEY, "1", "2", body_of("a"))], 30)
    writer.commit([WaitChange(31, KEY, "1", "DevicesInUse", "none is free", 1)], 40)

    assert [(row.since, row.reason) for row in Reader(engine).read_waits(Span(0, 100))] == [
        (31, "DevicesInUse")
    ]


def test_a_gap_is_bridged_for_what_did_not_change(tmp_path):
    """What has the uid and version of before a gap was there all the while; else it ends there and is found anew."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    changed, again, gone = (("ResourceClaim", "team-a", name) for name in ("changed", "again", "gone"))
    keys = (KEY, changed, again, gone)
    Writer(engine).commit([Change(1, key, "1", "1", body_of("a")) for key in keys], 10)
    found = [Change(20, KEY, "1", "1", body_of("a")), Change(20, changed, "1", "2", body_of("a"))]
    found += [Change(20, again, "2", "1", body_of("a")), Change(20, gone)]
    assert Writer(engine).commit(found, 20, is_gap=True) == 9
    rows = [(row.name, row.since, row.until) for row in Reader(engine).read_states(Span(0, 100))]

    anew = [(name, *span) for name in ("again", "changed") for span in ((1, 11), (20, 20))]
    assert sorted(rows) == [*anew, ("gone", 1, 11), ("job", 1, 20)]


def test_holder_over_a_gap_is_one(tmp_path):
    """A claim that changed in a gap, and has the same allocation behind it, held its device all the while."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    writer = Writer(engine)

    def held(label, time):
        status = {"allocation": allocation(result(), allocationTimestamp=time)}
        return {**body_of(label), "status": status}

    writer.commit([Change(1, KEY, "1", "1", held("a", "2026-01-01T00:00:00Z"))], 10)
    writer.commit([Change(20, KEY, "1", "2", held("b", "2026-01-01T00:00:00Z"))], 20, is_gap=True)
    writer.commit([Change(30, KEY, "1", "3", held("b", "2026-01-01T00:00:09Z"))], 30, is_gap=True)
    found = find_past_holders(Reader(engine), Span(0, 31), HolderQuery())

    assert [item.since for item in found.items] == ["2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"]
    assert len(found.gaps) == 2


def test_holder_of_two_shares_of_a_device_is_one(tmp_path):
    """A claim with two shares of a device held it once, from its allocation on, also where it changes meanwhile."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    writer = Writer(engine)
    time = "1969-12-31T23:59:50Z"

    def held(label):
        shares = [result(shareID=f"00000000-0000-4000-8000-{number:012}") for number in range(2)]
        return {**body_of(label), "status": {"allocation": allocation(*shares, allocationTimestamp=time)}}

    writer.commit([Change(1, KEY, "1", "1", held("a"))], 10)
    writer.commit([Change(11 * MICRO, KEY, "1", "2", held("b"))], 20 * MICRO)
    (item,) = find_past_holders(Reader(engine), Span(0, 21 * MICRO), HolderQuery()).items

    assert (item.since, item.seconds, item.until, item.was_there) == (time, 30, "", True)


async def test_second_recorder_ends(tmp_path):
    """A recorder that begins while another one writes ends at once, in words, and leaves the store to the other."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    Writer(engine).commit([], 1)
    writer = Writer(engine)
    Writer(engine).commit([], 10)
    async with ApiServer() as server, ApiSession(Access(lambda: credentials(server.url))) as session:
        with pytest.raises(OtherWriterError, match="another process writes to the store"):
            await Recorder(session, writer).run(asyncio.Event())

    assert Reader(engine).span.until == 10


async def test_recorder_ends_where_another_one_writes(tmp_path):
    """A recorder on whose store another one has written ends at its next transaction: they would make gaps in turn."""
    url = f"sqlite:///{tmp_path}/history.db"
    async with recorded(url, 1) as (_, recording):
        await recording.tick()
        other = Writer(open_store(url))
        recording.seconds += 1
        other.commit([], recording.recorder.now)
        recording.seconds += 1
        with pytest.raises(OtherWriterError, match="another process writes to the store"):
            await recording.recorder.tick()


class Refusing(Interceptor):
    """Nobody may read taint rules."""

    async def admit(self, request):
        """Refuse to list them."""
        if request.kind == "DeviceTaintRule":
            raise StatusError(403, "Forbidden", "not yours")


async def test_kind_that_may_not_be_read_makes_no_gaps(tmp_path):
    """A kind that is not permitted is told as unread, and asking for it again and again is no gap of the others."""
    url = f"sqlite:///{tmp_path}/history.db"
    async with recorded(url, 1, Refusing()) as (_, recording):
        rules = recording.recorder._reflectors["DeviceTaintRule"]
        async with asyncio.timeout(120):
            while not recording.recorder.covered or rules.counters.failures < 3:
                await asyncio.sleep(0.05)
                recording.seconds += 1
                await recording.recorder.tick()
    reader = Reader(open_store(url))

    assert not reader.gaps
    assert reader.read_moment(reader.span.until).unread["DeviceTaintRule"].startswith("not permitted to list")


def test_parameters_that_json_cannot_say_are_kept():
    """Opaque parameters are bytes where they cannot be decoded and encoded again; they are stored as they are."""
    value = {"parameters": b'{"text":"\\u003c"}'}

    assert unpack(pack(value)) == {"parameters": {"text": "<"}}


async def test_renewals_of_a_lease_are_kept_seldom(tmp_path):
    """Of a Lease that is renewed every 2 s the record has a state each 20 s, and each holder."""
    async with recorded(f"sqlite:///{tmp_path}/history.db", 1) as (world, recording):
        for second in range(0, 60, 2):
            spec = {
                "holderIdentity": "a" if second < 50 else "b",
                "renewTime": f"2027-01-15T08:00:{second:02}.000000Z",
                "leaseDurationSeconds": 15,
            }
            lease = manifest("Lease", LEASE_NAME, spec, namespace="dra-operator")
            world.server.put({**lease, "apiVersion": "coordination.k8s.io/v1"})
            recording.seconds += 2
            await recording.tick()
    reader = Reader(open_store(f"sqlite:///{tmp_path}/history.db"))

    kept = [row.body["spec"] for row in reader.read_states(Span(0, reader.span.until + 1), "Lease")]
    assert [each["renewTime"][17:19] for each in kept] == ["00", "20", "40", "50"]
    assert [each["holderIdentity"] for each in kept] == ["a", "a", "a", "b"]


async def test_recorder_that_is_ended_stores_the_last_second(tmp_path):
    """After SIGTERM the record has what came before it, and no gap but that before another recorder."""
    store, config = tmp_path / "history.db", tmp_path / "config"
    command = [Path(sys.executable).with_name("kubectl-dra"), "record", "--to", store, "--kubeconfig", config]
    async with ApiServer() as server:
        config.write_text(server.kubeconfig())
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        async with asyncio.timeout(120):
            while await asyncio.to_thread(last_of, store) is None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
            server.put(claim("last", namespace="team-a"))
            await asyncio.sleep(0.5)
            process.terminate()
            assert await process.wait() == 0
    reader = Reader(open_store(str(store)))

    assert not reader.gaps
    assert [row.name for row in reader.read_states(Span(0, reader.span.until + 1), "ResourceClaim")] == [
        "last"
    ]


def last_of(store):
    """Return what reads a store; None while there is none."""
    try:
        return Reader(open_store(str(store)))
    except StoreError:
        return None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("typo.db", "error: typo.db: there is no such file"),
        ("postgresql://me:secret@127.0.0.1:port/db", "the store cannot be opened"),
        ("oracle://me:secret@db/x", "a file of SQLite, or postgresql://"),
        ("mysql://x/y", "error: mysql://x/y: a record is a file of SQLite, or postgresql://"),
        ("/", "error: /: is a directory"),
    ],
)
def test_wrong_store_is_a_sentence_without_a_password(tmp_path, monkeypatch, url, said):
    """A store that is not there, or cannot be named so, is refused in words; a reader makes no file."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", "--history", url])

    assert result.exit_code == 2
    assert said in result.output
    assert "secret" not in result.output
    assert not list(tmp_path.iterdir())


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch):
    """Whoever has no psycopg reads the command that installs it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    result = CliRunner().invoke(app, ["report", "--history", "postgresql://me:secret@db/x"])

    assert result.exit_code == 2
    assert "pip install 'dra-operator[history,postgres]'" in result.output
    assert "secret" not in result.output


def test_port_that_is_none_is_a_usage_error():
    """Ports end at 65535."""
    result = CliRunner().invoke(app, ["record", "--to", "x.db", "--metrics-port", "99999"])

    assert result.exit_code == 2
    assert "0<=x<=65535" in result.output


def test_tables_of_somebody_else_are_left_alone(tmp_path):
    """A database with other tables is refused, and has no more tables afterwards."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table mine (x)")

    with pytest.raises(StoreError, match="is no record, as it has a table mine"):
        open_store(str(path), create=True)

    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("mine",)]


async def test_gap_of_a_restart_is_in_the_log(tmp_path, capsys):
    """A recorder that goes on with a record says where and from when, and warns of what it did not see."""
    url = f"sqlite:///{tmp_path}/history.db"
    Writer(open_store(url, create=True)).commit([], 1)

    async with recorded(url, 1) as (_, recording):
        await recording.tick()
        begun = time_text(recording.recorder.covered)

    said = capsys.readouterr().out
    assert "history: gap" in said
    assert re.search(rf"history: recording +since={begun} to={re.escape(url)}\n", said)


class Unforgetting(Writer):
    """Takes nothing off its store."""

    def forget(self, before):
        """Refuse it."""
        raise StoreError(f"nothing before {before}")


async def test_retention_that_fails_is_no_gap(tmp_path, capsys):
    """What is stored is stored, and the log says that nothing was taken off."""
    engine = open_store(str(tmp_path / "history.db"), create=True)
    async with ApiServer() as server, ApiSession(Access(lambda: credentials(server.url))) as session:
        recorder = Recorder(session, Unforgetting(engine), keep_seconds=1)
        await recorder.start()
        async with asyncio.timeout(120):
            while not recorder.covered:
                await asyncio.sleep(0.05)
                await recorder.tick()
        await recorder.stop()

    assert (recorder.failures, recorder.missed, Reader(engine).gaps) == (0, 0, [])
    assert "history: nothing taken off" in capsys.readouterr().out


def test_api_server_that_is_away_is_a_sentence(tmp_path):
    """Recording begins with an API server, or says in one line that there is none."""
    config = tmp_path / "config"
    cluster = {"name": "away", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "away", "context": {"cluster": "away", "user": "nobody"}}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "nobody", "user": {}}],
                "current-context": "away",
            }
        )
    )
    result = CliRunner().invoke(app, ["record", "--to", str(tmp_path / "h.db"), "--kubeconfig", str(config)])

    assert result.exit_code == 2, result.output
    assert "error: " in result.output
    assert "defect" not in result.output
