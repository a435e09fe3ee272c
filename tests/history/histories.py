"""Random histories of a small cluster on the API server in memory, recorded by a clock of the test's own.

Nothing changes between two steps, so that what there was is known from lists of the API server, one a step.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))

from script import credentials

from dra_operator.cli.snapshot import read_objects
from dra_operator.cluster.credentials import Access
from dra_operator.cluster.session import ApiSession
from dra_operator.history.recorder import Clocks, Recorder
from dra_operator.history.schema import MICRO, open_store
from dra_operator.history.writer import Writer
from dra_operator.testing.discovery import RESOURCES
from dra_operator.testing.server import ApiServer
from factories import (
    GPU,
    allocation,
    claim,
    device_class,
    manifest,
    pod,
    resource_slice,
    result,
    taint_rule,
)

BEGIN = 1_800_000_000
MOST_CLAIMS = 60
NODES = ("node-1", "node-2", "node-3")


def node(name, *, cordoned=False):
    """A node that is ready."""
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "pods": "110"}}
    return manifest("Node", name, {"unschedulable": True} if cordoned else {}, status=status)


def slices(taints=()):
    """Whole cards, one that can be shared, and one that is cut by a counter."""
    whole = [{"name": f"gpu-{number}", "taints": list(taints)} for number in range(2)]
    shared = {
        "name": "gpu-9",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "80Gi"}},
    }
    yield resource_slice("slice-1", whole)
    yield resource_slice("slice-2", [shared, {"name": "gpu-0"}], pool="node-2")
    parts = [
        {
            "name": f"part-{number}",
            "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": value}}}],
        }
        for number, value in enumerate(("40Gi", "40Gi", "80Gi"))
    ]
    yield resource_slice("slice-3", parts, pool="node-3", count=2)
    counters = resource_slice("slice-4", [], pool="node-3", count=2)
    del counters["spec"]["devices"], counters["spec"]["nodeName"]
    counters["spec"]["nodeName"] = "node-3"
    counters["spec"]["sharedCounters"] = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    yield counters


class World:
    """A cluster in which something happens at each step."""

    def __init__(self, server, seed, clock):
        self.server, self.clock = server, clock
        self.random = Random(seed)  # noqa: S311 - a seed makes a run repeatable
        self.numbers = count()
        server.load([device_class(), *map(node, NODES), *slices()])

    def step(self):
        """Let some of what can happen happen."""
        actions = (
            *(self.create, self.create, self.create, self.advance, self.advance, self.advance, self.advance),
            *(self.end, self.end, self.cordon, self.taint, self.change_slice, self.resident),
            *(self.change_pool,),
        )
        for _ in range(self.random.randint(0, 4)):
            self.random.choice(actions)()

    def create(self):
        """Create a claim, and mostly a pod that names it; where there are many, one goes instead."""
        if len(self.server.list("ResourceClaim")) >= MOST_CLAIMS:
            self.end()
            return
        number, namespace = next(self.numbers), self.random.choice(("team-a", "team-b"))
        # What belongs to the one must not be told to the other.
        mark = "" if namespace == "team-a" else "hidden-"
        name = f"{mark}job-{number}"
        created = {
            "creationTimestamp": datetime.fromtimestamp(self.clock(), UTC).isoformat().replace("+00:00", "Z")
        }
        self.server.put(claim(name, namespace=namespace, **created))
        if self.random.random() < 0.8:
            entry = {"name": "gpu", "resourceClaimName": name}
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"{mark}train",
                "uid": "1",
                "controller": True,
            }
            labels = {"project": mark + self.random.choice("xy")}
            body = pod(name, entry, namespace=namespace, labels=labels, ownerReferences=[owner], **created)
            gates = [{"name": "quota"}] if self.random.random() < 0.2 else []
            self.server.put({**body, "spec": {**body["spec"], "schedulingGates": gates}})

    def advance(self):
        """Take one of the jobs a step further: devices, a node, a running pod, an ended one."""
        claims = self.server.list("ResourceClaim")
        if not claims:
            return
        body = self.random.choice(claims)
        names = body["metadata"]["namespace"], body["metadata"]["name"]
        users = [each for each in self.server.list("Pod", names[0]) if each["metadata"]["name"] == names[1]]
        if not (body.get("status") or {}).get("allocation"):
            self.allocate(body, users)
        for user in users:
            phase = (user.get("status") or {}).get("phase", "Pending")
            if not user["spec"].get("nodeName"):
                user["spec"] |= {"nodeName": "node-1", "schedulingGates": []}
            else:
                following = {"Pending": "Running", "Running": "Succeeded"}
                user["status"] = {**(user.get("status") or {}), "phase": following.get(phase, phase)}
            self.server.put(user)

    def allocate(self, body, users):
        """Give a claim a device that has room, if there is one."""
        held = [
            (each["pool"], each["device"])
            for other in self.server.list("ResourceClaim")
            for each in ((other.get("status") or {}).get("allocation") or {})
            .get("devices", {})
            .get("results", ())
        ]
        shares = held.count(("node-2", "gpu-9"))
        free = [("node-2", "gpu-9")] * (shares < 4)
        free += [
            each
            for each in (("node-1", "gpu-0"), ("node-1", "gpu-1"), ("node-2", "gpu-0"))
            if each not in held
        ]
        parts = {device for pool, device in held if pool == "node-3"}
        free += [
            ("node-3", each) for each in ("part-0", "part-1") if each not in parts and "part-2" not in parts
        ]
        free += [] if parts else [("node-3", "part-2")]
        free.append(("node-1", "gone"))
        pool, device = self.random.choice(free)
        share = {}
        if device == "gpu-9":
            share = {"shareID": f"00000000-0000-4000-8000-{next(self.numbers):012}"}
            share |= {"consumedCapacity": {"memory": "20Gi"}}
        if (pool, device) in held and device != "gpu-9":
            return
        reserved = [
            {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
            for each in users
        ]
        body["status"] = {
            "allocation": allocation(result(device, pool, **share), node=pool),
            "reservedFor": reserved,
        }
        self.server.put(body)

    def end(self):
        """Delete a claim and its pod, or the pod alone."""
        kinds = self.random.choice((("Pod",), ("Pod", "ResourceClaim")))
        for body in self.server.list("ResourceClaim")[:1]:
            for kind in kinds:
                self.server.remove(kind, body["metadata"]["name"], body["metadata"]["namespace"])

    def cordon(self):
        """Cordon a node, or take it back."""
        self.server.put(node(self.random.choice(NODES), cordoned=self.random.random() < 0.5))

    def taint(self):
        """Taint devices by a rule, or take the rule away."""
        if self.random.random() < 0.5:
            self.server.put(taint_rule("rule", {"driver": GPU, "pool": self.random.choice(NODES)}))
        else:
            self.server.remove("DeviceTaintRule", "rule")

    def change_slice(self):
        """Publish a slice with a taint, without, or not at all."""
        if self.random.random() < 0.3:
            self.server.remove("ResourceSlice", "slice-1")
        else:
            taints = [{"key": "hot", "effect": "NoSchedule"}] if self.random.random() < 0.5 else ()
            self.server.put(next(iter(slices(taints))))

    def change_pool(self):
        """Take a slice off the cut card, or publish both: devices without counters, or counters without devices."""
        parts, counters = [*slices()][2:]
        self.server.put(parts)
        if self.random.random() < 0.5:
            self.server.put(counters)
        else:
            self.server.remove("ResourceSlice", self.random.choice(("slice-3", "slice-4")))

    def resident(self):
        """Let a pod without claims come or go."""
        name = f"plain-{self.random.randint(0, 3)}"
        body = manifest(
            "Pod", name, {"nodeName": "node-2", "containers": [{"name": "main"}]}, namespace="team-a"
        )
        body["status"] = {"phase": "Running"}
        if self.random.random() < 0.6:
            self.server.put(body)
        else:
            self.server.remove("Pod", name, "team-a")


def last_revision(server, kind):
    """Return the resourceVersion of the last change of a kind that watches may still ask for; 0 if there is none."""
    (resource,) = [each for each in RESOURCES if each.kind == kind]
    table = server.store.table(resource)
    return next((change.revision for change in table.read(table.end - 1, 1) or ()), 0)


class Recording:
    """A recorder under test, which can be killed and started again, beside the cluster and its clock."""

    def __init__(self, server, url):
        self.server, self.url = server, url
        self.seconds = 0
        self.step_of_wall = 0
        """By how much the wall clock is wrong."""
        self.moments = []
        """What was listed, and when."""

    @property
    def now(self):
        """The true time."""
        return BEGIN + self.seconds

    async def start(self):
        """Start a recorder; what it has is that of the store."""
        self.session = ApiSession(Access(lambda: credentials(self.server.url)))
        writer = Writer(open_store(self.url, create=True))
        clocks = Clocks(lambda: self.now + self.step_of_wall, lambda: float(self.seconds))
        self.recorder = Recorder(self.session, writer, clocks=clocks)
        await self.recorder.start()

    async def kill(self):
        """End the recorder as a kill does: what it did not store is lost."""
        await self.recorder.stop()
        await self.session.close()

    async def caught_up(self):
        """Wait until all is delivered that there is."""
        async with asyncio.timeout(120):
            while not all(self._is_in_step(*each) for each in self.recorder._reflectors.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    def _is_in_step(self, kind, reflector):
        seen = {key: str(each.version) for key, each in reflector._seen.items()}
        there = {
            (body["metadata"].get("namespace", ""), body["metadata"]["name"]): body["metadata"][
                "resourceVersion"
            ]
            for body in self.server.list(kind)
        }
        is_told = reflector.has_told(str(last_revision(self.server, kind)))
        return reflector.synced.is_set() and reflector.trouble is None and is_told and seen == there

    async def store(self):
        """Let the recorder store what came."""
        await self.caught_up()
        self.recorder._sum_up()
        await self.recorder.tick()
        while self.recorder._ask is not None and not self.recorder._ask.done():  # noqa: ASYNC110
            await asyncio.sleep(0.002)

    async def tick(self):
        """Let the recorder store what came, and list what there is."""
        await self.store()
        taken = await read_objects(self.session)
        self.moments.append((self.recorder.covered, self.seconds, taken.bodies))


@asynccontextmanager
async def recorded(url, seed, interceptor=None):
    """A world with a recorder beside it."""
    async with ApiServer(interceptor=interceptor) as server:
        recording = Recording(server, url)
        world = World(server, seed, lambda: recording.recorder.now // MICRO)
        await recording.start()
        try:
            yield world, recording
        finally:
            await recording.kill()


async def play(url, seed, steps=12):
    """Record a random history with kills, gaps and steps of the clock, and return the recording."""
    async with recorded(url, seed) as (world, recording):
        await recording.tick()
        for _ in range(steps):
            recording.seconds += world.random.choice((1, 2, 4))
            if world.random.random() < 0.15:
                await recording.kill()
                recording.seconds += 1
                world.step()
                recording.seconds += world.random.choice((3, 60))
                recording.step_of_wall += world.random.choice((0, -300, 300))
                await recording.start()
            elif world.random.random() < 0.1:
                await world.server.stop()
                recording.seconds += 1
                world.step()
                world.server.expire_history()
                recording.seconds += 7
                await world.server.start()
            else:
                world.step()
            await recording.tick()
        return recording


def plain(bodies):
    """Return objects as texts, without what a record keeps beyond, and names of pods without claims."""
    found = []
    for body in bodies:
        metadata = {
            name: each for name, each in body["metadata"].items() if name not in ("resourceVersion", "labels")
        }
        if body["kind"] == "Pod" and not body["spec"].get("resourceClaims"):
            metadata = {name: each for name, each in metadata.items() if name not in ("name", "uid")}
        elif body["kind"] != "Pod":
            if body["kind"] in ("Node", "Namespace"):
                metadata.pop("uid", None)
            metadata["labels"] = body["metadata"].get("labels")
        found.append(json.dumps({**body, "metadata": metadata}, sort_keys=True))
    return sorted(found)
