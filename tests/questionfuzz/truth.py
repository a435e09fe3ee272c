"""The truth: the operator allocates what somebody creates on the API server in memory."""

import asyncio
from copy import deepcopy
from typing import Any

from cluster import PENDING, Operator, access_to
from dra_operator.cluster.session import ApiSession
from faulty_server import FaultyServer
from questionfuzz.world import NAMESPACE, Body, World

SECONDS = 30.0


async def allocate(world: World, count: int) -> list[Body]:
    """Return copies of a world's claim after the operator has decided all of them."""
    claims = world.claims(count)
    async with FaultyServer() as server, ApiSession(access_to(server.url)):
        server.load(deepcopy(body) for body in (*world.objects, *claims))
        operator = await Operator(server.url).start()
        try:
            for _ in range(int(SECONDS / 0.005)):
                found = [_get(server, body["metadata"]["name"]) for body in claims]
                if all(map(is_decided, found)):
                    return found
                await asyncio.sleep(0.005)
        finally:
            await operator.manager.close()
    raise AssertionError(f"not all claims are decided: {found}")


def _get(server: FaultyServer, name: str) -> Body:
    body = server.get("ResourceClaim", name, NAMESPACE)
    assert body is not None
    return body


def is_decided(body: Body) -> bool:
    """Return whether a claim is allocated, or says why it waits."""
    return bool(allocation_of(body)) or message_of(body) is not None


def allocation_of(body: Body) -> dict[str, Any]:
    """Return the allocation of a claim."""
    found: dict[str, Any] = (body.get("status") or {}).get("allocation") or {}
    return found


def devices_of(body: Body) -> list[tuple[str, str, str]]:
    """Return request, pool and name of each device of a claim."""
    results = allocation_of(body).get("devices", {}).get("results", [])
    return [(result["request"], result["pool"], result["device"]) for result in results]


def message_of(body: Body) -> str | None:
    """Return why a claim waits."""
    found: str | None = (body["metadata"].get("annotations") or {}).get(PENDING)
    return found
