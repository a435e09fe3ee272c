"""The in-memory API server answers as kube-apiserver does.

Each scenario is a sequence of requests that is sent to both; every pair of answers must be equal: status code, content
type, warnings, body. The answers of the real server are also compared with those recorded in tests/sim, by which the
in-memory server is tested where there is no control plane. To record them anew: RECORD_ANSWERS=1 pytest <this file>.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from controlplane import ControlPlane
from dra_operator.sim.server import ApiServer
from sim.comparison import Side, differences
from sim.recording import Answers, read_recording, write_recording
from sim.scenarios import SCENARIOS


@pytest.fixture(scope="module")
def recording() -> Iterator[dict[str, Answers]]:
    """Return the recorded answers by scenario; written back after the last test if they are recorded anew."""
    if "RECORD_ANSWERS" not in os.environ:
        yield read_recording()
        return
    found: dict[str, Answers] = {}
    yield found
    write_recording(found)


@asynccontextmanager
async def both(control_plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[Side, Side]]:
    """Yield the real server and the one in memory, each with the namespace."""
    tls = ssl.create_default_context(cafile=str(control_plane.ca))
    headers = {"Authorization": f"Bearer {control_plane.tokens['admin']}"}
    async with ApiServer() as server:
        server.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace}})
        connector = aiohttp.TCPConnector(ssl=tls)
        async with (
            aiohttp.ClientSession(control_plane.server, headers=headers, connector=connector) as real,
            aiohttp.ClientSession(server.url) as sim,
        ):
            yield Side(real, namespace), Side(sim, namespace)


@pytest.mark.parametrize("name", list(SCENARIOS))
async def test_the_answers_are_those_of_kube_apiserver(
    control_plane: ControlPlane, namespace: str, recording: dict[str, Answers], name: str
) -> None:
    """A sequence of requests gets the same answers from the in-memory API server as from the real one."""
    found: list[str] = []
    expected_answers: Answers = []
    async with both(control_plane, namespace) as (real, sim):
        for number, step in enumerate(SCENARIOS[name]):
            expected, answered = await asyncio.gather(real.send(step), sim.send(step))
            expected_answers.append(expected)
            if expected != answered:
                found.append(f"step {number}: {step.method} {step.path}")
                found.extend(differences(expected, answered, ""))

    assert not found, "\n".join(found)
    assert recording.setdefault(name, expected_answers) == expected_answers
