"""Operators that are killed again and again, behind a proxy that stores what they sent whenever it likes.

Each seed is another mixture: claims are deleted and made anew, older ones come in between, pods take them and let go of
them, and patches of operators long dead are let through. The truth is what is stored.
"""

import asyncio
import random
from collections import Counter

import pytest

from cluster import CLASS, Operator, claim, node, pod, resource_slice
from dra_operator.cluster import writer
from dra_operator.cluster.backoff import Backoff
from dra_operator.controller import fencing, write_results
from holding_proxy import HoldingProxy

NAMES = [f"claim-{number}" for number in range(5)]
DEVICES = ["gpu-0", "gpu-1"]
LIVES = 20
MOST_LIVES = 200
"""On a slow machine the first of them may send nothing that comes too late."""
STEPS = 12


@pytest.fixture
def hasty(monkeypatch):
    """Let what was put off be tried again at once, so that much happens in a second."""
    monkeypatch.setitem(writer.Writer.__init__.__kwdefaults__, "backoff", Backoff(base=0.001, cap=0.01))
    monkeypatch.setattr(fencing, "AGAIN", (0.01, 0.05))
    for pause in ("STALE", "DENIED", "UNCLEAR"):
        monkeypatch.setattr(write_results, pause, (0.02, 0.05))


@pytest.mark.parametrize("seed", range(3))
async def test_no_device_is_given_twice(hasty, cluster, seed):
    """After each step, every device is in one allocation at most, however many operators were killed."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    server, late = cluster.server, Counter()

    def change():
        name = chance.choice(NAMES)
        if server.get("ResourceClaim", name, "default") is None:
            cluster.put(claim(name, creationTimestamp=f"2026-01-{chance.randint(1, 28):02}T00:00:00Z"))
        elif chance.random() < 0.3:
            server.remove("ResourceClaim", name, "default")
        elif server.get("Pod", name, "default") is None:
            cluster.put(pod(name, uses=name, phase="Pending"))
        else:
            server.remove("Pod", name, "default")

    cluster.put(node(), CLASS, resource_slice(*DEVICES))
    async with HoldingProxy(server.url) as proxy:
        proxy.holds = lambda request: request.method == "PATCH" and chance.random() < 0.5
        for life in range(MOST_LIVES):
            if life >= LIVES:
                late.update(await proxy.let_through())
                if late[200] and late[409]:
                    break
            operator = await Operator(proxy.url).start()
            for _ in range(STEPS):
                change()
                if proxy.held and chance.random() < 0.2:
                    late.update(await proxy.let_through(chance.choice(proxy.held)))
                held = Counter(device for name in NAMES for device in cluster.devices(name))
                assert set(held.values()) <= {1}, held
                await asyncio.sleep(0.005)
            await operator.kill()
        proxy.holds = lambda _: False
        late.update(await proxy.let_through())
        held = Counter(device for name in NAMES for device in cluster.devices(name))
        assert set(held.values()) <= {1}, held
        server.faults.cut_watches()

    assert late[200] > 0
    assert late[409] > 0
