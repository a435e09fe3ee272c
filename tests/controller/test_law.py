"""The law of the passes: no device is given to two claims, and none is left over, whatever becomes of writes.

Each world has a time of its own, in which waits of minutes take no time: writes are stored late or never, their answers
are lost, and nothing is heard of claims for a while, which come and go, and are used by pods. The truth is what is
stored. In the end all is well, and every claim that can have a device has one.
"""

from random import Random

import pytest
from cycle_bench import Bench, Unsatisfied, fits, said_by

from cluster import FINALIZER, PENDING, claim
from dra_operator.cluster.delivery import UNCHANGED_SECONDS
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Denied, Stale, Stored, Unclear
from dra_operator.controller.claims import PodUse
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.manager import CATCHING_UP_SECONDS

DEVICES = ("gpu-0", "gpu-1", "gpu-2")
NAMES = ("a", "b", "c", "d", "e", "f")
UNREAD = ApiError(403, "Forbidden", "no", verb="get", resource="resourceclaims")
DAYTIME = "2026-01-02T00:00:00Z"


class World:
    """What is stored, what is on its way to it and from it, and the passes; its seed makes it."""

    def __init__(self, seed, clock):
        self.chance, self.clock = Random(seed), clock  # noqa: S311 - the same each time
        self.bench = Bench(clock)
        self.bench.allocator.allocate = self.allocate
        self.stored, self.versions, self.pods = {}, 0, set()
        self.untold, self.known, self.gone, self.queue = [], {}, set(), []
        self.under_way, self.late = [], []
        self.watched_since, self.calm = 0.0, False

    def allocate(self, _claims, **_options):
        """Give the first device that counts as free, and take some time for that."""
        self.clock.now += self.chance.choice([0, 0, 0, 0.05, 0.3, 1.1])
        held = self.bench.ledger.held(("d", "p"))
        return next((fits(device) for device in DEVICES if device not in held), Unsatisfied())

    # --- the API server

    def put(self, name, body):
        """Store a claim in a new version, or with None remove it, which the watch will tell."""
        self.versions += 1
        if body is None:
            self.stored.pop(name)
        else:
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.versions)}}
            self.stored[name] = body
        self.untold.append((self.versions, name, body))

    def create(self, name):
        """Store a new claim."""
        self.put(name, claim(name, uid=f"uid-{self.versions}") | {"status": {}})

    def store(self, write):
        """Store a write if its claim is as it was; return whether it is stored."""
        body = self.stored.get(write.key[1])
        if body is None:
            return False
        metadata = dict(body["metadata"])
        if (metadata["uid"], metadata["resourceVersion"]) != (write.uid, write.version):
            return False
        if write.kind == "allocate":
            metadata |= {"annotations": {}, "finalizers": [FINALIZER]}
            body = {**body, "metadata": metadata, "status": {"allocation": dict(write.allocation)}}
        elif write.kind == "annotate":
            note = {} if said_by(write) is None else {PENDING: said_by(write)}
            body = {**body, "metadata": metadata | {"annotations": note}}
        else:
            assert write.kind == "deallocate"
            body = None
        self.put(write.key[1], body)
        devices = [device for name in self.stored for device in self.devices(name)]
        assert len(devices) == len(set(devices)), f"{write.key[1]} got what another claim has"
        return True

    def devices(self, name):
        """Return the devices that a claim has."""
        allocation = self.stored[name]["status"].get("allocation", {"devices": {"results": []}})
        return [result["device"] for result in allocation["devices"]["results"]]

    def answer(self, write):
        """Let a write come to what chance says, and its outcome to the passes."""
        fate = (
            "good" if self.calm else self.chance.choice(["good"] * 5 + ["refused", "unread", "lost", "late"])
        )
        if fate == "good":
            done, body = self.store(write), self.stored.get(write.key[1])
            if body is not None:
                self.tell(write.key[1], body)
            lost = Stale(write, None, "it is gone") if body is None else Stale(write, body, "it has changed")
            outcome = Stored(write, body or {}) if done else lost
        elif fate == "refused":
            outcome = Denied(write, "failed calling webhook")
        else:
            if fate == "late":
                self.late.append((self.clock.now + self.chance.random() * UNCHANGED_SECONDS * 0.99, write))
            elif self.chance.random() < 0.5:
                self.store(write)
            outcome = Unclear(write, UNREAD) if fate == "unread" else Unclear(write)
        self.queue.append(outcome)

    # --- the watch

    def tell(self, name, body):
        """Queue what is news, as the reflector does."""
        uid, version = self.known.get(name, ("", 0))
        found = None if body is None else body["metadata"]
        if found is None or found["uid"] not in {uid, *self.gone}:
            if uid:
                self.gone.add(uid)
                del self.known[name]
                self.queue.append(Delta("ResourceClaim", "default", name, None))
            version = 0
        if found is not None and found["uid"] not in self.gone and int(found["resourceVersion"]) > version:
            self.known[name] = found["uid"], int(found["resourceVersion"])
            self.queue.append(Delta("ResourceClaim", "default", name, body))

    def watch(self):
        """Tell of all changes in their order; an answer may have been faster."""
        while self.untold and self.watched_since is not None:
            version, name, body = self.untold.pop(0)
            if self.known.get(name, ("", 0))[1] < version:
                self.tell(name, body)

    # --- time

    def run(self):
        """Run a pass, and have its writes sent."""
        heard_from = float("inf") if self.watched_since is None else self.watched_since + CATCHING_UP_SECONDS
        claims = {"ResourceClaim"} if self.clock.now >= heard_from else set()
        self.bench.heard = {"ResourceSlice"} | claims
        items, self.queue = self.queue, []
        for effect in self.bench.run(*items):
            if not isinstance(effect, EventRequest):
                self.under_way.append((self.clock.now + self.chance.choice([0.01, 0.3, 2]), effect))

    def rest(self, seconds):
        """Let time pass and happen what is due; a pass runs when something has come, or when the last one wants it."""
        until = self.clock.now + seconds
        while True:
            wake = self.bench.wake_at
            if self.queue or (wake is not None and wake <= self.clock.now):
                self.run()
                self.clock.now += 0.02
            for due in [each for each in self.late if each[0] <= self.clock.now]:
                self.late.remove(due)
                self.store(due[1])
            for due in [each for each in self.under_way if each[0] <= self.clock.now]:
                self.under_way.remove(due)
                self.answer(due[1])
            self.watch()
            wake = self.bench.wake_at
            times = [due for due, _ in (*self.late, *self.under_way)] + ([] if wake is None else [wake])
            if self.queue:
                continue
            if min(times, default=until) >= until:
                break
            self.clock.now = max(self.clock.now, min(times))
        self.clock.now = max(self.clock.now, until)

    def use(self, name):
        """Have a pod use a claim, or end."""
        self.pods ^= {name}
        used = frozenset({name} & self.pods)
        self.queue.append(PodUse("default", f"pod-{name}", used))

    def happen(self):
        """Let something happen."""
        name, body = self.chance.choice(NAMES), None
        match self.chance.randrange(6):
            case 0 | 1 if name not in self.stored:
                self.create(name)
            case 2 if name in self.stored:
                self.put(name, None)
                if self.chance.random() < 0.5:
                    self.create(name)
            case 3 if (body := self.stored.get(name)) and self.devices(name):
                self.put(name, {**body, "metadata": body["metadata"] | {"deletionTimestamp": DAYTIME}})
            case 4:
                self.use(name)
            case 5:
                self.watched_since = self.clock.now if self.watched_since is None else None

    def calm_down(self):
        """Let writes be answered, claims be heard of, and all pods end."""
        self.calm = True
        self.watched_since = self.watched_since or self.clock.now
        for name in tuple(self.pods):
            self.use(name)
        self.rest(1500)


@pytest.mark.parametrize("seed", range(200))
def test_each_device_is_of_one_claim_and_none_is_left_over(seed, clock):
    """In each moment of an hour in which much goes wrong, and when all has gone well for a while after it."""
    world = World(seed, clock)
    world.bench.run()
    while clock.now < 3600:
        world.happen()
        world.rest(world.chance.choice([0, 0.02, 0.5, 3, 40, 130]))
    world.calm_down()

    taken = sorted(device for name in world.stored for device in world.devices(name))
    assert len(taken) == min(len(DEVICES), len(world.stored))
    assert sorted(world.bench.ledger.held(("d", "p"))) == taken
    assert len(world.bench.cycle._in_flight) == 0
