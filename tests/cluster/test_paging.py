"""Lists that come page by page."""

import weakref

from dra_operator.cluster.paging import pages

from .script import CLAIMS


class Objects(list):
    """A list of which can be seen whether anybody has it still."""


class Session:
    """Answers with pages of one object each, and keeps what it was asked with."""

    def __init__(self, *names):
        self.names = names
        self.asked = []
        self.kept = []

    async def request(self, method, path, *, params):
        """Answer with the next page."""
        self.asked.append((method, path, params))
        items = Objects([{"metadata": {"name": self.names[len(self.kept)]}}])
        self.kept.append(weakref.ref(items))
        following = "" if len(self.kept) == len(self.names) else f"after-{len(self.kept)}"
        return {"metadata": {"resourceVersion": "7", "continue": following}, "items": items}


async def test_each_page_says_whether_more_follow():
    """Each but the first is asked for with what the one before ended with."""
    session = Session("a", "b")

    told = [(version, list(items), more) async for version, items, more in pages(session, CLAIMS, 1)]

    assert told == [("7", [{"metadata": {"name": name}}], more) for name, more in (("a", True), ("b", False))]
    assert [params for *_, params in session.asked] == [{"limit": "1"}, {"limit": "1", "continue": "after-1"}]


async def test_a_page_is_let_go_at_its_end():
    """While a list waits for room, it must not hold what has been delivered."""
    session = Session("a", "b")

    async for _, items, _ in pages(session, CLAIMS, 1):
        assert session.kept[-1]() is not None
        assert len(list(items)) == 1
        assert session.kept[-1]() is None
