"""A table for tests: a pool in partitions and shares, and claims of ours and of pods that may have too much of it."""

from cluster import claim
from dra_operator.cluster.reflector import Delta
from dra_operator.controller.allocation_checks import LASTING_SECONDS
from dra_operator.controller.facts import EventRequest
from factories import manifest

DRIVER = "gpu.example.com"
USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
POOL = {"name": "pool-1", "generation": 1, "resourceSliceCount": 2}
SIZES = {"whole": 4, "half-0": 2, "half-1": 2, **{f"quarter-{number}": 1 for number in range(4)}, "shared": 2}
"""Units of memory that each partition takes of the four there are."""
SHARED = "shared"
"""The partition that many claims can have."""


def slices(memory=4, rate=10, sizes=SIZES):
    """A GPU in partitions, and a device that is shared, as two slices of node-1."""
    counters = {"sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": str(memory)}}}]}
    nic = {"name": "nic", "allowMultipleAllocations": True, "capacity": {"rate": {"value": str(rate)}}}
    devices = {"devices": [*(partition(*item) for item in sizes.items()), nic]}
    return [
        manifest(
            "ResourceSlice",
            name,
            {"driver": DRIVER, "nodeName": "node-1", "pool": POOL, **content},
            uid=f"uid-{name}",
        )
        for name, content in (("counters", counters), ("devices", devices))
    ]


def partition(name, memory):
    """A partition that takes so much memory."""
    taken = {"memory": {"value": str(memory)}}
    uses = [{"counterSet": "gpu-0", "counters": taken}]
    return {"name": name, "allowMultipleAllocations": name == SHARED, "consumesCounters": uses}


def has(*results, at="2026-01-01T00:00:00Z"):
    """An allocation of partitions, by name, and of shares, by amount."""
    listed = []
    for result in results:
        share = {"device": "nic", "shareID": "s", "consumedCapacity": {"rate": str(result)}}
        what = {"device": result} if isinstance(result, str) else share
        what |= {"shareID": "s"} if result == SHARED else {}
        listed.append({"request": "gpu", "driver": DRIVER, "pool": "pool-1", **what})
    return {"devices": {"results": listed}, "allocationTimestamp": at}


class Table:
    """A bench on which claims of ours and of pods lie."""

    def __init__(self, bench):
        self.bench, self.clock, self.at = bench, bench.clock, 0
        self.publish()

    def publish(self, **content):
        """Publish the slices."""
        return self.bench.run(
            *(Delta("ResourceSlice", "", body["metadata"]["name"], body) for body in slices(**content))
        )

    def put(self, name, *results, used=None, **metadata):
        """Bring an allocated claim, each later than the one before, and return what is to be done."""
        self.at += 1
        allocation = has(*results, at=f"2026-01-01T00:00:{self.at:02}Z")
        return self.bench.run(
            self.bench.delta(claim(name, **metadata), allocation=allocation, reservedFor=used)
        )

    def wait(self):
        """Let it last, and return what is to be done then."""
        self.clock.now += LASTING_SECONDS
        return self.bench.run()


def said(effects):
    """The Events among effects, by object, with their sentences."""
    return {effect.subject.name: effect.message for effect in effects if isinstance(effect, EventRequest)}
