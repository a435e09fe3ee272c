"""Requests: by TLS, by a proxy, and what is said of answers that are none."""

import asyncio
import http.server
import json
import signal
import socket
import ssl
import sys
import threading

import pytest

from dra_operator.cli.kubectl.access import UserAccess
from dra_operator.cli.kubectl.client import ApiClient
from dra_operator.cli.kubectl.errors import RefusedError, RequestError
from dra_operator.cli.kubectl.reading import Progress

PODS = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what the server holds, and closes each connection if it is told so."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Answer."""
        content = self.server.answer
        self.send_response(self.server.code)
        self.send_header("Content-Length", str(len(content) + self.server.missing))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = self.server.closes

    def log_message(self, *_):
        """Keep silent."""


@pytest.fixture
def server(authority):
    """An API server by TLS, whose certificate names api.example."""
    certificate, key = authority.issue("server", hosts=("api.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.socket = context.wrap_socket(found.socket, server_side=True)
        found.answer, found.code, found.missing, found.closes = json.dumps(PODS).encode(), 200, 0, False
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def client(server, authority):
    """Return a function that returns a client for the server; all are closed afterwards."""
    made = []

    def make(server_name="api.example", proxy=""):
        context = ssl.create_default_context(cafile=str(authority.path))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        port = server.server_address[1]
        access = UserAccess(f"https://127.0.0.1:{port}", "default", (), context, server_name, proxy)
        made.append(ApiClient(access, 10))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def proxy():
    """A proxy that makes one tunnel, and what it was asked."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            inward, _ = listening.accept()
            with inward:
                head = inward.recv(4096).decode()
                asked.append(head)
                host, _, port = head.split()[1].rpartition(":")
                with socket.create_connection((host, int(port))) as outward:
                    inward.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=copy, args=(outward, inward))
                    back.start()
                    copy(inward, outward)
                    back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://ann:secret@127.0.0.1:{listening.getsockname()[1]}", asked
        thread.join(10)


def copy(source, target):
    """Copy what comes until the end."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def pods(client):
    """Return the names of what is listed."""
    return [item["metadata"]["name"] for items, _, _ in client.pages("/api/v1/pods") for item in items]


def test_server_may_have_another_name_in_its_certificate(client):
    """As `tls-server-name` of the kubeconfig says."""
    assert pods(client()) == ["a"]


def test_certificate_for_another_name_is_not_trusted(client):
    """The line names the server, and no request is sent."""
    with pytest.raises(RequestError, match="its certificate is not trusted"):
        pods(client(server_name=None))


def test_proxy_makes_a_tunnel(client, proxy):
    """It learns where to, and who asks, and nothing of what is asked."""
    url, asked = proxy
    found = client(proxy=url)

    assert pods(found) == ["a"]
    found.close()
    assert asked[0].startswith("CONNECT 127.0.0.1:")
    assert "Proxy-Authorization: Basic YW5uOnNlY3JldA==" in asked[0]


@pytest.mark.parametrize("proxy_url", ["socks5://u:secret@h:1", "https://h:1"])
def test_proxy_of_another_protocol_is_refused(client, proxy_url):
    """What is told has no password in it."""
    with pytest.raises(RequestError, match="is not supported: name one with http://") as refused:
        pods(client(proxy=proxy_url))

    assert "secret" not in str(refused.value)


def test_connection_that_the_server_closed_is_made_anew(client, server):
    """That it was closed between two requests is no fault of the second."""
    server.closes = True
    found = client()

    assert [pods(found), pods(found)] == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("answer", "missing", "words"),
    [
        (b'{"items": [', 100, "the connection was cut in the middle of the answer"),
        (b'{"items": [', 0, "the answer is not JSON, or was cut"),
        (b"[]", 0, "the answer is not a JSON object"),
        (b'{"items": []}', 0, "the answer is no list of objects"),
        (b'{"metadata": {"resourceVersion": "1"}}', 0, "the answer is no list of objects"),
    ],
)
def test_half_an_answer_is_an_error(client, server, answer, missing, words):
    """Never an empty list."""
    server.answer, server.missing = answer, missing
    server.closes = bool(missing)

    with pytest.raises(RequestError, match=words):
        pods(client())


def test_page_of_a_gateway_is_named_by_its_code(client, server):
    """What stands before an API server answers in its own way."""
    server.answer, server.code = b"<html>Bad Gateway</html>", 502

    with pytest.raises(RefusedError, match="502: <html>Bad Gateway</html>") as refused:
        pods(client())

    assert not refused.value.is_status


def test_server_that_is_not_there_is_named(client, server):
    """With what to look at."""
    found = client()
    server.socket.close()
    server.shutdown()

    with pytest.raises(
        RequestError, match="connection refused: is it running, and is it the right --context"
    ):
        pods(found)


@pytest.mark.parametrize(
    ("is_terminal", "first"), [(False, "reading pods 500 of 2,000 ...\n"), (True, "\rreading pods")]
)
def test_progress_is_said_when_reading_takes_long(monkeypatch, is_terminal, first):
    """At a terminal the line is written over, and gone at the end."""
    monkeypatch.setattr("dra_operator.cli.kubectl.reading.PROGRESS_SECONDS", 0.01)
    written, said = [], threading.Event()

    def write(text):
        written.append(text)
        said.set()

    progress = Progress(write, is_terminal=is_terminal)
    progress.report("pods", 500, 2000)
    progress.report("nodes", 3, 3)
    with progress:
        assert said.wait(10)

    assert any(text.startswith(first) for text in written)
    assert written[-1] == "\r\x1b[K" if is_terminal else len(written) == 1


@pytest.fixture
def dripping():
    """A server that sends a byte of its answer now and then, and never ends."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            inward, _ = listening.accept()
            with inward:
                inward.recv(65536)
                inward.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not ended.wait(0.05):
                    inward.sendall(b" ")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        ended.set()
        thread.join(10)


def test_a_server_that_drips_is_waited_for_no_longer_than_a_silent_one(dripping):
    """The time is for an answer as a whole."""
    client = ApiClient(UserAccess(dripping, "default", (), None), 0.5)

    with pytest.raises(RequestError, match=r"no answer in 0\.5 s"):
        pods(client)
    client.close()


async def test_ctrl_c_ends_a_read_at_once(tmp_path):
    """With the exit code of shells: 1 would be an answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = tmp_path / "kubeconfig"
        server = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        named = {"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}
        config.write_text(json.dumps({**named, "clusters": [{"name": "c", "cluster": server}]}))
        code = "from dra_operator.cli.kubectl import main; main()"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "fit", "class/gpu", "--kubeconfig", str(config)),
            stderr=asyncio.subprocess.PIPE,
        )
        assert (await process.stderr.readline()).startswith(b"reading ")

        process.send_signal(signal.SIGINT)

        assert await process.wait() == 130
