"""The window of changes that watches read from."""

import asyncio

import pytest

from dra_operator.sim.store import Change, ChangeType, History, Stored


def change(revision: int) -> Change:
    """Return the creation of an object at a revision."""
    return Change(ChangeType.ADDED, Stored(str(revision), {"metadata": {}}, revision), None)


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
