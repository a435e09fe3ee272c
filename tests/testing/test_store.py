"""Objects by key, and the revision that they share."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.testing.resources import RESOURCES
from dra_operator.testing.store import Change, ChangeType, History, Store, StoredObject, key_of

CLAIM = next(resource for resource in RESOURCES if resource.kind == "ResourceClaim")
NODE = next(resource for resource in RESOURCES if resource.kind == "Node")


def body(name: str, namespace: str = "default") -> dict[str, Any]:
    """Return the least that can be stored."""
    return {"metadata": {"name": name, "namespace": namespace}}


@pytest.fixture
def store() -> Store:
    """Return an empty store."""
    return Store()


def test_every_write_has_a_revision_of_its_own(store: Store) -> None:
    """Kinds share one counter, and the object carries its revision as text."""
    first = store.put(CLAIM, body("a"))
    second = store.put(NODE, {"metadata": {"name": "n"}})
    third = store.put(CLAIM, body("a"))

    assert [first.revision, second.revision, third.revision] == [2, 3, 4]
    assert third.body["metadata"]["resourceVersion"] == "4"


def test_a_removal_is_a_write(store: Store) -> None:
    """The last state of a removed object has the revision of the removal."""
    stored = store.put(CLAIM, body("a"))

    gone = store.remove(CLAIM, stored)

    assert gone.revision == stored.revision + 1
    assert gone.body["metadata"]["resourceVersion"] == str(gone.revision)
    assert store.get(CLAIM, "default", "a") is None


def test_the_history_says_what_happened(store: Store) -> None:
    """Insertion, replacement and removal are remembered as such, with what was there before."""
    store.put(CLAIM, body("a"))
    second = store.put(CLAIM, body("a"))
    store.remove(CLAIM, second)

    changes = store.table(CLAIM).history.read(0, 10) or ()

    assert [change.type for change in changes] == [ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED]
    assert changes[2].previous is second


def test_a_stored_object_never_changes(store: Store) -> None:
    """Whoever holds the first version still sees it after the second is stored."""
    first = store.put(CLAIM, body("a"))

    store.put(CLAIM, {**body("a"), "spec": {}})

    assert first.body == {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "2"}}


def test_both_groups_of_events_are_one_table(store: Store) -> None:
    """Events of core/v1 and events.k8s.io/v1 are the same objects."""
    core, other = (resource for resource in RESOURCES if resource.kind == "Event")

    assert store.table(core) is store.table(other)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "a-b", "a.b", "b"]), st.sampled_from(["x", "y", "z"]), st.booleans())
    )
)
def test_tables_are_in_the_order_of_their_keys(writes: list[tuple[str, str, bool]]) -> None:
    """Whatever is put and dropped in whatever order, what is left is sorted by key, and a namespace is its part."""
    store, left = Store(), {}
    for namespace, name, keep in writes:
        stored = store.put(CLAIM, body(name, namespace))
        left[key_of(namespace, name)] = stored
        if not keep:
            store.remove(CLAIM, stored)
            del left[key_of(namespace, name)]

    table = store.table(CLAIM)

    assert [stored.key for stored in table.in_order("")] == sorted(left)
    assert [stored.key for stored in table.in_order("a")] == sorted(
        key for key in left if key.startswith("a/")
    )


def change(revision: int) -> Change:
    """Return the creation of an object at a revision."""
    return Change(ChangeType.ADDED, StoredObject(str(revision), {"metadata": {}}, revision), None)


@pytest.fixture
def history() -> History:
    """Return a history of two changes at least, with changes at the revisions 10, 20 and 30."""
    history = History(2)
    for revision in (10, 20, 30):
        history.append(change(revision))
    return history


@pytest.mark.parametrize(
    ("revision", "expected"), [(0, [10, 20, 30]), (10, [20, 30]), (25, [30]), (30, []), (99, [])]
)
def test_reading_begins_after_a_revision(history: History, revision: int, expected: list[int]) -> None:
    """A watch from a revision sees the changes after it, in order."""
    position = history.position_after(revision)
    assert position is not None

    assert [found.revision for found in history.read(position, 10) or ()] == expected


def test_a_full_window_forgets_the_oldest(history: History) -> None:
    """Beyond twice the capacity the oldest changes go, and with them the right to ask for what followed."""
    history.append(change(40))
    history.append(change(50))

    assert history.forgotten == 20
    assert history.position_after(19) is None
    assert history.position_after(20) is not None


def test_a_reader_that_fell_behind_is_told(history: History) -> None:
    """A position that left the window reads None, not a gap."""
    for revision in (40, 50):
        history.append(change(revision))

    assert history.read(0, 10) is None


def test_forgetting_on_purpose(history: History) -> None:
    """What is forgotten up to a revision cannot be read any more, and later changes can."""
    history.forget(20)

    assert history.position_after(10) is None
    assert [found.revision for found in history.read(2, 10) or ()] == [30]


async def test_a_waiting_reader_wakes_on_the_next_change(history: History) -> None:
    """`more` returns once there is a change at the position."""
    waiting = asyncio.create_task(history.more(history.end))
    await asyncio.sleep(0)
    assert not waiting.done()

    history.append(change(40))

    await asyncio.wait_for(waiting, 1)


async def test_a_reader_that_is_behind_does_not_wait(history: History) -> None:
    """`more` returns at once if there is something to read."""
    await asyncio.wait_for(history.more(0), 1)


async def test_a_cancelled_reader_leaves_nothing_behind(history: History) -> None:
    """A reader that goes away is no longer waked."""
    waiting = asyncio.create_task(history.more(history.end))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert history._waiting == []
