"""The operator decides by the rules of the API server's version, and begins anew when other ones hold."""

import pytest
from structlog.testing import capture_logs

from cluster import CLASS, Operator, claim, node, resource_slice

OTHER = "gpu.example.com/memory"


@pytest.fixture(autouse=True)
def asked_often(monkeypatch):
    """The API server is asked for its version often enough for tests."""
    monkeypatch.setattr("dra_operator.controller.manager.REDISCOVER_SECONDS", 0.1)


def shared_device():
    """A slice with one device that has 10 of memory, in shares."""
    found = resource_slice("gpu-0")
    found["spec"]["devices"][0] |= {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "10"}},
    }
    return found


def share(name, **consumed):
    """A claim that has a share of it, as another allocator wrote it."""
    result = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "pool-1",
        "device": "gpu-0",
        "shareID": "11111111-0000-4000-8000-00000000000" + name[-1],
        "consumedCapacity": consumed,
    }
    return claim(name) | {"status": {"allocation": {"devices": {"results": [result]}}}}


def asks_for(name, memory):
    """A claim for a share of it."""
    return claim(name, request={"capacity": {"requests": {"memory": memory}}})


@pytest.fixture
async def begin(cluster):
    """Start the operator anew, as a kubelet does after its process ended; all are stopped at the end."""
    started = []

    async def begin():
        started.append(await Operator(cluster.server.url).start())
        return await started[-1].ready()

    yield begin
    for operator in started:
        await operator.manager.close()


async def test_an_upgrade_and_its_end_change_the_rules(cluster, begin):
    """A share stored under the bare name and one under the full name are summed from 1.38 on, each once."""
    cluster.put(node(), CLASS, shared_device())
    cluster.put(share("share-1", memory="4"), share("share-2", **{"memory": "1", OTHER: "3"}))
    operator = await begin()
    cluster.put(asks_for("early", "2"))
    assert await cluster.allocated("early") == ["gpu-0"]

    cluster.server.version = "v1.38.0"
    await cluster.until(lambda: operator.crashed)
    assert operator.manager.stuck() == [
        "the API server is v1.38.0 now: the rules of Kubernetes 1.38 hold, no longer those of 1.37"
    ]
    await operator.manager.close()
    operator = await begin()
    # 4 + 3 + 2 are used: with both spellings of one share the full one counts.
    cluster.put(asks_for("late", "2"))
    assert "memory" in await cluster.waits("late")
    cluster.put(asks_for("small", "1"))
    assert await cluster.allocated("small") == ["gpu-0"]

    cluster.server.version = "v1.37.2"
    await cluster.until(lambda: operator.crashed)
    await operator.manager.close()
    await begin()
    # By its bare name 4 + 1 + 2 + 1 are used.
    assert await cluster.allocated("late") == ["gpu-0"]


async def test_servers_of_two_versions_behind_one_address_are_followed_once(cluster, begin):
    """While they are upgraded one by one either may answer: the newer rules hold then, and it does not begin again."""
    operator = await begin()
    cluster.server.version = "v1.38.0"
    await cluster.until(lambda: operator.crashed)
    await operator.manager.close()
    operator = await begin()
    for version in ("v1.37.2", "v1.38.0") * 3:
        cluster.server.version = version
        await cluster.stays(lambda: not operator.crashed)


async def test_a_patch_release_changes_nothing(cluster, begin):
    """The rules are those of the minor version; one that does not say its version is of no other."""
    operator = await begin()
    for version in ("v1.37.9", ""):
        cluster.server.version = version
        await cluster.stays(lambda: not operator.crashed)


async def test_the_log_says_by_which_rules_it_decides(cluster, begin):
    """Who wonders about a decision finds the version of Kubernetes there."""
    cluster.server.version = "v1.38.0-beta.0"
    with capture_logs() as logs:
        await begin()

    assert [entry["rules"] for entry in logs if entry["event"] == "connected"] == ["of Kubernetes 1.38"]
