"""The API server of the measurement, in a process of its own: it holds the cluster and does what a cluster does.

    python -m scaling.server --nodes 5000 --claims 10000 --allocated 9000 --kubeconfig FILE

Each line of its input is a job as JSON, `{"do": "cycles", "count": 100000}`; the answers are lines of JSON, and the
last one of a job has `"done": true`. The jobs work on the store itself, without HTTP: what is measured is the
operator, so what a person or a driver would do should cost as little as possible. What the operator does comes in by
HTTP as always, and is judged here, where the truth is.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from live.objects import allocation_of, is_told

from conformance.replay import percentile
from dra_operator.testing.server import ApiServer
from scaling import cluster

Body = dict[str, Any]

CLAIM = "ResourceClaim"
PATIENCE_SECONDS = 120.0
"""How long anything may take before it counts as never."""
OWN_SELECTOR, HOPELESS = 7, 11
"""Of the claims of the cycles, each one so many has a selector that no other has, or one that matches no device."""


def devices_of(claim: Body) -> tuple[tuple[str, str, str], ...]:
    """Return the devices a claim holds; none if it is not allocated."""
    allocation = allocation_of(claim)
    if not allocation:
        return ()
    return tuple((one["driver"], one["pool"], one["device"]) for one in allocation["devices"]["results"])


@dataclass(slots=True)
class Judge:
    """Knows who holds what; `wrong` says what was not as it has to be since the job before."""

    held: dict[tuple[str, str, str], str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def take(self, name: str, devices: tuple[tuple[str, str, str], ...]) -> None:
        """Note that a claim holds devices."""
        for device in devices:
            if (other := self.held.setdefault(device, name)) != name:
                self.wrong.append(f"{'/'.join(device)} is held by {other} and {name}")

    def give_back(self, devices: tuple[tuple[str, str, str], ...]) -> None:
        """Note that devices are held no more."""
        for device in devices:
            self.held.pop(device, None)


class Cluster:
    """The cluster in the server, and the jobs that can be done in it."""

    def __init__(self, server: ApiServer, nodes: int, pods: int) -> None:
        self._server = server
        self._nodes = nodes
        self._pods = pods
        self._judge = Judge()
        self._made = 0
        self._replaced = 0
        self._waiting: set[str] = set()
        """The claims that had no device at the start."""

    def fill(self, claims: int, allocated: int) -> None:
        """Put everything into the store."""
        self._server.put(cluster.device_class())
        self._server.load(cluster.nodes(self._nodes))
        self._server.load(cluster.slices(self._nodes))
        self._server.load(cluster.bound_pod(number, nodes=self._nodes) for number in range(self._pods))
        for body in cluster.claims(claims, allocated, nodes=self._nodes):
            name, devices = body["metadata"]["name"], devices_of(body)
            self._judge.take(name, devices)
            if not devices:
                self._waiting.add(name)
            self._server.put(body)

    async def do(self, job: Body) -> AsyncIterator[Body]:
        """Do a job and yield its answers. Raises ValueError for one that is not known."""
        jobs: Mapping[str, Callable[..., AsyncIterator[Body]]] = {
            "pending": self._pending,
            "idle": self._idle,
            "claims": self._claim_events,
            "slices": self._slice_events,
            "cycles": self._cycles,
            "replace": self._replace,
            "pods": self._pod_events,
            "waiting": self._waiting_pods,
        }
        name = job.pop("do")
        if name not in jobs:
            raise ValueError(f"{name} is none of the jobs {', '.join(jobs)}")
        async for answer in jobs[name](**job):
            yield answer
        found, self._judge.wrong = self._judge.wrong, []
        yield {"done": True, "wrong": found}

    # --- the jobs

    async def _pending(self) -> AsyncIterator[Body]:
        """Wait until the claims that had no device at the start are decided."""
        began = time.monotonic()
        waiting, self._waiting = self._waiting, set()
        allocated = 0
        async for name in self._decided(waiting):
            allocated += bool(devices_of(self._claim(name)))
            self._judge.take(name, devices_of(self._claim(name)))
        yield {"claims": len(waiting), "allocated": allocated, "seconds": time.monotonic() - began}

    async def _idle(self, count: int) -> AsyncIterator[Body]:
        """Make claims one after the other, each when the one before has its device, and tell how long each waited."""
        waits = []
        for _ in range(count):
            name = self._new()
            began = time.monotonic()
            self._server.put(cluster.claim(name))
            async for _ in self._decided({name}, pause=0.001):
                pass
            waits.append((time.monotonic() - began) * 1000)
            self._judge.take(name, devices_of(self._claim(name)))
            await asyncio.sleep(0.05)
        yield {
            "count": len(waits),
            "p50": percentile(waits, 50),
            "p99": percentile(waits, 99),
            "waits": waits,
        }

    async def _claim_events(self, events: int) -> AsyncIterator[Body]:
        """Change labels of allocated claims, then make a claim: when it has its device, all changes were taken in."""
        names = [
            claim["metadata"]["name"]
            for claim in self._server.list(CLAIM, cluster.NAMESPACE)
            if devices_of(claim)
        ]
        began = time.monotonic()
        for number in range(events):
            self._label(names[number % len(names)], number)
            await self._breathe(number)
        name = self._new()
        self._server.put(cluster.claim(name))
        yield await self._finish(name, events, began)

    async def _pod_events(self, events: int, rate: float) -> AsyncIterator[Body]:
        """Change pods, so many a second, then make a claim: when it has its device, all changes were taken in."""
        began = time.monotonic()
        for number in range(events):
            body = cluster.bound_pod(number % self._pods, nodes=self._nodes, turn=1 + number // self._pods)
            self._server.put(body)
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()) if number % 10 == 0 else 0)
        name = self._new()
        self._server.put(cluster.claim(name))
        yield await self._finish(name, events, began)

    async def _waiting_pods(self, count: int, jobs: int) -> AsyncIterator[Body]:
        """Make pods of some Jobs that wait, all at once, and claims meanwhile, until each pod has its Event."""
        pairs = [cluster.waiting_pod(number % jobs, number // jobs) for number in range(count)]
        began, told = time.monotonic(), 0
        for pair in pairs:
            for body in pair:
                self._server.put(body)
        waits: list[float] = []
        while told < count and time.monotonic() < began + PATIENCE_SECONDS:
            async for answer in self._idle(5):
                waits += answer["waits"]
            told = len(
                {
                    event["involvedObject"]["name"]
                    for event in self._server.list("Event")
                    if event["involvedObject"]["kind"] == "Pod"
                }
            )
        seconds = time.monotonic() - began
        if told < count:
            self._judge.wrong.append(f"{count - told} of {count} pods have no Event")
        yield {"count": told, "seconds": seconds, "p50": percentile(waits, 50), "p99": percentile(waits, 99)}

    async def _slice_events(self, events: int) -> AsyncIterator[Body]:
        """Publish slices of a new generation, the last one with a device that a claim is waiting for."""
        name = self._new()
        marked = f"marked-{name}"
        self._server.put(cluster.claim(name, cluster.has_model(marked)))
        async for _ in self._decided({name}):
            pass
        began = time.monotonic()
        for number in range(events):
            # The last one is that of the last node, whose devices are taken last.
            node = cluster.node_name((number - events) % self._nodes)
            last = number == events - 1
            body = cluster.resource_slice(node, generation=2 + self._made, marked=marked if last else "")
            self._server.put(body)
            await self._breathe(number)
        yield await self._finish(name, events, began)

    async def _cycles(self, count: int, at_once: int, rate: float, report: int) -> AsyncIterator[Body]:
        """Make claims, wait until each is decided, delete it, wait until it is gone; `at_once` live at a time."""
        began = time.monotonic()
        made = gone = allocated = hopeless = 0
        waiting: dict[str, bool] = {}
        leaving: set[str] = set()
        progressed = began
        while gone < count:
            allowed = min(count, int((time.monotonic() - began) * rate) + 1)
            while made < allowed and len(waiting) + len(leaving) < at_once:
                made += 1
                name = self._new()
                waiting[name] = made % HOPELESS == 0
                self._server.put(cluster.claim(name, _expression(made)))
            for name, is_hopeless in tuple(waiting.items()):
                claim = self._claim(name)
                if not devices_of(claim) and not is_told(claim):
                    continue
                if bool(devices_of(claim)) == is_hopeless:
                    self._judge.wrong.append(f"{name} is {'' if is_hopeless else 'not '}allocated")
                allocated += not is_hopeless
                hopeless += is_hopeless
                self._judge.take(name, devices_of(claim))
                self._judge.give_back(devices_of(claim))
                del waiting[name]
                self._delete(name)
                leaving.add(name)
            for name in tuple(leaving):
                if self._find(name) is None:
                    leaving.discard(name)
                    gone += 1
                    progressed = time.monotonic()
                    if gone % report == 0 or gone == count:
                        yield {
                            "gone": gone,
                            "seconds": time.monotonic() - began,
                            "allocated": allocated,
                            "hopeless": hopeless,
                        }
            if time.monotonic() - progressed > PATIENCE_SECONDS:
                self._judge.wrong.append(f"{len(waiting)} claims not decided, {len(leaving)} not gone")
                return
            await asyncio.sleep(0.01)

    async def _replace(self, count: int, rate: float, hopeless: int, report: int) -> AsyncIterator[Body]:
        """Replace nodes, the oldest first, while some claims wait that no node can help.

        With a node its slice goes, and all claims that have devices there; as many others ask for devices instead.
        """
        kept = [self._new() for _ in range(hopeless)]
        for number, name in enumerate(kept):
            model = "none" if number % 2 else f"none-{number}"
            self._server.put(cluster.claim(name, cluster.has_model(model)))
        async for _ in self._decided(set(kept), patience=600):
            pass
        began = time.monotonic()
        yield {"gone": 0, "seconds": 0.0}
        due: dict[str, float] = {}
        waits: list[float] = []
        for gone in range(1, count + 1):
            while time.monotonic() < began + gone / rate:
                await asyncio.sleep(0.001)
                self._note_waits(due, waits)
            for name in self._replace_node():
                due[name] = time.monotonic()
            if gone % report == 0 or gone == count:
                yield {"gone": gone, "seconds": time.monotonic() - began}
        async for name in self._decided(set(due)):
            waits.append((time.monotonic() - due[name]) * 1000)
            self._judge.take(name, devices_of(self._claim(name)))
        yield {"count": len(waits), "p50": percentile(waits, 50), "p99": percentile(waits, 99)}
        self._judge.wrong += [f"{name} is allocated" for name in kept if devices_of(self._claim(name))]
        for name in kept:
            self._delete(name)

    def _note_waits(self, due: dict[str, float], waits: list[float]) -> None:
        """Move the claims that have devices now from those that wait to how long they did."""
        for name in tuple(due):
            if devices := devices_of(self._claim(name)):
                waits.append((time.monotonic() - due.pop(name)) * 1000)
                self._judge.take(name, devices)

    def _replace_node(self) -> list[str]:
        """Let the oldest node go and another one come; return the claims that ask for what others had there."""
        old, new = (cluster.node_name(self._replaced + more) for more in (0, self._nodes))
        holders = {name for device, name in self._judge.held.items() if device[1] == old}
        self._server.remove("Node", old)
        self._server.remove("ResourceSlice", cluster.slice_name(old))
        for name in sorted(holders):
            self._judge.give_back(devices_of(self._claim(name)))
            self._delete(name)
        self._server.put(cluster.node(self._replaced + self._nodes))
        self._server.put(cluster.resource_slice(new))
        self._replaced += 1
        made = [self._new() for _ in holders]
        for name in made:
            self._server.put(cluster.claim(name))
        return made

    # --- what they are made of

    def _new(self) -> str:
        self._made += 1
        return f"made-{self._made:07d}"

    def _find(self, name: str) -> Body | None:
        return self._server.get(CLAIM, name, cluster.NAMESPACE)

    def _claim(self, name: str) -> Body:
        found = self._find(name)
        if found is None:
            raise LookupError(f"claim {name} is gone, and nobody deleted it")
        return found

    async def _decided(
        self, names: set[str], pause: float = 0.01, patience: float = PATIENCE_SECONDS
    ) -> AsyncIterator[str]:
        """Yield each claim when it has devices or says why it waits; those that never do count as wrong."""
        names = set(names)
        deadline = time.monotonic() + patience
        while names:
            for name in sorted(names):
                if devices_of(self._claim(name)) or is_told(self._claim(name)):
                    names.discard(name)
                    yield name
            if time.monotonic() > deadline:
                self._judge.wrong.append(f"{len(names)} claims not decided, among them {min(names)}")
                return
            await asyncio.sleep(pause)

    async def _finish(self, name: str, events: int, began: float) -> Body:
        """Wait until the claim that was made last has its device, and tell how long all events took."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not devices_of(self._claim(name)):
            if time.monotonic() > deadline:
                self._judge.wrong.append(f"{name} was not allocated after {events} events")
                break
            await asyncio.sleep(0.005)
        self._judge.take(name, devices_of(self._claim(name)))
        return {"events": events, "seconds": time.monotonic() - began}

    def _label(self, name: str, number: int) -> None:
        """Change a label of a claim."""

        def change(body: Body) -> Body:
            metadata = body["metadata"]
            labels = {**(metadata.get("labels") or {}), "touched": str(number)}
            return {**body, "metadata": {**metadata, "labels": labels}}

        self._server.touch(CLAIM, name, cluster.NAMESPACE, change)

    def _delete(self, name: str) -> None:
        """Delete a claim as the API server does: at once, or when its last finalizer has gone."""
        if not self._claim(name)["metadata"].get("finalizers"):
            self._server.remove(CLAIM, name, cluster.NAMESPACE)
            return

        def change(body: Body) -> Body:
            metadata = {**body["metadata"], "deletionTimestamp": _now(), "deletionGracePeriodSeconds": 0}
            return {**body, "metadata": metadata}

        self._server.touch(CLAIM, name, cluster.NAMESPACE, change)

    async def _breathe(self, number: int) -> None:
        """Let the server answer now and then."""
        if number % 50 == 0:
            await asyncio.sleep(0)


def _expression(number: int) -> str:
    if number % HOPELESS == 0:
        return cluster.has_model("none")
    if number % OWN_SELECTOR == 0:
        return f'device.attributes["{cluster.DRIVER}"].uuid != "{number}"'
    return ""


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _jobs() -> Iterator[Body]:
    while line := sys.stdin.readline():
        yield json.loads(line)


async def serve(arguments: argparse.Namespace) -> None:
    """Fill the server, listen, and do the jobs until the input ends."""
    async with ApiServer() as server:
        held = Cluster(server, arguments.nodes, arguments.pods)
        held.fill(arguments.claims, arguments.allocated)
        arguments.kubeconfig.write_text(server.kubeconfig(), encoding="utf-8")
        _say({"url": server.url})
        jobs = _jobs()
        while (job := await asyncio.to_thread(next, jobs, None)) is not None:
            async for answer in held.do(job):
                _say(answer)


def _say(answer: Body) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m scaling.server", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--claims", type=int, default=10_000)
    parser.add_argument("--allocated", type=int, default=9_000)
    parser.add_argument("--pods", type=int, default=0)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asyncio.run(serve(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
