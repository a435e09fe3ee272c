"""Card-hours and waits: what a report says is what lists of the API server come to, state by state, exactly."""

import re
import time
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from click.testing import CliRunner
from pyarrow import parquet
from sqlalchemy import update

from dra_operator.cli.kubectl.commands import app
from dra_operator.history.holdings import read_holdings
from dra_operator.history.reader import Moment, Reader, Span, build_state, time_text
from dra_operator.history.report import OTHERS, Grouping, ReportQuery, make_report, read_prices
from dra_operator.history.schema import META, MICRO, open_store, transaction
from dra_operator.history.writer import Change, Writer
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.claims import Use
from dra_operator.questions.device_table import DeviceState, DeviceTable
from factories import claim

from .histories import play
from .test_recorder import CASES

PARTS = {"part-0": Fraction(1, 2), "part-1": Fraction(1, 2), "part-2": Fraction(1), "gpu-9": Fraction(1, 4)}
"""What of a card devices are; the others are whole."""
STATES = ("used", "shared", "free", "tainted", "blocked", "idle")


def quiet_spans(reader, moments):
    """Yield the spans between two lists in which there was no gap, each with what was listed at its beginning."""
    for (at, _, bodies), (following, _, _) in pairwise(moments):
        if not any(gap.since < following and at < gap.until for gap in reader.gaps):
            yield Span(at, following), bodies


def naive_states(bodies):
    """Return how many cards are in each state, as `top` says of devices, and how much of them is idle."""
    state = build_state(Moment(0, tuple(bodies), {}, ""))
    found, card = Counter(), []
    for row in DeviceTable(state).rows:
        part = PARTS[row.name] if row.name.startswith("part") else Fraction(1)
        if row.name.startswith("part"):
            card.append((row.state, part))
        else:
            found[row.state.value] += 1
        claims = [state.objects.records["ResourceClaim", *key].obj for key in row.holders]
        uses = {state.consumers.find_use(claim) for claim in claims}
        found["idle"] += part if uses and Use.RUNNING not in uses else 0
    if card:
        taken = sum(part for state, part in card if state is DeviceState.USED)
        order = (DeviceState.FREE, DeviceState.TAINTED, DeviceState.BLOCKED)
        rest = next(each for each in (*order, None) if each is None or each in dict(card))
        found["used"] += taken
        if rest is not None:
            found[rest.value] += 1 - taken
    return found


def naive_holders(bodies):
    """Return which part of published cards each namespace holds."""
    published = {
        (body["spec"]["pool"]["name"], device["name"])
        for body in bodies
        if body["kind"] == "ResourceSlice"
        for device in body["spec"].get("devices") or ()
    }
    held = defaultdict(Fraction)
    for body in bodies:
        for each in (
            ((body.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        ):
            if (each["pool"], each["device"]) in published:
                held[body["metadata"]["namespace"]] += PARTS.get(each["device"], Fraction(1))
    return held


@pytest.mark.parametrize("seed", range(CASES))
async def test_sums_are_those_of_lists(tmp_path, seed):
    """States of cards, and holders, have exactly the time that lists give them; of others no name is told."""
    url = f"sqlite:///{tmp_path}/history.db"
    recording = await play(url, seed)
    reader = Reader(open_store(url))
    for span, bodies in quiet_spans(reader, recording.moments):
        report, length = (
            make_report(reader, ReportQuery(span)),
            Fraction(span.until - span.since, 3600 * MICRO),
        )
        (period,) = report.periods
        expected = naive_states(bodies)
        assert {name: getattr(period, name) / length for name in STATES} == {
            name: expected[name] for name in STATES
        }
        assert period.unknown == 0
        held = {row.name: row.held / length for row in report.rows if row.held}
        assert held == {name: part for name, part in naive_holders(bodies).items() if part}
        alone = make_report(reader, ReportQuery(span, namespace="team-a"))
        assert {row.name for row in alone.rows} <= {"team-a", OTHERS}
        assert sum(row.held for row in alone.rows) == sum(row.held for row in report.rows)
        assert alone.periods == report.periods


@pytest.mark.parametrize("by", [*Grouping])
async def test_rows_come_to_the_same_by_any_grouping(tmp_path, by):
    """What is held and idle is the same in all, however it is grouped, and periods come to the whole."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 7)
    reader = Reader(open_store(url))
    prices = {"gpu": Fraction(2)}
    whole = make_report(reader, ReportQuery(reader.span, prices=prices))
    other = make_report(reader, ReportQuery(reader.span, by, "project", 60 * MICRO, prices=prices))

    for name in ("held", "idle", "unpublished", "cost"):
        assert sum(getattr(row, name) for row in other.rows) == sum(getattr(row, name) for row in whole.rows)
    assert sum(row.cost for row in whole.rows) == 2 * sum(row.held for row in whole.rows)
    if by is not Grouping.NODE:
        assert sum(row.waited for row in other.rows) == sum(row.waited for row in whole.rows)
    (period,) = whole.periods
    for name in ("published", "used", "shared", "free", "tainted", "blocked", "unknown", "idle"):
        assert sum(getattr(each, name) for each in other.periods) == getattr(period, name)
    states = (period.used, period.shared, period.free, period.tainted, period.blocked, period.unknown)
    assert sum(states) == period.published


async def test_class_without_a_price_is_named(tmp_path):
    """A misspelt class in a price list is not a cost of nothing."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 7)
    reader = Reader(open_store(url))
    (tmp_path / "prices.yaml").write_text("gpus: 2\n")
    report = make_report(reader, ReportQuery(reader.span, prices=read_prices(str(tmp_path / "prices.yaml"))))

    assert sum(row.held for row in report.rows)
    assert "class gpu has no price" in report.note


@pytest.mark.parametrize("text", ["gpu: cheap", "gpu: -1", "gpu: [1]"])
def test_price_that_is_no_number_is_named(tmp_path, text):
    """With its class, and what to write."""
    path = tmp_path / "prices.yaml"
    path.write_text(text)

    with pytest.raises(QuestionError, match="gpu: write a number"):
        read_prices(str(path))


@pytest.mark.parametrize("seed", range(7, 7 + CASES))
async def test_output_for_a_namespace_has_no_foreign_name(tmp_path, seed):
    """With a namespace no byte of a report, page, list of holders or export names what belongs to another one."""
    url, page = f"sqlite:///{tmp_path}/history.db", tmp_path / "page.html"
    recording = await play(url, seed)
    own = [body for _, _, bodies in recording.moments for body in bodies]
    others = [each["metadata"] for each in own if each["metadata"].get("namespace") == "team-b"]
    foreign = {"team-b", "hidden"} | {each["uid"] for each in others if "uid" in each}
    assert len(foreign) > 2

    def check(*command):
        """Run a command, and look for foreign names in all that it writes."""
        found = CliRunner().invoke(
            app, [*command, "--history", url, "-n", "team-a", "--since", "2027-01-01T00:00:00Z"]
        )
        assert found.exit_code in (0, 1), found.output
        assert [each for each in foreign if each in found.output] == []

    for by in Grouping:
        grouping = "label=project" if by is Grouping.LABEL else by.value
        for format_ in ((), ("-o", "csv"), ("-o", "json"), ("-o", "yaml")):
            check("report", "--by", grouping, "--every", "20s", *format_, "--html", str(page))
            assert [each for each in foreign if each in page.read_text()] == []
    assert not re.search(r"<script|https?:|src=|href=|url\(", page.read_text())
    for device in ("gpu-0", "gpu-1"):
        for format_ in ((), ("-o", "json")):
            check("who", f"device/node-1/{device}", *format_)
    rows = exported(tmp_path, url, "-n", "team-a")
    assert [each for each in foreign if each in str(rows)] == []
    assert {row["namespace"] for row in rows} <= {"team-a", OTHERS}
    written = b"".join(path.read_bytes() for path in (tmp_path / "days").rglob("*") if path.is_file())
    assert [each for each in foreign if each.encode() in written] == []


@pytest.mark.parametrize("command", [["report"], ["who", "device/node-1/gpu-0"]])
async def test_span_outside_of_the_record_is_refused(tmp_path, command):
    """Whoever asks for a time after the record is told from when to when it is."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 3, steps=1)
    found = CliRunner().invoke(app, [*command, "--history", url, "--since", "2028-01-01T00:00:00Z"])

    assert found.exit_code == 2
    assert "the record is from 2027-01-15T" in found.output


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["report", "-n", "team-x"], 'in namespace "team-x" nothing was held, and nothing waited'),
        (
            ["who", "device/node-1/gpu-x"],
            "nobody held device/node-1/gpu-x\nnote: at the end there is no device",
        ),
        (["who", "node/node-x"], 'nobody held node/node-x\nnote: at the end there is no Node "node-x"'),
    ],
)
async def test_names_that_nothing_has_are_told(tmp_path, command, told):
    """An answer about nothing says that nothing has the name, which may be a typing error."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 3)
    found = CliRunner().invoke(app, [*command, "--history", url, "--since", "2027-01-01T00:00:00Z"])

    assert told in found.output


async def test_hint_asks_the_record(tmp_path):
    """Where a record is asked what waits, the command that is proposed asks the record, too."""
    url = f"sqlite:///{tmp_path}/history.db"
    recording = await play(url, 7)
    at = time_text(recording.recorder.covered)
    found = CliRunner().invoke(app, ["waiting", "-A", "--history", url, "--at", at])

    assert re.search(rf"kubectl dra explain pod/\S+ -n team-\w --history {url} --at {at}\n", found.output)


def test_hint_of_a_claim_asks_the_record_as_of_the_same_time(tmp_path):
    """What `claims` proposes names the record, and the time itself where it was asked of two minutes ago."""
    url, now = f"sqlite:///{tmp_path}/history.db", round(time.time() * MICRO)
    key = ("ResourceClaim", "team-a", "job")
    body = claim("job", namespace="team-a", uid="1")
    writer, begin = Writer(open_store(url, create=True)), now - 600 * MICRO
    writer.commit([Change(begin, key, "1", "1", body)], begin)
    writer.commit([], now)
    found = CliRunner().invoke(app, ["claims", "-A", "--history", url, "--at", "2m"])

    at = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"kubectl dra explain claim/job -n team-a --history {url} --at {at}\n", found.output)


def test_label_without_a_key_is_refused(tmp_path):
    """What is grouped by a label names it."""
    found = CliRunner().invoke(app, ["report", "--history", str(tmp_path / "x"), "--by", "label="])

    assert found.exit_code == 2
    assert "choose from namespace, class, node, owner and label=KEY" in found.output


def exported(folder, url, *options, since="2027-01-01T00:00:00Z"):
    """Return the rows that an export writes, all tables and days."""
    command = ["record", "export", "--history", url, "--since", since, "--parquet"]
    found = CliRunner().invoke(app, [*command, str(folder / "days"), *options])
    assert found.exit_code == 0, found.output
    paths = (folder / "days").glob("*/day=*/part-0.parquet")
    return [
        {**row, "table": path.parts[-3]}
        for path in paths
        for row in parquet.ParquetFile(path).read().to_pylist()
    ]


async def test_export_is_what_the_report_says(tmp_path):
    """Exported rows come to the hours that a report has: held of whole cards, and waited, with no time twice."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 3)
    reader = Reader(open_store(url))
    report = make_report(reader, ReportQuery(reader.span))
    rows = exported(tmp_path, url)
    waited = sum(row["seconds"] for row in rows if row["table"] == "waits")
    holdings = read_holdings(reader, reader.span)
    held = sum((each.until - each.since) * len(each.devices) for pool in holdings.values() for each in pool)

    assert waited == pytest.approx(float(sum(row.waited for row in report.rows)) * 3600)
    assert waited > 0
    assert sum(row["seconds"] for row in rows if row["table"] == "holdings") == pytest.approx(held / MICRO)
    assert held > 0


async def test_export_of_a_part_of_a_day_is_the_whole_day(tmp_path):
    """An export that begins at noon writes the day from midnight: what an earlier one wrote of its morning stays."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 3)
    span = Reader(open_store(url)).span

    assert exported(tmp_path, url) == exported(tmp_path, url, since=time_text(sum(span) // 2))


async def test_export_leaves_a_day_that_the_record_has_lost_a_part_of(tmp_path):
    """Once the record keeps less of a day than was exported of it, the day stays as it was written."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 3)
    engine = open_store(url)
    before, (begin, covered) = exported(tmp_path, url), Reader(engine).span
    with transaction(engine) as connection:
        connection.execute(
            update(META).where(META.c.key == "begin").values(value=str((begin + covered) // 2))
        )

    assert exported(tmp_path, url) == before
