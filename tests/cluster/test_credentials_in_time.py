"""When credentials are read: again and again, by one at a time, and no more often than it helps."""

import contextlib
import datetime as dt

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.credentials import Access, AccessError

from .script import credentials


class Source:
    """Credentials of some sort, how often they were read, and what time it is."""

    def __init__(self, **sort):
        self.readings, self.now, self.set_back, self.sort = 0, 7000.0, 0.0, sort
        self.fails = False
        self.access = Access(self.read, lambda: self.now - self.set_back, lambda: self.now)

    def read(self):
        """Return them."""
        self.readings += 1
        if self.fails:
            raise AccessError("none")
        return credentials("http://api.example", **self.sort)

    def kopf_until(self):
        """Return in how many seconds Kopf logs in again."""
        expiration = self.access.connection_info().expiration
        return (expiration - dt.datetime.fromtimestamp(self.now, tz=dt.UTC)).total_seconds()


@pytest.mark.parametrize(
    ("sort", "seconds"),
    [({"files": True}, 60), ({"expires": 7000.0}, 10)],
    ids=["files", "expired"],
)
def test_credentials_are_read_again_and_again(sort, seconds):
    """Not only once."""
    source = Source(**sort)
    for _ in range(3):
        source.now += seconds - 1
        assert not source.access.due()
        source.now += 1
        assert source.access.due()
        source.access.reload()


@pytest.mark.parametrize("fails", [False, True], ids=["read", "not read"])
def test_a_clock_that_is_set_back_delays_no_reading(fails):
    """Else a token may be over, and nobody asks for the next one, for as long as the clock was ahead."""
    source = Source(expires=7100.0)
    source.fails = fails
    source.now += 40
    with contextlib.suppress(AccessError):
        source.access.reload()
    source.set_back = 3600.0
    source.now += 10

    assert source.access.due()


def test_credentials_that_cannot_be_read_for_long_are_told_of_at_the_start_the_end_and_seldom_between():
    """A plugin may fail all night, each ten seconds, and the line that begins it be gone with an old log."""
    source = Source(files=True)
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


def test_a_plugin_is_not_started_for_a_certificate_that_is_not_trusted():
    """What is printed by one has nothing to do with it; files may be new."""
    plugin, files = Source(), Source(files=True)
    for source in (plugin, files):
        source.access.hasten()
        source.now += 10

    assert (plugin.access.due(), files.access.due()) == (False, True)


def test_a_login_of_kopf_reads_nothing_that_is_not_due():
    """A plugin may take seconds."""
    source = Source(files=True)
    source.access.connection_info()
    assert source.readings == 1
    source.now += 60
    source.access.connection_info()

    assert source.readings == 2


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [(None, 600), (7300.0, 240), (7030.0, 10), (6000.0, 10)],
    ids=["never", "soon", "in a moment", "long ago"],
)
def test_kopf_logs_in_again_before_credentials_expire(expires, seconds):
    """A minute before, but not in a hot loop."""
    assert Source(expires=expires).kopf_until() == seconds


@pytest.mark.parametrize("verify", [True, False])
def test_kopf_trusts_whom_we_trust(verify):
    """Certificates are verified, unless the user wishes otherwise."""
    assert Source(verify=verify).access.connection_info().insecure is not verify
