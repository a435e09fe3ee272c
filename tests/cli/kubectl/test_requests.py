"""Requests by kubectl: the program itself, on the server in memory, and what is said where it cannot read."""

import asyncio
import json

import pytest
import yaml

from controlplane.binaries import find
from dra_operator.cli.kubectl.options import Options
from dra_operator.cli.kubectl.requests import Context, ReadingError, RefusedError, connect

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(scope="module")
def program():
    """Return where kubectl is."""
    found = find("kubectl")
    if found is None:
        pytest.skip("kubectl is not on this machine (KUBEBUILDER_ASSETS, or the cache of the control plane)")
    return found


@pytest.fixture
def kubectl(program, cluster, tmp_path, monkeypatch):
    """Return a function that makes kubectl for the cluster, whose kubeconfig may be changed before."""
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def make(change=lambda _: None, **options):
        config = yaml.safe_load(cluster.server.kubeconfig())
        change(config)
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        return connect(Options(kubeconfig=str(tmp_path / "kubeconfig"), **options))

    return make


async def get(kubectl, path=SLICES):
    """Have it read while the server of this thread answers."""
    return await asyncio.to_thread(kubectl.get, path)


async def test_refusal_has_its_reason(kubectl, cluster):
    """What is not permitted, and what is not served, are told from each other."""
    cluster.server.faults.answer(403, kind="ResourceSlice", times=None, message="may not")

    with pytest.raises(RefusedError, match="may not") as refused:
        await get(kubectl())
    with pytest.raises(RefusedError) as missing:
        await get(kubectl(), "/apis/example.com/v1/things")

    assert (refused.value.reason, missing.value.reason) == ("Forbidden", "NotFound")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda faults: faults.lose_answer(kind="ResourceSlice", times=None), "EOF"),
        (lambda faults: faults.answer(401, times=None), "You must be logged in to the server"),
        (lambda faults: faults.delay(5), "(Client.Timeout|deadline exceeded|request canceled)"),
    ],
    ids=["answer cut", "not logged in", "silent"],
)
async def test_server_that_does_not_answer_is_told_in_the_words_of_kubectl(kubectl, cluster, fault, words):
    """With the path that was asked for."""
    fault(cluster.server.faults)

    with pytest.raises(ReadingError, match=f"{SLICES}: .*{words}"):
        await get(kubectl(timeout=0.3))


async def test_server_without_tls_is_told_in_the_words_of_kubectl(kubectl):
    """Whoever has https in the kubeconfig for such a server reads what it answered, not a number of OpenSSL."""

    async def answer(reader, writer):
        await reader.read(1024)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]

        def secure(config):
            config["clusters"][0]["cluster"] = {"server": f"https://127.0.0.1:{port}"}
            config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": "one"}}]

        with pytest.raises(ReadingError, match=f"{SLICES}: .*server gave HTTP response to HTTPS client"):
            await get(kubectl(secure))


async def test_server_that_asks_to_wait_is_asked_again(kubectl, cluster):
    """429 with Retry-After is obeyed."""
    cluster.server.faults.answer(429, kind="ResourceSlice", retry_after=1)

    assert len((await get(kubectl()))["items"]) == 2


def test_context_has_namespace_and_plugin(kubectl):
    """By the words of the kubeconfig; without a kubeconfig they are kubectl's."""

    def change(config):
        config["contexts"][0]["context"]["namespace"] = "team-a"
        config["users"] = [
            {"name": config["contexts"][0]["context"]["user"], "user": {"exec": {"command": "x"}}}
        ]

    assert kubectl().context() == Context("default")
    assert kubectl(change).context() == Context("team-a", has_plugin=True)
    assert connect(Options()).context() == Context("default")


def test_without_kubectl_it_is_said_what_is_missing(monkeypatch, tmp_path):
    """It is what the cluster is read by."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ReadingError, match="kubectl is not in the PATH"):
        connect(Options())
