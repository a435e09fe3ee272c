"""Fixtures: a scripted API server and a session with it, a reflector that runs, a writer, a kubeconfig."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import yaml
from aiohttp import web

from dra_operator.cluster.credentials import Access
from dra_operator.cluster.session import ApiSession

from .mirror import Mirror
from .recording import Recording
from .script import Script, credentials
from .writing import Desk


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A scripted API server on a free port."""
    played = Script()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", played.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    played.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield played
    await runner.cleanup()


@pytest.fixture
async def session(script: Script) -> AsyncIterator[ApiSession]:
    """A session with the scripted server."""
    async with ApiSession(Access(lambda: credentials(script.url))) as opened:
        yield opened


@pytest.fixture
async def mirror(session):
    """A reflector that runs for as long as the test."""
    tasks = []

    def start(**settings):
        made = Mirror(session, **settings)
        tasks.append(asyncio.create_task(made.reflector.run()))
        return made

    yield start
    for task in tasks:
        assert not task.done(), "a reflector never dies"
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def desk(session):
    """A writer that is stopped when the test ends."""
    made = []

    def start(**settings):
        made.append(Desk(session, **settings))
        return made[-1]

    yield start
    for each in made:
        await each.writer.drain(0)


@pytest.fixture
def kubeconfig(tmp_path):
    """Write a kubeconfig with this user and cluster, and return its path."""

    def write(user=None, cluster=None, context=None, name="config"):
        path = tmp_path / name
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "here",
                    "contexts": [
                        {"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}
                    ],
                    "clusters": [
                        {"name": "c", "cluster": {"server": "https://api.example:8443", **(cluster or {})}}
                    ],
                    "users": [{"name": "u", "user": user or {}}],
                }
            )
        )
        return str(path)

    return write


@pytest.fixture
async def recording(session):
    """A recorder that runs for as long as the test."""
    tasks = []

    def start(**settings):
        made = Recording(session, **settings)
        tasks.append(asyncio.create_task(made.recorder.run()))
        return made

    yield start
    for task in tasks:
        assert not task.done(), "the recorder never dies"
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
