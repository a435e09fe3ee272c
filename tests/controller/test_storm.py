"""The operator in a storm: whatever comes together, no device is ever given to two claims.

Each seed is another mixture: claims are deleted and made anew under their names, faster than a watch that is cut again
and again can tell of it, while writes are lost, refused and answered by errors. The truth is what is stored.
"""

import asyncio
import random
from collections import Counter

import pytest

from cluster import CLASS, claim, node, resource_slice
from dra_operator.cluster import writer
from dra_operator.cluster.backoff import Backoff
from dra_operator.controller import write_results

NAMES = [f"claim-{number}" for number in range(8)]
ROUNDS = 400


@pytest.fixture
def hasty(monkeypatch):
    """Let what was put off be tried again at once, so that much happens in a second."""
    monkeypatch.setitem(writer.Writer.__init__.__kwdefaults__, "backoff", Backoff(base=0.001, cap=0.01))
    for pause in ("STALE", "DENIED", "UNCLEAR"):
        monkeypatch.setattr(write_results, pause, (0.02, 0.05))


@pytest.mark.parametrize("seed", range(4))
async def test_no_device_is_given_twice(hasty, cluster, operator, seed):
    """After each step of the storm, every device is in one allocation at most."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    server, faults = cluster.server, cluster.server.faults
    storms = [
        lambda: faults.cut_watches("ResourceClaim"),
        lambda: faults.lose_answer(verb="patch", times=3),
        lambda: faults.lose_answer(verb="get"),
        lambda: faults.refuse(verb="patch", times=2),
        lambda: faults.answer(chance.choice([400, 403, 409, 422, 429, 500, 503]), verb="patch", times=3),
        lambda: faults.answer(503, verb="get", times=2),
        lambda: faults.answer(503, verb="list"),
    ]
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1", "gpu-2", "gpu-3"))
    held_in_all = 0
    for number in range(ROUNDS):
        if chance.random() < 0.4:
            chance.choice(storms)()
        name = chance.choice(NAMES)
        stored = server.get("ResourceClaim", name, "default")
        if stored is None:
            cluster.put(claim(name))
        elif chance.random() < 0.3:
            server.remove("ResourceClaim", name, "default")
            if chance.random() < 0.5:
                cluster.put(claim(name))
        elif chance.random() < 0.1:
            cluster.put(stored | {"metadata": stored["metadata"] | {"labels": {"n": str(number)}}})
        held = Counter(device for each in NAMES for device in cluster.devices(each))
        assert set(held.values()) <= {1}, held
        held_in_all += len(held)
        await asyncio.sleep(0.003)
    faults.clear()

    assert held_in_all > ROUNDS / 4
