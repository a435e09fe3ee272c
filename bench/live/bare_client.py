"""The bare client: it sends the two writes of each claim, 16 claims at a time, and decides nothing.

    python bench/live/bare_client.py --server URL --authority FILE --token FILE --claims PATH --count N --devices N

This is what the API server and a Python client can do at most: no watch of devices, no search, no ledger. The
claims must exist, or come while it runs (`--watch`); claim number N (by its name, which ends in the number)
gets device number N. The writes are those of the operator, finalizer and allocation, each with the
resourceVersion it builds on, and all of it was put together before but for that. It ends when all are written.
"""

import argparse
import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

sys.path.insert(0, str(Path(__file__).parents[1]))

from dra_operator.api.names import FINALIZER
from live.objects import CLASS

AT_ONCE = 16
PARAMETERS = {"fieldManager": "dra-operator"}
HEADERS = {"Content-Type": "application/merge-patch+json"}


@dataclass(frozen=True, slots=True)
class Pending:
    """A claim to be allocated."""

    name: str
    uid: str
    version: str


def pending(body: dict[str, Any]) -> Pending:
    """Return what the writes need to know of a claim."""
    metadata = body["metadata"]
    return Pending(metadata["name"], metadata["uid"], metadata["resourceVersion"])


def allocation(number: int, devices: int) -> dict[str, Any]:
    """Return the allocation of claim number `number` on nodes with so many devices each."""
    node = f"node-{number // devices:04}"
    result = {"request": "gpu", "driver": CLASS, "pool": node, "device": f"gpu-{number % devices}"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }


class BareClient:
    """Sends the writes."""

    def __init__(self, http: aiohttp.ClientSession, claims: str, devices: int) -> None:
        self._http = http
        self._claims = claims
        self._devices = devices

    async def list(self) -> AsyncIterator[Pending]:
        """Yield the claims that there are."""
        async with self._http.get(self._claims) as answer:
            answer.raise_for_status()
            for item in orjson.loads(await answer.read())["items"]:
                yield pending(item)

    async def watch(self) -> AsyncIterator[Pending]:
        """Yield the claims as they come, for ever."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._http.get(self._claims, params={"watch": "true"}, timeout=timeout) as stream:
            stream.raise_for_status()
            print("watching", flush=True)
            async for line in stream.content:
                event = orjson.loads(line)
                if event["type"] == "ADDED":
                    yield pending(event["object"])

    async def write(self, claim: Pending) -> None:
        """Send the two writes of a claim."""
        number = int(claim.name.rpartition("-")[2])
        version = await self._patch(
            claim, "", {"metadata": {"finalizers": [FINALIZER], **_unchanged(claim.uid, claim.version)}}
        )
        status = {"allocation": allocation(number, self._devices)}
        await self._patch(claim, "/status", {"metadata": _unchanged(claim.uid, version), "status": status})

    async def _patch(self, claim: Pending, part: str, patch: dict[str, Any]) -> str:
        path = f"{self._claims}/{claim.name}{part}"
        data = orjson.dumps(patch)
        async with self._http.patch(path, params=PARAMETERS, data=data, headers=HEADERS) as answer:
            content = await answer.read()
            if answer.status != 200:
                raise RuntimeError(f"PATCH {path}: {answer.status} {content.decode()}")
            version: str = orjson.loads(content)["metadata"]["resourceVersion"]
            return version


def _unchanged(uid: str, version: str) -> dict[str, str]:
    return {"uid": uid, "resourceVersion": version}


async def run(arguments: argparse.Namespace) -> None:
    """Write as many claims as there are to be, then end."""
    tls = ssl.create_default_context(cafile=arguments.authority)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        headers={
            "Authorization": f"Bearer {arguments.token.read_text().strip()}",
            "Accept-Encoding": "identity",
        },
    ) as http:
        client = BareClient(http, arguments.server + arguments.claims, arguments.devices)
        claims: asyncio.Queue[Pending] = asyncio.Queue()
        unwritten = arguments.count

        async def writer() -> None:
            nonlocal unwritten
            while unwritten > 0:
                unwritten -= 1
                await client.write(await claims.get())

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(writer())
            to_come = arguments.count
            async for claim in client.watch() if arguments.watch else client.list():
                claims.put_nowait(claim)
                to_come -= 1
                if not to_come:
                    break


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", required=True)
    parser.add_argument(
        "--authority", required=True, help="file with the certificate of the API server's authority"
    )
    parser.add_argument("--token", type=Path, required=True, help="file with a bearer token")
    parser.add_argument("--claims", required=True, help="path of the collection of claims")
    parser.add_argument("--count", type=int, required=True, help="how many claims there are to write")
    parser.add_argument("--devices", type=int, required=True, help="devices of a node")
    parser.add_argument("--watch", action="store_true", help="write claims as they are created")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
