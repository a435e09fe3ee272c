"""Objects by key, and the revision that they share."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.sim.resources import RESOURCES
from dra_operator.sim.store import ChangeType, Store, key_of

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
