"""When credentials are read: again and again, by one at a time, and no more often than it helps."""

import datetime as dt

import pytest

from dra_operator.cluster.access import Access

from .script import credentials


class Source:
    """Credentials of some sort, how often they were read, and what time it is."""

    def __init__(self, **sort):
        self.readings, self.now, self.sort = 0, 7000.0, sort
        self.access = Access(self.read, lambda: self.now)

    def read(self):
        """Return them."""
        self.readings += 1
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
