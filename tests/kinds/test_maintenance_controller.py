"""The controller of DeviceMaintenance: how long a proof holds that allocations are refused, and when one is sought."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import MAINTENANCE_POLICY, OWNED_POLICY
from dra_operator.api.read import read_object
from dra_operator.cluster import ownership_policy
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import ApiError
from dra_operator.controller.metrics import Metrics
from dra_operator.inventory import Inventory
from dra_operator.kinds.device_maintenance import read_maintenance
from dra_operator.kinds.maintenance_controller import MaintenanceController
from dra_operator.kinds.maintenance_plan import build_rule
from dra_operator.kinds.selector import DeviceKey
from dra_operator.kinds.world import World
from dra_operator.ledger import Ledger
from factories import GPU, claim, device_class, manifest, request, resource_slice
from kinds.states import build_state

QUIET = timedelta(seconds=120)
PUBLISHED = Path(ownership_policy.__file__).with_name("maintenance_policy.yaml")


class Session:
    """An API server with one maintenance of a device, which has its rule; dry runs are refused by `policy`."""

    def __init__(self, phase, age, policy=MAINTENANCE_POLICY):
        self.policy, self.asked = policy, 0
        since = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=age)
        self.safe_at = (since + QUIET).strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = {"name": f"{GPU}/n1/a", "phase": phase, "since": since.isoformat(), "devices": ["a"]}
        self.own = {
            "metadata": {"name": "dm", "uid": "dm", "creationTimestamp": since.isoformat()},
            "spec": {"devices": [{"driver": GPU, "pool": "n1"}]},
            "status": {"cards": [entry]},
        }
        rule = build_rule(read_maintenance(self.own), DeviceKey(GPU, "n1", "a"), "resource.k8s.io/v1")
        rule["metadata"] |= {"uid": "rule", "creationTimestamp": since.isoformat()}
        self.rules, self.made = [rule], []
        self.fence = list(yaml.safe_load_all(PUBLISHED.read_text(encoding="utf-8")))
        for each in self.fence:
            each["metadata"] |= {"uid": each["kind"], "generation": 1}

    async def request(self, method, path, **json):
        """Answer."""
        if method == "PATCH":
            self.asked += 1
            raise ApiError(
                422, "Invalid", f"ValidatingAdmissionPolicy '{self.policy}' with binding denied it"
            )
        if method == "POST":
            self.made.append(json["body"]["spec"]["deviceSelector"]["device"])
            return {}
        if "resourceclaimtemplates" in path:
            spec = {"devices": {"requests": [request(allocationMode="ExactCount", count=1)]}}
            return manifest("ResourceClaimTemplate", "t", {"spec": spec}, uid="t")
        if path.endswith(MAINTENANCE_POLICY):
            found = self.fence["bindings" in path]
            if found is None:
                raise ApiError(404, "NotFound", path)
            return found
        return {"items": [self.own] if "devicemaintenances" in path else self.rules}


def build(session, devices="a", *, knows_rules=True):
    """Return a controller that asks a server, where a claim waits, and a reconciliation of its maintenance."""
    inventory = Inventory()
    inventory.put(read_object(device_class()))
    inventory.put(read_object(manifest("Node", "n1")))
    inventory.put(read_object(resource_slice("n1", [{"name": each} for each in devices], pool="n1")))
    for rule in session.rules if knows_rules else ():
        inventory.put(read_object(rule))
    waiting = [read_object(claim("w", request(), namespace="ns"))]
    state = build_state(inventory, Ledger(), find_pending=lambda: waiting)

    async def may_write():
        """Permit it."""

    world = World(
        session, lambda inquiry: inquiry.answer(state), may_write, lambda kind: Served(KINDS[kind], "v1"),
        lambda *_: None, Metrics(),
    )  # fmt: skip
    controller = MaintenanceController(world, QUIET, timedelta(seconds=30))
    return lambda: asyncio.run(controller.reconcile(session.own)).status["cards"][0]


def edit(position, **metadata):
    """Return what changes an object of the policy: 0 is the policy, 1 its binding."""
    return lambda fence: fence[position]["metadata"].update(metadata)


@pytest.mark.parametrize(
    ("change", "asked", "is_trusted"),
    [
        (lambda _: None, 1, True),
        (edit(0, generation=2), 2, True),
        (edit(1, uid="anew"), 2, True),
        (lambda fence: fence[0]["spec"].update(validations=[]), 1, False),
        (lambda fence: fence.__setitem__(0, None), 1, False),
        (lambda fence: fence.__setitem__(1, None), 1, False),
    ],
)
def test_proof_is_of_no_use_once_the_policy_is_another(change, asked, is_trusted):
    """A card that is not safe yet waits for another proof, or for the whole time."""
    session = Session("Drained", 20)
    reconcile = build(session)
    assert session.safe_at not in reconcile()["message"]

    change(session.fence)

    assert (session.safe_at not in reconcile()["message"]) is is_trusted
    assert session.asked == asked


@pytest.mark.parametrize(
    ("phase", "age", "policy", "asked"),
    [
        ("Drained", 20, "other", 1),
        ("Drained", 20, MAINTENANCE_POLICY, 1),
        ("Tainted", 500, MAINTENANCE_POLICY, 0),
        ("Safe", 20, MAINTENANCE_POLICY, 0),
    ],
)
def test_dry_runs_end_where_they_are_of_no_use(phase, age, policy, asked):
    """Neither a safe card is asked about, nor an old rule, nor one again that another policy refuses first."""
    session = Session(phase, age, policy)
    reconcile = build(session)
    for _ in range(3):
        reconcile()

    assert session.asked == asked


@pytest.mark.parametrize(
    ("policy", "knows_rules", "is_trusted"),
    [(OWNED_POLICY, True, True), (OWNED_POLICY, False, False), (f"{OWNED_POLICY}-rules", True, False)],
)
def test_owned_device_is_fenced_once_the_operator_knows_the_rule(policy, knows_rules, is_trusted):
    """The policy of owned devices refuses it first, and all but the operator, which decides by what it knows."""
    session = Session("Drained", 20, policy)

    message = build(session, knows_rules=knows_rules)()["message"]

    assert (session.safe_at not in message) is is_trusted


@pytest.mark.parametrize(("other", "made"), [(False, ["a"]), (True, [])])
def test_copies_must_fit_beside_each_other_and_what_others_began_a_moment_ago(other, made):
    """Of three devices two are left, or one where another maintenance has a rule that no watch has brought."""
    session = Session("Waiting", 20)
    entry = {"namespace": "ns", "resourceClaimTemplateName": "t"}
    devices = [{"driver": GPU, "pool": "n1", "device": "a"}]
    session.own["spec"] = {"devices": devices, "mustStillFit": [entry, entry]}
    theirs = read_maintenance({**session.own, "metadata": {"name": "other", "uid": "other"}})
    rule = build_rule(theirs, DeviceKey(GPU, "n1", "b"), "resource.k8s.io/v1")
    rule["metadata"] |= {"uid": "theirs", "creationTimestamp": "2026-01-01T00:00:00Z"}
    session.rules = [rule] if other else []

    build(session, "abc")()

    assert session.made == made
