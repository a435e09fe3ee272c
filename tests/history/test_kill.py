"""A recorder that is killed at any point leaves a store that opens, with no state twice and no hole that is no gap."""

import asyncio
import os
import resource
import sys
from pathlib import Path
from random import Random

import pytest

from dra_operator.cli.snapshot import read_objects
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.session import ApiSession
from dra_operator.history.reader import Reader
from dra_operator.history.schema import open_store
from dra_operator.testing.server import ApiServer

from .histories import World, credentials, plain
from .test_recorder import check_order

KILLS = int(os.environ.get("N", "2"))


async def wait_for(condition, seconds=240):
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - a condition of any shape
            await asyncio.sleep(0.1)


@pytest.mark.timeout(3600)
async def test_killed_recorder_leaves_a_record(tmp_path):
    """Killed at random points, the record is in order, ends as the cluster is, and knows its gaps."""
    store, config, random = tmp_path / "history.db", tmp_path / "config", Random(1)  # noqa: S311
    command = [Path(sys.executable).with_name("kubectl-dra"), "record", "--to", store, "--kubeconfig", config]
    async with ApiServer() as server:
        config.write_text(server.kubeconfig())
        world, started = World(server, 1, lambda: 1_700_000_000), 0
        for _ in range(KILLS):
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
            seen = await asyncio.to_thread(covered, store)

            async def has_begun(seen=seen):
                world.step()
                return await asyncio.to_thread(covered, store) > seen

            await wait_for(has_begun)
            started += 1
            for _ in range(random.randint(0, 20)):
                world.step()
                await asyncio.sleep(random.random() / 10)
            process.kill()
            await process.wait()
            check_order(Reader(open_store(str(store))))
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        async with ApiSession(Access(lambda: credentials(server.url))) as session:
            listed = plain((await read_objects(session)).bodies)

            async def is_told():
                reader = await asyncio.to_thread(Reader, open_store(str(store)))
                return (
                    len(reader.gaps) == started
                    and plain(reader.read_moment(reader.span.until).bodies) == listed
                )

            await wait_for(is_told)
        process.terminate()
        assert await process.wait() == 0


def covered(store):
    """Return up to when a store is complete; 0 if it has nothing."""
    try:
        return Reader(open_store(str(store))).span.until
    except Exception:  # noqa: BLE001 - there is none yet
        return 0


MOST_BYTES = 400_000
"""So large may a file of the store become."""


def limit_files():
    """Let this process, which is about to be a recorder, write no file that is larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, resource.RLIM_INFINITY))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_killed", [False, True])
async def test_full_disk_is_a_gap(tmp_path, is_killed):
    """Where nothing more can be written there is a gap; afterwards, also for another recorder, it goes on."""
    store, config = tmp_path / "history.db", tmp_path / "config"
    command = [Path(sys.executable).with_name("kubectl-dra"), "record", "--to", store, "--kubeconfig", config]
    async with ApiServer() as server:
        config.write_text(server.kubeconfig())
        world = World(server, 1, lambda: 1_700_000_000)
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, preexec_fn=limit_files
        )
        async with asyncio.timeout(240):
            while b"not stored" not in await asyncio.wait_for(next_line(process, world), 240):
                pass
        before = await asyncio.to_thread(covered, store)
        check_order(Reader(open_store(str(store))))
        for _ in range(20):
            world.step()
        if is_killed:
            process.kill()
            await process.wait()
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        else:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        async with ApiSession(Access(lambda: credentials(server.url))) as session:
            listed = plain((await read_objects(session)).bodies)

            async def is_told():
                reader = await asyncio.to_thread(Reader, open_store(str(store)))
                return (
                    reader.span.until > before
                    and plain(reader.read_moment(reader.span.until).bodies) == listed
                )

            await wait_for(is_told)
        process.terminate()
        assert await process.wait() == 0
    reader = Reader(open_store(str(store)))

    check_order(reader)
    assert reader.gaps


async def next_line(process, world):
    """Let something happen until a process says something, and return that."""
    line = asyncio.create_task(process.stderr.readline())
    while not line.done():
        world.step()
        await asyncio.sleep(0.02)
    return line.result()
