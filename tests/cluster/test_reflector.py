"""The reflector: every difference is delivered once."""

import asyncio

import orjson
import pytest

from .mirror import GOOD, QUIET
from .script import CLAIMS, CLASSES, cut, event, lines, listed, status, thing


async def test_first_list_delivers_everything(script, mirror):
    """After the first list each object was delivered once and the reflector is synced."""
    script.then(*GOOD, QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    assert watching.changes == ["+a", "+b"]
    assert len(watching.reflector) == 2
    assert watching.reflector.counters.repaired == 0


async def test_nothing_is_synced_before_the_list_ends(script, mirror):
    """A list that broke off half-way does not count as one."""
    script.then(listed(thing("a", 1), proceed="p2"), cut)
    script.default = status(503)
    watching = mirror()

    await watching.until(lambda: len(watching.waits) >= 3)

    assert not watching.reflector.synced.is_set()


async def test_what_cannot_be_decoded_of_one_object_hides_no_other(script, mirror):
    """Neither in a list nor in a watch, whatever its fields were set by."""
    deep = {"managedFields": [{"fieldsV1": orjson.Fragment(b'{"f:a":' + b"[" * 2000 + b"]" * 2000 + b"}")}]}
    changed = event("MODIFIED", thing("a", 102, **deep))
    script.then(listed(thing("a", 1, **deep), thing("b", 2)), lines(changed, then="stall"))
    watching = mirror()

    await watching.until(lambda: watching.changes == ["+a", "+b", "+a"])


async def test_list_of_several_pages_is_halfway_until_its_end(script, mirror):
    """From its first page to its last, also while one of them is not to be had, and through another beginning."""
    first, second = listed(thing("a", 1), proceed="next"), listed(thing("b", 2))
    script.then(first, status(503), first, second, QUIET)
    turns = []
    watching = mirror(turned=lambda: turns.append((watching.reflector.halfway, watching.changes)))

    await watching.reflector.synced.wait()

    assert turns == [(True, []), (False, ["+a", "+b"])]


async def test_list_waits_for_room_between_pages(script, mirror):
    """The next page is asked for when the consumer has room for it."""
    room = asyncio.Event()
    script.then(listed(thing("a", 1), proceed="p2"), listed(thing("b", 2)), QUIET)

    async def wait_for_room():
        await room.wait()

    watching = mirror(chunk=1, room=wait_for_room)
    await watching.until(lambda: watching.changes == ["+a"])
    await asyncio.sleep(0.02)
    assert len(script.asked) == 1

    room.set()
    await watching.reflector.synced.wait()
    assert watching.changes == ["+a", "+b"]


async def test_watch_delivers_changes(script, mirror):
    """Added, changed and deleted objects are delivered in order."""
    script.then(
        *GOOD,
        lines(
            event("ADDED", thing("c", 101)),
            event("MODIFIED", thing("a", 102)),
            event("DELETED", thing("b", 103)),
            then="stall",
        ),
    )
    watching = mirror()

    await watching.until(lambda: len(watching.deltas) == 5)

    assert watching.changes == ["+a", "+b", "+c", "+a", "-b"]
    assert len(watching.reflector) == 2


async def test_watch_asks_for_bookmarks_from_the_lists_version(script, mirror):
    """The first watch resumes where the list was made, with bookmarks and a time limit."""
    script.then(*GOOD, QUIET)
    watching = mirror()

    await watching.until(lambda: len(script.asked) == 2)

    query = script.asked[1].query
    assert query["resourceVersion"] == "100"
    assert query["allowWatchBookmarks"] == "true"
    assert 240 <= int(query["timeoutSeconds"]) <= 360


async def test_managed_fields_are_trimmed(script, mirror):
    """What nobody reads is not delivered; kind and version, which items of a list lack, are."""
    script.then(listed(thing("a", 1, managedFields=[{"manager": "kubectl"}])), QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    body = watching.deltas[0].body
    assert "managedFields" not in body["metadata"]
    assert (body["apiVersion"], body["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")


async def test_annotations_that_nobody_reads_are_not_kept(script, mirror):
    """Each object may have 256 KiB of them."""
    annotations = {"dra-operator.io/pending": "no device", "example.com/notes": "x" * 250_000}
    script.then(listed(thing("a", 1, annotations=annotations)), QUIET)
    watching = mirror()

    await watching.until(lambda: watching.deltas)

    kept = watching.deltas[0].body["metadata"]["annotations"]
    assert kept == {"dra-operator.io/pending": "no device"}


@pytest.mark.parametrize(("served", "is_kept"), [(CLAIMS, False), (CLASSES, True)], ids=["claim", "class"])
async def test_labels_of_objects_in_namespaces_are_not_kept(script, mirror, served, is_kept):
    """An object may have a megabyte of them, and many claims have; those of nodes and namespaces are read."""
    ours, more = {"dra-operator.io/allocate": "false"}, {f"example.com/{each}": "x" for each in range(1000)}
    template = {"metadata": {"labels": more, "annotations": {"example.com/notes": "x"}}, "spec": {}}
    body = {**thing("a", 1, labels={**ours, **more}), "spec": template}
    script.then(listed(body), QUIET)
    watching = mirror(served=served)

    await watching.until(lambda: watching.deltas)

    kept = watching.deltas[0].body
    assert kept["metadata"]["labels"] == ({**ours, **more} if is_kept else ours)
    assert kept["spec"] == (template if is_kept else {"spec": {}})


async def test_who_nominated_a_pod_is_kept_of_its_managed_fields(script, mirror):
    """Only of a nomination that the operator has set: it shows that the pod was let go."""
    fields = {"f:status": {"f:nominatedNodeName": {}, "f:phase": {}}}
    found = [
        {"manager": name, "fieldsV1": fields, "time": "now"} for name in ("dra-operator", "kube-scheduler")
    ]
    bodies = [thing("ours", 1, managedFields=found), thing("theirs", 2, managedFields=found[1:])]
    script.then(listed(*[{**body, "status": {"nominatedNodeName": "node-1"}} for body in bodies]), QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    kept = {"manager": "dra-operator", "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}
    assert [delta.body["metadata"].get("managedFields") for delta in watching.deltas] == [[kept], None]


async def test_replayed_events_are_dropped(script, mirror):
    """An event that is not newer than what is known is dropped."""
    script.then(
        *GOOD,
        lines(event("MODIFIED", thing("a", 1)), event("ADDED", thing("c", 101)), then="stall"),
    )
    watching = mirror()

    await watching.until(lambda: "+c" in watching.changes)

    assert watching.changes == ["+a", "+b", "+c"]


async def test_recreated_object_is_two_differences(script, mirror):
    """An object deleted and made anew under its name is delivered as gone and then as new."""
    script.then(*GOOD, lines(event("ADDED", thing("a", 101, uid="other")), then="stall"))
    watching = mirror()

    await watching.until(lambda: len(watching.deltas) == 4)

    assert watching.changes == ["+a", "+b", "-a", "+a"]


async def test_late_deletion_of_an_earlier_object_is_dropped(script, mirror):
    """A deletion only counts for the object whose uid it names."""
    script.then(
        *GOOD,
        lines(
            event("DELETED", thing("a", 101, uid="earlier")), event("ADDED", thing("c", 102)), then="stall"
        ),
    )
    watching = mirror()

    await watching.until(lambda: "+c" in watching.changes)

    assert watching.changes == ["+a", "+b", "+c"]


async def test_list_after_410_repairs_the_gap(script, mirror):
    """What was deleted, made and changed while the watch was broken is delivered, and nothing else."""
    script.then(
        listed(thing("kept", 1), thing("gone", 2), thing("changed", 3), thing("replaced", 4)),
        lines(event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})),
        listed(
            thing("kept", 1),
            thing("changed", 7),
            thing("new", 8),
            thing("replaced", 9, uid="x"),
            version="200",
        ),
        QUIET,
    )
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert watching.changes[4:] == ["+changed", "+new", "-replaced", "+replaced", "-gone"]
    assert watching.reflector.counters.repaired == 4


async def test_list_is_believed_when_versions_run_backwards(script, mirror):
    """After a restore of etcd objects are older than known: a list says what is."""
    script.then(
        listed(thing("a", 500)),
        lines(event("ERROR", {"code": 410})),
        listed(thing("a", 300), version="310"),
        QUIET,
    )
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert [delta.body["metadata"]["resourceVersion"] for delta in watching.deltas] == ["500", "300"]


class TestObserve:
    """Answers to writes of our own."""

    async def test_answer_is_delivered_at_once(self, script, mirror):
        """The answer to a write is delivered without waiting for the watch, whose event is then dropped."""
        script.then(
            *GOOD, lines(event("MODIFIED", thing("a", 50)), event("ADDED", thing("c", 101)), then="stall")
        )
        watching = mirror()
        await watching.reflector.synced.wait()

        assert watching.reflector.observe(thing("a", 50))
        await watching.until(lambda: "+c" in watching.changes)

        assert watching.changes == ["+a", "+b", "+a", "+c"]
        assert watching.reflector.counters.events == 2, "the answer is none"

    async def test_older_answer_is_dropped(self, script, mirror):
        """An answer that the watch has overtaken changes nothing."""
        script.then(listed(thing("a", 60)), QUIET)
        watching = mirror()
        await watching.reflector.synced.wait()

        assert not watching.reflector.observe(thing("a", 50))

        assert watching.changes == ["+a"]

    async def test_answer_does_not_revive_what_is_gone(self, script, mirror):
        """An answer that arrives after the deletion of its object is dropped."""
        script.then(*GOOD, lines(event("DELETED", thing("a", 103)), then="stall"))
        watching = mirror()
        await watching.until(lambda: "-a" in watching.changes)

        assert not watching.reflector.observe(thing("a", 102))

        assert watching.changes == ["+a", "+b", "-a"]

    async def test_watch_that_is_late_does_not_bring_back_an_earlier_object(self, script, mirror):
        """What an answer told of an object holds, though the watch has those before it of its name still to tell."""
        known, between, last = (thing("a", 1), thing("a", 102, "between"), thing("a", 104, "last"))
        story = [
            event("DELETED", {"metadata": known["metadata"] | {"resourceVersion": "101"}}),
            event("ADDED", between),
            event("DELETED", {"metadata": between["metadata"] | {"resourceVersion": "103"}}),
            event("ADDED", last),
        ]
        watching = None

        def watch(request):
            assert watching.reflector.observe(thing("a", 105, "last", labels={"told": "by an answer"}))
            return lines(*story, then="stall")(request)

        script.then(*GOOD, watch)
        watching = mirror()
        await watching.until(lambda: watching.reflector.counters.events == 4)

        assert watching.changes == ["+a", "+b", "-a", "+a"]
        assert watching.deltas[-1].body["metadata"]["uid"] == "last"

    async def test_answer_during_a_list_outlives_it(self, script, mirror):
        """What was written while a list ran is newer than the list, also if the list does not know it."""
        watching = None

        def page(request):
            assert watching.reflector.observe(thing("a", 150))
            assert watching.reflector.observe(thing("made", 151))
            return listed(thing("b", 2), version="120")(request)

        script.then(*GOOD, status(410), listed(thing("a", 1), version="120", proceed="p2"), page, QUIET)
        watching = mirror()
        await watching.until(lambda: watching.reflector.counters.lists == 2)

        assert watching.changes == ["+a", "+b", "+a", "+made"]
        assert watching.reflector.counters.repaired == 0

    async def test_late_answer_during_a_list_does_not_outlive_it(self, script, mirror):
        """An answer that was on its way since before the list hides neither a change, a deletion nor a new object."""
        watching = None

        def page(request):
            assert watching.reflector.observe(thing("a", 110))
            assert watching.reflector.observe(thing("b", 111))
            assert watching.reflector.observe(thing("c", 112))
            return listed(thing("a", 115), thing("c", 116, uid="anew"), version="120")(request)

        first = listed(thing("a", 1), thing("b", 2), thing("c", 3))
        script.then(first, status(410), listed(version="120", proceed="p2"), page, QUIET)
        watching = mirror()
        await watching.until(lambda: watching.reflector.counters.lists == 2)

        assert watching.changes[3:] == ["+a", "+b", "+c", "+a", "-c", "+c", "-b"]
        assert watching.deltas[-2].body["metadata"]["uid"] == "anew"
