"""Claims change 50 times a second while `kubectl dra record` keeps them: `python bench/record_load.py [--seconds 600]`.

The API server is in memory, in this process; the recorder is the real program with a store of SQLite, or `--to URL`.
A claim is created, gets a device and a user, loses them and is deleted. The lag of a change is from its write until
the store has it. Printed are the lag, the recorder's memory at its peak and processor time, and the load of the
machine; the exit code is 1 if a change is not in the store once.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sqlalchemy import select

from dra_operator.history.reader import Reader
from dra_operator.history.schema import META, StoreError, open_store, transaction
from dra_operator.testing.server import ApiServer
from factories import allocation, claim, device_class, manifest, resource_slice, result

NODES: Final = 100
CARDS: Final = 8
STEPS: Final = 4
"""Changes of a claim: created, allocated, given back, deleted."""
POLL_SECONDS: Final = 0.05


def cluster() -> Iterator[dict[str, Any]]:
    """Yield nodes with cards, and their class."""
    yield device_class()
    for number in range(NODES):
        name = f"node-{number:03}"
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "64", "pods": "110"},
        }
        yield manifest("Node", name, {}, status=status)
        yield resource_slice(f"{name}-slice", [{"name": f"gpu-{card}"} for card in range(CARDS)], pool=name)


def processor_time_of(pid: int) -> float:
    """Return how many seconds of a processor a process had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(pid: int) -> float:
    """Return how many MiB a process had at most."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


class Load:
    """Claims that change; `written` is when, in seconds, by name and step."""

    def __init__(self, server: ApiServer, rate: float, seconds: float) -> None:
        self.written: dict[tuple[str, int], float] = {}
        self._server = server
        self._rate = rate
        self._seconds = seconds

    async def run(self) -> None:
        """Change claims so often a second for so long, each as often as the others."""
        begun, number = time.monotonic(), 0
        while (late := time.monotonic() - begun) < self._seconds:
            while number < late * self._rate:
                # As many claims live at a time as there are cards.
                block, place = divmod(number, STEPS * NODES * CARDS)
                step, card = divmod(place, NODES * CARDS)
                self._change(f"claim-{block:04}-{card:03}", step, card)
                number += 1
            await asyncio.sleep(0.005)

    def _change(self, name: str, step: int, card: int) -> None:
        if step == STEPS - 1:
            self._server.remove("ResourceClaim", name, "default")
        else:
            uid = f"00000000-0000-4000-8000-{name[6:10]}{name[11:]:>08}"
            body = claim(name, namespace="default", uid=uid, creationTimestamp="2026-01-01T00:00:00Z")
            if step == 1:
                node, user = f"node-{card // CARDS:03}", {"resource": "pods", "name": name, "uid": "1"}
                told = allocation(result(f"gpu-{card % CARDS}", node), node=node)
                body["status"] = {"allocation": told, "reservedFor": [user]}
            self._server.put(body)
        self.written[name, step] = time.time()


async def follow(url: str, found: list[tuple[float, int]]) -> None:
    """Note when the store is complete up to which time, again and again."""
    engine, query = open_store(url), select(META.c.value).where(META.c.key == "covered")

    def ask() -> int:
        with transaction(engine) as connection:
            return int(connection.scalar(query) or 0)

    while True:
        covered = await asyncio.to_thread(ask)
        if not found or covered > found[-1][1]:
            found.append((time.time(), covered))
        await asyncio.sleep(POLL_SECONDS)


def times_of(reader: Reader) -> dict[str, list[int]]:
    """Return, by claim, when the record has it change; the last is its end, if it ended."""
    found, ends = defaultdict[str, list[int]](list), dict[str, list[int]]()
    for row in reader.read_states(reader.span, "ResourceClaim"):
        found[row.name].append(row.since)
        ends[row.name] = [] if row.is_open else [row.until]
    return {name: times + ends[name] for name, times in found.items()}


def report(load: Load, reader: Reader, polls: list[tuple[float, int]]) -> int:
    """Print how late the store had what was written, and return how many changes it does not have once."""
    lags, recorded = list[float](), times_of(reader)
    for (name, step), at in load.written.items():
        if len(times := recorded.get(name, [])) > step:
            seen = bisect_left(polls, times[step], key=itemgetter(1))
            lags += [polls[seen][0] - at] if seen < len(polls) else []
    lags.sort()
    p50, p99 = (lags[int(len(lags) * part)] for part in (0.5, 0.99))
    print(
        f"lag: p50 {p50:.2f} s, p99 {p99:.2f} s, most {lags[-1]:.2f} s; {len(lags)} of {len(load.written)} changes"
    )
    wrong = len(load.written) - len(lags) + sum(len(times) > STEPS for times in recorded.values())
    print(f"gaps: {len(reader.gaps)}; changes that are not in the record once: {wrong}")
    return wrong


async def measure(given: argparse.Namespace, folder: Path) -> int:
    """Record under load, and return how many changes are not in the record once."""
    config, url = folder / "config", given.to or f"sqlite:///{folder}/history.db"
    async with ApiServer() as server:
        server.load(cluster())
        config.write_text(server.kubeconfig())
        program = Path(sys.executable).with_name("kubectl-dra")
        process = await asyncio.create_subprocess_exec(
            program, "record", "--to", url, "--kubeconfig", config, stderr=asyncio.subprocess.DEVNULL
        )
        while not await asyncio.to_thread(_has_begun, url):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
        polls: list[tuple[float, int]] = []
        following = asyncio.create_task(follow(url, polls))
        load, begun = Load(server, given.rate, given.seconds), time.monotonic()
        before = processor_time_of(process.pid)
        await load.run()
        busy, took = processor_time_of(process.pid) - before, time.monotonic() - begun
        peak = peak_of(process.pid)
        await asyncio.sleep(5)
        following.cancel()
        process.terminate()
        await process.wait()
    print(f"{len(load.written) / took:.1f} changes a second for {took:.0f} s; load {os.getloadavg()[1]:.1f}")
    print(f"recorder: peak {peak:.0f} MiB, {busy / took:.3f} of a processor")
    return report(load, Reader(open_store(url)), polls)


def _has_begun(url: str) -> bool:
    try:
        Reader(open_store(url))
    except StoreError:
        return False
    return True


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--to", default="", help="the store: an empty database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return int(asyncio.run(measure(given, Path(folder))) > 0)


if __name__ == "__main__":
    sys.exit(main())
