"""When credentials are read: again and again, by one at a time, and no more often than it helps."""

import contextlib

from structlog.testing import capture_logs

from dra_operator.cluster.credentials import Access, AccessError

from .script import credentials


class Source:
    """Credentials that are renewed or not, how often they were read, and what time it is."""

    def __init__(self, *, changes):
        self.readings, self.now, self.changes = 0, 7000.0, changes
        self.fails = False
        self.access = Access(self.read, lambda: self.now)

    def read(self):
        """Return them."""
        self.readings += 1
        if self.fails:
            raise AccessError("none")
        return credentials("http://api.example", changes=self.changes)


def test_credentials_of_a_pod_are_read_every_minute():
    """Not only once; others are read when they are refused."""
    renewed, other = Source(changes=True), Source(changes=False)
    for _ in range(3):
        renewed.now += 59
        assert not renewed.access.due()
        renewed.now += 1
        assert renewed.access.due()
        renewed.access.reload()
    other.now += 100_000
    assert not other.access.due()


def test_credentials_that_cannot_be_read_for_long_are_told_of_at_the_start_the_end_and_seldom_between():
    """A plugin may fail all night, each ten seconds, and the line that begins it be gone with an old log."""
    source = Source(changes=True)
    lines = []
    for seconds in (0, *range(10, 1300, 10)):
        source.fails = seconds < 1290
        with capture_logs() as logs, contextlib.suppress(AccessError):
            source.access.reload()
        lines += [(seconds, line["event"], line.get("why") or line.get("seconds")) for line in logs]
        source.now += 10

    failing = "credentials cannot be read again, the old ones stay in use"
    assert lines == [
        (0, failing, "none"),
        (600, failing, "none"),
        (1200, failing, "none"),
        (1290, "credentials read again", 1290),
    ]
