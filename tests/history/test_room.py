"""Room over time: what each state of a record says, asked one by one, comes to the same."""

import json

import pytest
import yaml
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app
from dra_operator.history.reader import Reader, Span, build_state
from dra_operator.history.room import find_past_headroom
from dra_operator.history.schema import MICRO, open_store
from dra_operator.history.writer import Change, Writer
from dra_operator.questions.copies import find_template
from dra_operator.questions.headroom import find_headroom
from factories import allocation, claim, device_class, manifest, pod, request, resource_slice, result

from .histories import node, play

HOUR = 3600


def template(*requests):
    """A template for claims."""
    return manifest(
        "ResourceClaimTemplate",
        "train",
        {"spec": {"devices": {"requests": list(requests)}}},
        namespace="team-a",
    )


def large_pod(cpu="7"):
    """A pod with a claim that needs most of a node."""
    body = pod("asked", {"name": "gpu", "resourceClaimTemplateName": "train"}, namespace="team-a")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return body


SUBJECTS = (
    "class/gpu",
    [template(request(count=2))],
    [template(request(capacity={"requests": {"memory": "70Gi"}}))],
    [large_pod(), template(request())],
)


def naive_waits(reader, span, subject, every):
    """Return from each time how long until a state of the record has room, each state made anew."""
    states = [*reader.read_states(span)]
    times = {at for row in states for at in (row.since, row.until)} | {gap.until for gap in reader.gaps}
    known = {}

    def has_room(at):
        if at not in known:
            answer = find_headroom(build_state(reader.read_moment(at)), subject)
            known[at] = answer.more > 0
        return known[at]

    for since in (span.since, *range(span.since // every * every + every, span.until, every)):
        if reader.find_gap(since) is not None:
            yield "unknown", None
            continue
        following = sorted({since} | {at for at in times if since < at < span.until})
        first = next((at for at in following if reader.find_gap(at) is None and has_room(at)), None)
        yield ("none", None) if first is None else ("room", (first - since) / MICRO)


@pytest.mark.parametrize("seed", range(8))
async def test_room_is_what_each_state_says(tmp_path, seed):
    """In a random history with kills, gaps, taints, cordons and shares, waits are those of states asked one by one."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, seed, steps=16)
    reader = Reader(open_store(url))
    span = Span(reader.span.since, reader.span.until)
    subject = SUBJECTS[seed % len(SUBJECTS)]
    state = build_state(reader.read_moment(span.until))
    _, copied = find_template(state, subject)

    found = find_past_headroom(reader, span, copied, every=MICRO)

    assert [(hour.room, hour.wait) for hour in found.hours] == [*naive_waits(reader, span, subject, MICRO)]
    assert found.unsure == 0


@pytest.fixture
def history(tmp_path):
    """Return the URL of a record of five hours: a card is held for two hours, and after a gap again to the end."""
    url = f"sqlite:///{tmp_path}/history.db"
    writer = Writer(open_store(url, create=True))
    there = [node("node-1"), device_class(), resource_slice("slice-1", [{"name": "gpu-0"}])]

    def change(at, body, version="1"):
        metadata = body["metadata"]
        key = body["kind"], metadata.get("namespace", ""), metadata["name"]
        return Change(round(at * HOUR * MICRO), key, metadata["name"], version, body)

    def held(name):
        return claim(name, namespace="team-a", uid=name, status={"allocation": allocation(result())})

    writer.commit([change(0, body) for body in there], 0)
    first = [
        change(0.5, held("first")),
        Change(round(2.5 * HOUR * MICRO), ("ResourceClaim", "team-a", "first")),
    ]
    writer.commit(first, round(2.75 * HOUR * MICRO))
    after = [*(change(3.25, body) for body in there), change(3.25, held("second"))]
    writer.commit(after, round(3.25 * HOUR * MICRO), is_gap=True)
    writer.commit([], 5 * HOUR * MICRO)
    return url


def ask(url, *arguments):
    """Return the answer of the verb."""
    return CliRunner().invoke(
        app, ["headroom", "class/gpu", "--history", url, "--for", "1d", *map(str, arguments)]
    )


def test_hours_are_told_by_a_character_each(history):
    """At once, an hour and a half, half an hour, a gap, and not to the end, in the line of the day."""
    found = ask(history)

    assert found.exit_code == 0
    assert found.stdout.splitlines()[0] == 'room for one more of DeviceClass "gpu" at once in 1 of 5 hours'
    assert found.stdout.splitlines()[2] == "1970-01-01  .21?x"
    assert "9: nine or more; x: no room to the end of the record; ?: not recorded" in found.stdout


def test_hours_are_in_documents_and_a_page(history, tmp_path):
    """JSON has seconds, and the page a bar for each hour, with what it stands for, and nothing from elsewhere."""
    page = tmp_path / "room.html"

    found = ask(history, "-o", "json", "--html", page)

    items = json.loads(found.stdout)["items"]
    assert [(each["room"], each.get("wait")) for each in items] == [
        ("room", 0),
        ("room", 1.5 * HOUR),
        ("room", 0.5 * HOUR),
        ("unknown", None),
        ("none", None),
    ]
    text = page.read_text()
    assert text.count("<rect") == 5
    assert "1970-01-01T01:00:00Z: 1.5 hours" in text
    assert "</i>no room to the end</span>" in text
    assert "</i>not recorded</span>" in text
    assert "http" not in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--for", "1d"], "--for asks a record: name it with --history"),
        (["--html", "x"], "--html is for --for"),
        (["--for", "1d", "--by", "memory"], "without --by and --without"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, arguments, why):
    """What --for needs, and what goes with it, is said."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all([node("node-1"), device_class()]))

    found = CliRunner().invoke(app, ["headroom", "class/gpu", "--offline", "-f", str(cluster), *arguments])

    assert found.exit_code == 2
    assert why in found.output


def test_what_copies_share_is_refused(history, tmp_path):
    """A pod that names a claim is none of which there are copies over time."""
    asked = tmp_path / "pod.yaml"
    bodies = [pod("asked", {"name": "gpu", "resourceClaimName": "second"}, namespace="team-a")]
    asked.write_text(yaml.safe_dump_all(bodies))

    found = CliRunner().invoke(app, ["headroom", str(asked), "--history", history, "--for", "1d"])

    assert found.exit_code == 2
    assert "over time, ask about a template or a class" in found.stderr
