"""The in-memory API server answers as kube-apiserver 1.37.2 was recorded to answer (see tests/real)."""

import aiohttp
import pytest

from dra_operator.testing.server import ApiServer
from factories import manifest

from .comparison import Side, differences
from .recording import Answers, read_recording
from .scenarios import SCENARIOS

# Watches of a second each; test_watch has their facts, and tests/real compares them.
_SLOW = {"watches"}
_NAMESPACE = "scenario"


@pytest.fixture(scope="module")
def recording() -> dict[str, Answers]:
    """Return the recorded answers by scenario."""
    return read_recording()


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in _SLOW])
async def test_the_answers_are_the_recorded_ones(
    server: ApiServer, recording: dict[str, Answers], name: str
) -> None:
    """A sequence of requests gets the answers that kube-apiserver gave."""
    server.put(manifest("Namespace", _NAMESPACE))
    found: list[str] = []
    async with aiohttp.ClientSession(server.url) as session:
        side = Side(session, _NAMESPACE)
        for step, expected in zip(SCENARIOS[name], recording[name], strict=True):
            answered = await side.send(step)
            if expected != answered:
                found.append(f"{step.method} {step.path}")
                found.extend(differences(expected, answered, ""))

    assert not found, "\n".join(found)
