"""Kills the operator again and again while objects of one of its kinds come, change and go.

    python bench/kind_crashes.py policies                  # 30 kills; about ten minutes
    python bench/kind_crashes.py reservations --kills 5 --seed 7
    python bench/kind_crashes.py maintenances

`kill -9` hits it at random, also before it is ready, and it is started again at once. Beside it run kube-scheduler and
kube-controller-manager, and pods use what reservations hold, or what is in maintenance.

The exit code is 1 if two claims ever hold one device; if a rule of a policy goes while claims hold devices that it
alone owned; if a claim loses devices that a pod with a node uses; if a pod goes that nobody ended, and that held no
device of a maintenance with `Evict` nor one that was lost; if a card is held that is said to be safe, or more are out
of service than `maxUnavailable`; or if what is left has not settled in the end, or anything is left after that.
"""

import argparse
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.stage import running_plane
from live.objects import Body

from controlplane import ControlPlane, OperatorProcess, start_operator
from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import POLICIES, RULES, install_component, install_fence, install_kinds

NODES, DEVICES, MOST_OBJECTS, MOST_CLAIMS, MOST_PODS = 4, 4, 4, 12, 10
GROUP = "dra-operator.io/v1alpha1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
PODS = "/api/v1/namespaces/default/pods"
RESERVATIONS = f"/apis/{GROUP}/namespaces/default/devicereservations"
MAINTENANCES = f"/apis/{GROUP}/devicemaintenances"
REQUESTS = {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": DRIVER}}]}}
ENTRIES = (
    {"driver": DRIVER},
    *({"driver": DRIVER, "pool": f"node-{number:03}"} for number in range(NODES)),
    {"driver": DRIVER, "device": "dev-0"},
    {"driver": "other.example.com"},
)
END_SECONDS = 240
GUARD = "dra-operator.io/allocation-policy"


class Crashes(ABC):
    """A control plane with objects of a kind, those who use their devices, and an operator that is killed."""

    flags: tuple[str, ...] = ("--devices=owned", "--ownership-settle-seconds=1")
    steps: tuple[str, ...]
    """What is done at random, by the names of the methods."""

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        self.plane, self.client = plane, plane.client
        self.random = random.Random(arguments.seed)  # noqa: S311 - a load, no secret
        self._interval: float = arguments.interval
        self._numbers = iter(range(1_000_000))
        self._operator: OperatorProcess | None = None
        self.faults: list[str] = []
        self.allocated: set[str] = set()
        self.made = 0

    @abstractmethod
    def set_up(self) -> None:
        """Make what is there before the operator."""

    @abstractmethod
    def judge(self) -> None:
        """Look for what must never be."""

    @abstractmethod
    def judge_rest(self) -> None:
        """Wait until all has settled as it is asked for."""

    @abstractmethod
    def judge_end(self) -> None:
        """Delete everything, and wait until nothing is left."""

    # --- the operator

    def start(self) -> None:
        """Start the operator."""
        log = self.plane.directory / f"operator-{next(self._numbers)}.log"
        self._operator = start_operator(self.plane, log, *self.flags)

    def kill(self) -> None:
        """Kill it after some time of work, or before it is ready."""
        assert self._operator is not None
        if self.random.random() < 0.2:
            self.work(self.random.uniform(0.5, 4))
        else:
            self._operator.wait_ready(120)
            self.work(self.random.uniform(0, 2 * self._interval))
        self._operator.kill()

    def stop(self) -> None:
        """End it."""
        if self._operator is not None:
            self._operator.stop()

    # --- the load

    def work(self, seconds: float) -> None:
        """Change something and judge what there is, again and again."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            getattr(self, self.random.choice(self.steps))()
            self.judge()

    def _make(self, path: str, kind: str, prefix: str, spec: Body) -> None:
        """Create an object of one of our kinds."""
        self.made += 1
        metadata = {"name": f"{prefix}-{next(self._numbers)}"}
        self.client.create(path, {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec})

    def _choose(self, path: str) -> str:
        """Return the path of an object that is not being deleted, empty if there is none."""
        names = [
            each["metadata"]["name"]
            for each in self._items(path)
            if "deletionTimestamp" not in each["metadata"]
        ]
        return f"{path}/{self.random.choice(names)}" if names else ""

    def _delete_any(self, path: str, chance: float) -> str:
        """Delete an object by some chance; return its path, empty if none was."""
        if self.random.random() >= chance or not (there := self._choose(path)):
            return ""
        self.client.delete(there)
        return there

    def _create_pod(self, uses: Body) -> None:
        """Create a pod that goes at once when it is deleted, as nobody runs it."""
        if len(self._items(PODS)) >= MOST_PODS:
            return
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "device"}]}}
        spec = {"containers": [container], "resourceClaims": [{"name": "device", **uses}]}
        spec |= {"terminationGracePeriodSeconds": 0}
        self.client.create(PODS, {"metadata": {"name": f"pod-{next(self._numbers)}"}, "spec": spec})

    # --- the judge

    def _judge_holders(self, claims: Iterable[Body]) -> None:
        for device, names in held(claims).items():
            if len(names) > 1:
                self.faults.append(f"{'/'.join(device)} has two holders: {', '.join(names)}")
            self.allocated.update(names)

    def _delete_all(self, *paths: str) -> None:
        """Delete what is in some collections, and wait until nothing is left there, nor a rule."""
        for path in paths:
            for each in self._items(path):
                self.client.delete(f"{path}/{each['metadata']['name']}")
        for path in (*paths, RULES):
            self._await(lambda path=path: [each["metadata"] for each in self._items(path)], f"left in {path}")

    def _await(self, find: Callable[[], Iterable[object]], what: str) -> None:
        """Wait until nothing is found; what is left after the time is a fault."""
        deadline = time.monotonic() + END_SECONDS
        while left := find():
            if time.monotonic() > deadline:
                self.faults.append(f"{what}: {left}")
                return
            time.sleep(1)

    def _items(self, path: str) -> list[Body]:
        items: list[Body] = self.client.get(path)["items"]
        return items


class PolicyCrashes(Crashes):
    """AllocationPolicies name drivers, pools and single devices, and overlap; claims of the operator hold them."""

    steps = ("_apply", "_delete", "_create_claim", "_create_claim", "_end_claim")

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        super().__init__(plane, arguments)
        self._guarded: set[tuple[str, ...]] = set()

    def set_up(self) -> None:
        """Nothing beside the devices."""

    def _apply(self) -> None:
        """Create a policy, or change one."""
        devices = self.random.sample(ENTRIES, self.random.randint(1, 3))
        if len(self._items(POLICIES)) < MOST_OBJECTS:
            self._make(POLICIES, "AllocationPolicy", "policy", {"devices": devices})
        elif there := self._choose(POLICIES):
            self.client.patch(there, {"spec": {"devices": devices}})

    def _delete(self) -> None:
        self._delete_any(POLICIES, 0.3)

    def _create_claim(self) -> None:
        if len(self._items(CLAIMS)) < MOST_CLAIMS:
            metadata = {"name": f"claim-{next(self._numbers)}"}
            self.client.create(CLAIMS, {"metadata": metadata, "spec": REQUESTS})

    def _end_claim(self) -> None:
        self._delete_any(CLAIMS, 0.7)

    def judge(self) -> None:
        """Look for devices with two holders, and for held ones that no rule owns any more."""
        # A claim that is there before the rules are read and after them held its devices in between.
        before, rules, claims = held(self._items(CLAIMS)), self._items(RULES), self._items(CLAIMS)
        self._judge_holders(claims)
        after = held(claims)
        owned = {device for device in after if any(owns(rule, device) for rule in rules)}
        for device, names in after.items():
            if device in self._guarded - owned and {*names} & {*before.get(device, ())}:
                self.faults.append(f"{'/'.join(device)} is held by {', '.join(names)}, and its rule is gone")
        guarding = [rule for rule in rules if GUARD in rule["metadata"].get("finalizers", ())]
        self._guarded = {device for device in owned if any(owns(rule, device) for rule in guarding)}

    def judge_rest(self) -> None:
        """Wait until what is left has settled, on exactly the rules that are named."""
        # By it the API server can be asked whether it knows the rules.
        request = {"name": "device", "exactly": {"deviceClassName": "absent.example.com"}}
        self.client.create(
            CLAIMS, {"metadata": {"name": "waits"}, "spec": {"devices": {"requests": [request]}}}
        )
        self._await(self._settle, "policies that have not settled, or rules that are not named")

    def _settle(self) -> set[str]:
        """Return what has not settled; claims end that keep a rule which was given back, and may be named again."""
        ending = [rule for rule in self._items(RULES) if "deletionTimestamp" in rule["metadata"]]
        for device, names in held(self._items(CLAIMS)).items():
            if any(owns(rule, device) for rule in ending):
                for name in names:
                    self.client.delete(f"{CLAIMS}/{name}")
        return {*self._misfits()}

    def _misfits(self) -> Iterator[str]:
        living = [each for each in self._items(POLICIES) if "deletionTimestamp" not in each["metadata"]]
        for policy in living:
            told = policy.get("status", {}).get("conditions", ())
            good = {each["type"] for each in told if each["status"] == "True"}
            if not {"Settled", "Fenced"} <= good:
                yield f"{policy['metadata']['name']}: {[each['message'] for each in told]}"
        wanted = {str(sorted(entry.items())) for policy in living for entry in policy["spec"]["devices"]}
        found = {
            str(sorted(rule["spec"]["deviceSelector"].items()))
            for rule in self._items(RULES)
            if "deletionTimestamp" not in rule["metadata"]
        }
        yield from wanted ^ found

    def judge_end(self) -> None:
        """Claims and policies: then no rule is left."""
        self._delete_all(CLAIMS, POLICIES)


class PodCrashes(Crashes):
    """Pods use devices, and nobody runs them: kube-scheduler gives them nodes, and what is deleted goes at once."""

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        super().__init__(plane, arguments)
        self._ended: set[str] = set()
        self._placed: dict[str, tuple[str, frozenset[tuple[str, str, str]]]] = {}
        """The uid of each pod with a node, with its name and the devices of its claims."""

    def set_up(self) -> None:
        """Make room on the nodes, and the template of claims."""
        room = {"pods": "110", "cpu": "64", "memory": "64Gi"}
        for number in range(NODES):
            status = {"status": {"allocatable": room, "capacity": room}}
            self.client.patch(f"/api/v1/nodes/node-{number:03}/status", status)
        self.client.create(TEMPLATES, {"metadata": {"name": "one"}, "spec": {"spec": REQUESTS}})
        self.plane.start_scheduler()

    def _end_pod(self) -> None:
        if (there := self._choose(PODS)) and self.random.random() < 0.6:
            self._ended.add(self.client.get(there)["metadata"]["uid"])
            self.client.delete(there)

    def judge(self) -> None:
        """Look for devices that were taken from pods, and for pods that went without a cause."""
        pods = {
            each["metadata"]["uid"]: each["metadata"]["name"]
            for each in self._items(PODS)
            if each["spec"].get("nodeName")
        }
        claims = self._items(CLAIMS)
        self._judge_holders(claims)
        uses: dict[str, set[tuple[str, str, str]]] = {}
        for claim in claims:
            for user in claim.get("status", {}).get("reservedFor", ()):
                uses.setdefault(user["uid"], set()).update(held([claim]))
        there = {each["metadata"]["uid"] for each in self._items(PODS)}
        for uid, (name, devices) in self._placed.items():
            if uid not in there:
                if uid not in self._ended and not self.may_go(devices):
                    self.faults.append(f"pod {name} with {sorted(devices)} is gone, and nobody ended it")
            elif uid in pods and not devices <= uses.get(uid, set()):
                self.faults.append(f"pod {name} had {sorted(devices)}, and has {sorted(uses.get(uid, ()))}")
        self._placed = {
            uid: (name, frozenset(uses.get(uid, ()))) for uid, name in pods.items() if uid in there
        }

    @abstractmethod
    def may_go(self, devices: frozenset[tuple[str, str, str]]) -> bool:
        """Tell whether a pod with such devices may have been evicted."""


class ReservationCrashes(PodCrashes):
    """DeviceReservations come, change, expire and go; pods name their claims; devices are lost and come back."""

    steps = ("_apply", "_apply", "_delete", "_use", "_use", "_use", "_end_pod", "_lose")

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        super().__init__(plane, arguments)
        self._lost: set[str] = set()

    def set_up(self) -> None:
        """Own all devices."""
        super().set_up()
        self._make(POLICIES, "AllocationPolicy", "policy", {"devices": [{"driver": DRIVER}]})

    def _apply(self) -> None:
        """Create a reservation, or change one."""
        spec: Body = {"copies": self.random.randint(1, 4), "ifLost": self.random.choice(("Wait", "Replace"))}
        if len(self._items(RESERVATIONS)) < MOST_OBJECTS:
            spec |= {"ttlSeconds": self.random.randint(1, 60)} if self.random.random() < 0.4 else {}
            spec |= {"resourceClaimTemplateName": "one"}
            self._make(RESERVATIONS, "DeviceReservation", "dr", spec)
        elif there := self._choose(RESERVATIONS):
            self.client.patch(there, {"spec": spec})

    def _delete(self) -> None:
        self._delete_any(RESERVATIONS, 0.4)

    def _use(self) -> None:
        """Create a pod that names a claim which is ready, as the page says."""
        ready = [
            copy["name"]
            for each in self._items(RESERVATIONS)
            for copy in each.get("status", {}).get("copies", ())
            if copy["state"] == "Ready"
        ]
        if ready:
            self._create_pod({"resourceClaimName": self.random.choice(ready)})

    def _lose(self) -> None:
        """Have pods evicted from a device, or no more."""
        name = self.random.choice(tuple(f"dev-{number}" for number in range(DEVICES)))
        if name in self._lost and self.random.random() < 0.8:
            self._restore(name)
        elif not self._lost and self.random.random() < 0.3:
            spec = {
                "deviceSelector": {"driver": DRIVER, "pool": "node-000", "device": name},
                "taint": {"key": "broken", "effect": "NoExecute"},
            }
            self.client.create(RULES, {"metadata": {"name": f"broken-{name}"}, "spec": spec})
            self._lost.add(name)

    def _restore(self, name: str) -> None:
        self.client.delete(f"{RULES}/broken-{name}")
        self._lost.discard(name)

    def may_go(self, devices: frozenset[tuple[str, str, str]]) -> bool:
        """Those that may be lost are of the first node."""
        return any(pool == "node-000" for _, pool, _ in devices)

    def judge_rest(self) -> None:
        """Wait until what is left holds what it asks for as far as there are devices, and nothing is held besides."""
        for name in tuple(self._lost):
            self._restore(name)
        self._await(lambda: {*self._misfits()}, "reservations that have not settled, or claims of none")

    def _misfits(self) -> Iterator[str]:
        wanted: dict[str, int] = {}
        for each in self._items(RESERVATIONS):
            status = each.get("status", {})
            reasons = {copy.get("reason", "") for copy in status.get("copies", ())}
            # Pods stay, so what has ended may be held by them; and there may be too few devices.
            if status.get("phase") not in ("Ready", "Expired", "Expiring") and "DeviceInUse" not in reasons:
                yield f"{each['metadata']['name']}: {status.get('phase')} {sorted(reasons)}"
            wanted[each["metadata"]["uid"]] = each["spec"]["copies"]
        for claim in self._items(CLAIMS):
            users = claim.get("status", {}).get("reservedFor", ())
            known = [user for user in users if user["resource"] == "pods" or user["uid"] in wanted]
            owners = {each["uid"] for each in claim["metadata"].get("ownerReferences", ())}
            if len(known) < len(users) or not (owners & wanted.keys() or known):
                yield f"claim {claim['metadata']['name']}: {[user['name'] for user in users]}"

    def judge_end(self) -> None:
        """Reservations first, while pods use their claims."""
        for each in self._items(RESERVATIONS):
            self.client.delete(f"{RESERVATIONS}/{each['metadata']['name']}")
        self._delete_all(PODS, RESERVATIONS, CLAIMS, POLICIES)


class MaintenanceCrashes(PodCrashes):
    """DeviceMaintenances come, are finished and go; pods with claims of a template are evicted by them."""

    flags = ("--devices=owned", "--maintenance-quiet-seconds=3")
    steps = ("_apply", "_apply", "_finish", "_delete", "_use", "_use", "_use", "_end_pod", "_spoil")

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace) -> None:
        super().__init__(plane, arguments)
        self._named: list[Body] = []
        """All entries of maintenances that evict, whatever became of them."""

    def _apply(self) -> None:
        """Create a maintenance, or change its entries."""
        entries = (
            {"driver": DRIVER},
            *({"node": f"node-{number:03}"} for number in range(NODES)),
            *({"driver": DRIVER, "pool": "node-001", "device": f"dev-{number}"} for number in range(DEVICES)),
        )
        devices = self.random.sample(entries, self.random.randint(1, 2))
        drain = self.random.choice(("Wait", "Evict", "Evict"))
        spec = {"devices": devices, "drain": drain, "evictAfterSeconds": self.random.randint(0, 3)}
        if drain == "Evict":
            self._named += devices
        if len(self._items(MAINTENANCES)) < MOST_OBJECTS:
            spec |= {"maxUnavailable": self.random.randint(1, 3)}
            self._make(MAINTENANCES, "DeviceMaintenance", "dm", spec)
        elif there := self._choose(MAINTENANCES):
            self.client.patch(there, {"spec": spec})

    def _finish(self) -> None:
        """Say of some cards, or of all, that the work is done."""
        if there := self._choose(MAINTENANCES):
            cards = self.client.get(there).get("status", {}).get("cards", ())
            safe = [each["name"] for each in cards if each["phase"] == "Safe"]
            finished = ["all"] if self.random.random() < 0.2 else safe
            self.client.patch(there, {"spec": {"finished": finished}})

    def _delete(self) -> None:
        self._delete_any(MAINTENANCES, 0.3)

    def _use(self) -> None:
        self._create_pod({"resourceClaimTemplateName": "one"})

    def _spoil(self) -> None:
        """Delete a rule by hand."""
        self._delete_any(RULES, 0.2)

    def may_go(self, devices: frozenset[tuple[str, str, str]]) -> bool:
        """Tell whether a maintenance that evicts has named one of them."""
        return any(
            entry.get("node", pool) == entry.get("pool", pool) == pool and entry.get("device", name) == name
            for entry in self._named
            for _, pool, name in devices
        )

    def judge(self) -> None:
        """Look beside pods for safe cards that are held, and for too many that are out of service."""
        super().judge()
        before = self._read_safe()
        claims = {"/".join(device): names for device, names in held(self._items(CLAIMS)).items()}
        after = self._read_safe()
        for card, since in after.items():
            if before.get(card) == since and (names := claims.get(card)):
                self.faults.append(f"{card} is safe, and held by {', '.join(names)}")
        self._judge_unavailable()

    def _judge_unavailable(self) -> None:
        counts: dict[str, set[str]] = {}
        for rule in self._items(RULES):
            owner = rule["metadata"].get("ownerReferences", [{}])[0].get("name", "")
            counts.setdefault(owner, set()).add(str(rule["spec"]["deviceSelector"]))
        for each in self._items(MAINTENANCES):
            found = counts.get(each["metadata"]["name"], set())
            if len(found) > each["spec"].get("maxUnavailable", 1):
                self.faults.append(f"{each['metadata']['name']} has {len(found)} devices out of service")

    def _read_safe(self) -> dict[str, str]:
        return {
            card["name"]: card["since"]
            for each in self._items(MAINTENANCES)
            for card in each.get("status", {}).get("cards", ())
            if card["phase"] == "Safe"
        }

    def judge_rest(self) -> None:
        """Wait until the rules are those of the cards that are out of service."""
        self._await(lambda: {*self._misfits()}, "rules that are not those of cards out of service")

    def _misfits(self) -> Iterator[str]:
        rules = {
            "/".join(rule["spec"]["deviceSelector"][each] for each in ("driver", "pool", "device"))
            for rule in self._items(RULES)
        }
        worked = {
            card["name"]
            for each in self._items(MAINTENANCES)
            for card in each.get("status", {}).get("cards", ())
            if card["phase"] in ("Tainted", "Drained", "Safe")
        }
        yield from rules ^ worked

    def judge_end(self) -> None:
        """Maintenances first: their rules go at once, whoever holds the devices."""
        self._delete_all(MAINTENANCES)
        self._delete_all(PODS, CLAIMS)


KINDS: dict[str, type[Crashes]] = {
    "policies": PolicyCrashes,
    "reservations": ReservationCrashes,
    "maintenances": MaintenanceCrashes,
}


def held(claims: Iterable[Body]) -> dict[tuple[str, str, str], list[str]]:
    """Return the claims that hold each device."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {}
        for each in allocation.get("devices", {}).get("results", ()):
            key = each["driver"], each["pool"], each["device"]
            found.setdefault(key, []).append(claim["metadata"]["name"])
    return found


def owns(rule: Body, device: tuple[str, str, str]) -> bool:
    """Tell whether a rule owns a device."""
    selector = rule["spec"]["deviceSelector"]
    named = zip(("driver", "pool", "device"), device, strict=True)
    return all(selector.get(field, value) == value for field, value in named)


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument(
        "--interval", type=float, default=6, help="how long the operator works, on average, in seconds"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    started = time.monotonic()
    with running_plane() as plane:
        install_kinds(plane)
        for path in (RESERVATIONS, MAINTENANCES):
            plane.client.wait_for(path, lambda found: found is not None, seconds=30, what=path)
        for component in ("device-reservations", "device-maintenance"):
            install_component(plane, component)
        install_fence(plane)
        create_fleet(plane.client, nodes=NODES, devices=DEVICES)
        crashes = KINDS[arguments.kind](plane, arguments)
        crashes.set_up()
        crashes.start()
        try:
            for number in range(1, arguments.kills + 1):
                crashes.kill()
                crashes.start()
                print(
                    f"kill {number}: {crashes.made} made, {len(crashes.allocated)} claims allocated",
                    flush=True,
                )
            crashes.judge_rest()
            crashes.judge_end()
        finally:
            crashes.stop()
    for fault in crashes.faults[:5]:
        print(f"  {fault}")
    print(
        f"{arguments.kills} kills in {time.monotonic() - started:.0f} s: {crashes.made} {arguments.kind} created,"
        f" {len(crashes.allocated)} claims allocated; {len(crashes.faults)} faults"
    )
    return 1 if crashes.faults else 0


if __name__ == "__main__":
    sys.exit(main())
