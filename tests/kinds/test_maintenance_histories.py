"""Random histories of maintenances, against a small cluster: pods come and go, devices too, the operator is killed."""

import contextlib
import json
import random
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.kinds.changes import Create, Delete, complete_conditions
from dra_operator.kinds.device_maintenance import read_maintenance
from dra_operator.kinds.maintenance_cards import find_cards, find_pod, read_holder
from dra_operator.kinds.maintenance_plan import Quiet, build_result, plan, read_rule
from dra_operator.ledger import Ledger
from factories import GPU, claim, request, resource_slice
from kinds.states import build_state

QUIET = 120
POOL = {"driver": GPU, "pool": "node-1"}
CARDS = {"a": ("a",), "b": ("b",), "g0": ("all", "g0-x", "g0-y"), "g1": ("all", "g1-x")}
SETS = {"all": ("g0", "g1"), "g0-x": ("g0",), "g0-y": ("g0",), "g1-x": ("g1",)}
DEVICES = ("a", "all", "b", "g0-x", "g0-y", "g1-x")
ENTRIES = (
    POOL,
    {"node": "node-1"},
    POOL | {"device": "g0-x"},
    POOL | {"device": "a"},
    POOL | {"device": "all"},
)


class Killed(Exception):  # noqa: N818 - it is no error
    """The operator ended."""


class Cluster:
    """Six devices on four cards, of which pods and claims hold some, and maintenances of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)  # noqa: S311 - it is to be repeated
        self.seconds, self.numbers = 0, count()
        self.published = set(DEVICES)
        self.claims, self.pods, self.rules, self.maintenances = {}, {}, {}, {}
        self.made_rule, self.seen_held = {}, {}

    @property
    def now(self):
        """The moment."""
        return datetime(2026, 12, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    @property
    def stamp(self):
        """The moment, as on the wire."""
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    # --- what others do

    def create_maintenance(self):
        """Somebody asks for a maintenance; there are two at most."""
        if len(self.maintenances) < 2:
            name = f"dm-{next(self.numbers)}"
            metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": self.stamp}
            spec = {
                "devices": self.random.sample(ENTRIES, self.random.randint(1, 2)),
                "maxUnavailable": self.random.randint(1, 2),
                "drain": self.random.choice(["Wait", "Evict"]),
                "evictAfterSeconds": self.random.choice([0, 100]),
            }
            self.maintenances[name] = {"metadata": metadata, "spec": spec}

    def edit_maintenance(self):
        """Somebody changes his mind."""
        if self.maintenances:
            spec = self.random.choice(list(self.maintenances.values()))["spec"]
            names = [f"{GPU}/node-1/{each}" for each in (*CARDS, *DEVICES)]
            spec |= self.random.choice(
                [
                    {"finished": self.random.sample(names, 2)},
                    {"finished": []},
                    {"drain": "Evict"},
                    {"devices": [self.random.choice(ENTRIES)]},
                ]
            )

    def delete_maintenance(self):
        """Somebody deletes a maintenance."""
        if self.maintenances and self.random.random() < 0.3:
            self.random.choice(list(self.maintenances.values()))["metadata"]["deletionTimestamp"] = self.stamp

    def create_pod(self):
        """A pod gets a device: of its own claim or of a shared one, tolerating or not, or decided before the rule."""
        tainted = {each["spec"]["deviceSelector"].get("device") for each in self.rules.values()}
        held = {each["device"] for each in self.claims.values()}
        tolerates, is_late = self.random.random() < 0.1, self.random.random() < 0.1
        free = [
            each
            for each in self.published
            if each not in held and (tolerates or is_late or each not in tainted)
        ]
        if free:
            name = f"p-{next(self.numbers)}"
            owner = self.random.choice(["", "ReplicaSet", "DaemonSet"])
            owners = [{"kind": owner, "uid": f"owner-{name}", "controller": True}] if owner else []
            metadata = {"namespace": "ns", "name": name, "uid": name, "ownerReferences": owners}
            self.pods[name] = {"metadata": metadata, "status": {}}
            self.claims[name] = {
                "device": self.random.choice(sorted(free)),
                "is_made_for": self.random.random() < 0.7,
                "is_admin": self.random.random() < 0.1,
                "tolerations": [{"operator": "Exists"}] if tolerates else [],
            }

    def end_pod(self):
        """A pod ends, and its claim with it."""
        if self.claims:
            self.remove(self.random.choice(sorted(self.claims)))

    def remove(self, name):
        """Remove a pod and its claim."""
        del self.claims[name], self.pods[name]

    def flip_device(self):
        """A device is no longer published, or again."""
        self.published ^= {self.random.choice(DEVICES)}

    def meddle(self):
        """Somebody deletes or edits a rule."""
        if self.rules:
            name = self.random.choice(sorted(self.rules))
            if self.random.random() < 0.5:
                del self.rules[name]
            else:
                self.rules[name]["spec"]["taint"]["effect"] = "None"

    def wait(self):
        """Time passes."""
        self.seconds += self.random.choice([5, 60, 130])

    # --- what the operator does

    def state(self):
        """What the operator knows."""
        inventory, ledger = Inventory(), Ledger()
        uses = {
            name: [{"counterSet": each, "counters": {"m": {"value": "1"}}} for each in sets]
            for name, sets in SETS.items()
        }
        devices = [
            {"name": each} | ({"consumesCounters": uses[each]} if each in uses else {})
            for each in sorted(self.published)
        ]
        if devices:
            inventory.put(read_object(resource_slice("s", devices)))
        made = {}
        for name, each in self.claims.items():
            body = claim(name, request(), namespace="ns")
            if each["is_made_for"]:
                body["metadata"]["ownerReferences"] = [
                    {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                ]
            result = POOL | {
                "device": each["device"], "request": "gpu", "tolerations": each["tolerations"],
                "adminAccess": each["is_admin"],
            }  # fmt: skip
            users = [{"resource": "pods", "name": name, "uid": name}]
            body["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
            made["ns", name] = read_object(body)
            ledger.put(made["ns", name])
        return build_state(inventory, ledger, find_claim=made.get)

    def reconcile(self, name, *, kills=True):
        """Reconcile a maintenance; the operator may be killed before each write."""
        body = json.loads(json.dumps(self.maintenances[name]))
        own = read_maintenance(body)
        others = [read_maintenance(each) for other, each in self.maintenances.items() if other != name]
        cards, claims = find_cards(own, self.state())
        rules = [read_rule(each, own.uid) for each in self.rules.values()]
        holders = {key: read_holder(each, self.pods.get(find_pod(each))) for key, each in claims.items()}
        found = plan(
            own,
            others,
            cards,
            rules=[each for each in rules if each is not None],
            holders=holders,
            now=self.now,
            quiet=Quiet(timedelta(seconds=QUIET), timedelta(seconds=QUIET)),
            api_version="resource.k8s.io/v1",
        )
        for change in found.changes:
            self.may_be_killed(kills)
            self.write(change)
        evictions = {}
        for each in found.evicted.values():
            self.may_be_killed(kills)
            evictions[each] = self.evict(each, own)
        self.may_be_killed(kills)
        done = build_result(found, evictions, [])
        if done.is_released:
            del self.maintenances[name]
            return
        before = body.get("status", {}).get("conditions", ())
        self.maintenances[name]["status"] = complete_conditions(done.status, before, self.stamp)
        self.check_status(name, cards)

    def may_be_killed(self, kills):
        """End the operator, now and then."""
        if kills and self.random.random() < 0.1:
            raise Killed

    def write(self, change):
        """Store a change of a rule."""
        if isinstance(change, Create):
            metadata = change.body["metadata"]
            assert metadata["name"] not in self.rules
            uid = f"rule-{next(self.numbers)}"
            body = json.loads(json.dumps(change.body))
            body["metadata"] |= {"uid": uid, "creationTimestamp": self.stamp}
            self.rules[metadata["name"]] = body
            self.made_rule[
                body["spec"]["deviceSelector"]["device"], metadata["ownerReferences"][0]["name"]
            ] = self.seconds
        else:
            assert isinstance(change, Delete)
            if self.rules[change.name]["metadata"]["uid"] == change.uid:
                del self.rules[change.name]

    def evict(self, eviction, own):
        """Evict a pod, unless a budget refuses it; it must be one that a card of this maintenance is freed by."""
        made = self.claims[eviction.pod.name]
        assert made["is_made_for"]
        assert not made["is_admin"]
        assert not made["tolerations"]
        assert own.spec.drain == "Evict"
        tainted = {
            each["spec"]["deviceSelector"]["device"]
            for each in self.rules.values()
            if each["metadata"]["ownerReferences"][0]["name"] == own.name
        }
        assert made["device"] in tainted
        if self.random.random() < 0.3:
            return "the budget"
        self.remove(eviction.pod.name)
        return ""

    # --- what must hold

    def check_status(self, name, cards):
        """A safe card is held by nobody, and has been for long enough, as far as could be seen."""
        held = {each["device"] for each in self.claims.values() if not each["is_admin"]}
        seen = {each.name: {key.name for key in each.devices} for each in cards}
        for each in self.maintenances[name]["status"]["cards"]:
            key = (name, each["name"])
            if each["phase"] in ("Tainted", "Waiting", "Returned") or key not in self.seen_held:
                self.seen_held[key] = self.seconds
            if each["phase"] == "Safe":
                assert held.isdisjoint(seen[each["name"]])
                assert self.seconds - self.seen_held[key] >= QUIET
                assert all(self.seconds - self.made_rule[device, name] >= QUIET for device in each["devices"])

    def check_bound(self):
        """Never more cards are begun, or tainted, than a maintenance allows, and none by two of them."""
        everything = []
        for name, body in self.maintenances.items():
            tainted = {
                rule["spec"]["deviceSelector"]["device"]
                for rule in self.rules.values()
                if rule["metadata"]["ownerReferences"][0]["name"] == name
            }
            cards = [card for card, devices in CARDS.items() if tainted.intersection(devices) - {"all"}]
            assert len(cards) <= body["spec"]["maxUnavailable"]
            begun = [
                each["name"]
                for each in body.get("status", {}).get("cards", ())
                if each["phase"] not in ("Waiting", "Returned")
            ]
            assert len(begun) <= body["spec"]["maxUnavailable"]
            everything += begun
        assert len(everything) == len(set(everything))

    def step(self):
        """Let something happen."""
        others = [
            self.create_maintenance, self.edit_maintenance, self.delete_maintenance, self.create_pod, self.create_pod,
            self.end_pod, self.flip_device, self.meddle, self.wait, self.wait,
        ]  # fmt: skip
        if self.maintenances and self.random.random() < 0.6:
            with contextlib.suppress(Killed):
                self.reconcile(self.random.choice(sorted(self.maintenances)))
        else:
            self.random.choice(others)()
        self.check_bound()

    def settle(self):
        """Let time pass, and nothing else happen."""
        for _ in range(40):
            self.seconds += 130
            for name in list(self.maintenances):
                self.reconcile(name, kills=False)
                self.check_bound()

    def phases(self):
        """Return the phases of all cards, by maintenance."""
        return {
            name: {each["name"].rpartition("/")[2]: each["phase"] for each in body["status"]["cards"]}
            for name, body in self.maintenances.items()
        }


@pytest.mark.parametrize("seed", range(300))
def test_history_ends_with_everything_back_and_nothing_left(seed):
    """Nothing is evicted in vain, nothing safe is held, and nobody waits for ever.

    Once everything is published and the pods have ended, one maintenance gets each card; when all is finished
    they come back, and when all are deleted no rule is left.
    """
    cluster = Cluster(seed)
    for _ in range(100):
        cluster.step()
    cluster.published = set(DEVICES)
    cluster.claims, cluster.pods = {}, {}
    for body in cluster.maintenances.values():
        body["spec"] |= {"finished": [], "maxUnavailable": 4}
    cluster.settle()
    all_phases = list(cluster.phases().values())
    safe = {card for phases in all_phases for card, phase in phases.items() if phase == "Safe"}
    assert safe == {card for phases in all_phases for card in phases}
    for body in cluster.maintenances.values():
        body["spec"]["finished"] = ["all"]
    cluster.settle()
    for phases in cluster.phases().values():
        assert set(phases.values()) <= {"Returned"}
    assert cluster.rules == {}
    cluster.create_maintenance()
    cluster.settle()
    for body in cluster.maintenances.values():
        body["metadata"]["deletionTimestamp"] = cluster.stamp
    cluster.settle()
    assert cluster.maintenances == {}
    assert cluster.rules == {}
