"""Watches: what comes by them, and that one which is dead is noticed."""

import http.server
import json
import queue
import threading

import pytest

from dra_operator.cli.kubectl.access import UserAccess
from dra_operator.cli.kubectl.client import ApiClient
from dra_operator.cli.kubectl.errors import RefusedError, RequestError
from dra_operator.cli.kubectl.reading import ListedKind
from dra_operator.cli.kubectl.watching import follow, follow_to_the_end

CLAIM = {"metadata": {"name": "a", "namespace": "team", "resourceVersion": "8"}}
LISTED = ListedKind("/apis/resource.k8s.io/v1/resourceclaims", "7", "resource.k8s.io/v1", "ResourceClaim")
SILENT = None
FORBIDDEN = {"type": "ERROR", "object": {"code": 403, "message": "not yours any more"}}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each watch with the next events that the server holds; it hangs where there are none."""

    def do_GET(self):
        """Answer."""
        events = self.server.watches.pop(0)
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        if events is SILENT:
            self.wfile.flush()
            self.server.ended.wait(30)
            return
        for event in events:
            self.wfile.write(json.dumps(event).encode() + b"\n")

    def log_message(self, *_):
        """Keep silent."""


@pytest.fixture
def server():
    """An API server that answers watches."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.watches, found.asked, found.ended = [], [], threading.Event()
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield found
        found.ended.set()
        found.shutdown()
        thread.join()


@pytest.fixture
def client(server):
    """A client of the server."""
    return ApiClient(UserAccess(f"http://127.0.0.1:{server.server_address[1]}", "default", (), None), 10)


def test_watch_that_is_silent_is_begun_anew(client, server):
    """Nothing is lost: it goes on from the last version."""
    server.watches = [[{"type": "ADDED", "object": CLAIM}], SILENT, [FORBIDDEN]]
    changes = queue.Queue()

    ended = follow(client, LISTED, changes, seconds=0, silence=0.2)

    assert isinstance(ended, RefusedError)
    assert changes.get_nowait().key == ("ResourceClaim", "team", "a")
    assert ["resourceVersion=7" in path for path in server.asked] == [True, False, False]
    assert "resourceVersion=8" in server.asked[2]


def test_silence_is_said(client, server):
    """Who waits learns what became of the server."""
    server.watches = [SILENT]

    with pytest.raises(
        RequestError, match=r"the watch is silent for longer than 0\.2 s: the server is gone, or hangs"
    ):
        list(client.watch("/api/v1/pods", "7", 0, 0.2))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ADDED", "object": {"metadata": "a"}},
        {"type": "ADDED", "object": {}},
        {"type": "ERROR", "object": {"code": "many"}},
        {"object": CLAIM},
        {
            "type": "ADDED",
            "object": {
                "metadata": {"name": "a", "annotations": [], "managedFields": 1, "resourceVersion": "8"},
                "spec": {"devices": 7},
            },
        },
    ],
)
def test_watch_that_cannot_be_understood_ends_the_wait(client, server, event):
    """Whatever is wrong, the reason comes last: nobody waits for a thread that is dead."""
    server.watches = [[event], [FORBIDDEN]]
    changes = queue.Queue()

    follow_to_the_end(client, LISTED, changes)

    *_, ended = [changes.get_nowait() for _ in range(changes.qsize())]
    assert isinstance(ended, RefusedError | RequestError)
