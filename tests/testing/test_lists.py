"""Lists in pages that show one moment."""

from collections.abc import Callable

import pytest

from dra_operator.testing.discovery import RESOURCES
from dra_operator.testing.errors import StatusError
from dra_operator.testing.lists import Lists
from dra_operator.testing.store import Store

CLAIM = next(resource for resource in RESOURCES if resource.kind == "ResourceClaim")


class Clock:
    """A clock that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        """Return the time that the test set."""
        return self.seconds


def filled(count: int, clock: Callable[[], float]) -> tuple[Store, Lists]:
    """Return a store with claims named 0, 1, ... and its lists."""
    store = Store()
    for number in range(count):
        store.put(CLAIM, {"metadata": {"name": f"{number:03d}", "namespace": "default"}})
    return store, Lists(store, clock)


def test_all_pages_show_the_moment_of_the_first() -> None:
    """What is created, changed or removed between two pages does not show."""
    store, lists = filled(4, Clock())
    first = lists.first(CLAIM, "default", limit=2)
    before = store.get(CLAIM, "default", "003")
    store.put(CLAIM, {"metadata": {"name": "000a", "namespace": "default"}})
    store.put(CLAIM, {"metadata": {"name": "003", "namespace": "default", "labels": {"new": "yes"}}})

    second = lists.following(first.continue_token, 2)

    assert second.items[1] is before
    assert second.revision == first.revision


def test_a_continue_token_expires() -> None:
    """After five minutes the next page is 410."""
    clock = Clock()
    _, lists = filled(4, clock)
    page = lists.first(CLAIM, "default", limit=2)

    clock.seconds = 301

    with pytest.raises(StatusError) as refusal:
        lists.following(page.continue_token, 2)
    assert (refusal.value.code, refusal.value.reason) == (410, "Expired")
