"""DeviceReservation on a real control plane: what it holds survives its pods, and Kubernetes' own controllers."""

import json
import re
import shlex

import pytest
import yaml

from controlplane import (
    fresh_namespace,
    install_access,
    install_component,
    running_full_control_plane,
)
from controlplane.installation import Installation
from controlplane.manifests import KINDS, MANIFESTS, RULES, install_fence, wait_rights_used
from controlplane.scene import allocation, devices
from factories import manifest

CRDS = MANIFESTS.parent / "crds"
API = "/apis/dra-operator.io/v1alpha1"
DRIVER = "driver.example.com"
TEMPLATE = manifest(
    "ResourceClaimTemplate",
    "gpu",
    {
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "example-device-class"}}]}
        }
    },
)


@pytest.fixture(scope="module")
def plane(programs, tmp_path_factory):
    """Return a full control plane with the kinds, the fence and the rights."""
    with running_full_control_plane(programs, tmp_path_factory.mktemp("reservations")) as started:
        started.kubectl("apply", "-k", str(CRDS), "--warnings-as-errors")
        wait_kinds(started)
        install_access(started)
        for component in ("allocation-policies", "device-reservations", "device-maintenance"):
            install_component(started, component)
        install_fence(started)
        for component in ("confinement", "device-maintenance"):
            started.kubectl("apply", f"--filename={MANIFESTS / 'components' / component / 'policy.yaml'}")
        yield started


def wait_kinds(plane):
    """Wait until the API server serves the kinds."""
    for path in KINDS:
        plane.client.wait_for(path, lambda found: found is not None, seconds=240, what=path)


class ReservationInstallation(Installation):
    """An operator that owns the devices of a driver, in a namespace with a template."""

    flags = ("--devices=owned", "--ownership-settle-seconds=1")

    def __init__(self, plane, namespace, folder):
        super().__init__(plane, namespace, folder)
        self.path = f"{API}/namespaces/{namespace}/devicereservations"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def apply(self, *bodies):
        """Create objects in the namespace, or change them."""
        text = yaml.safe_dump_all(bodies)
        self.plane.kubectl("apply", f"--namespace={self.scene.namespace}", "-f", "-", input=text)

    def apply_own(self, kind, name, **spec):
        """Create an object of a kind of our own, or change it."""
        version = "dra-operator.io/v1alpha1"
        self.apply({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})

    def own_devices(self):
        """Have the operator own the devices."""
        self.apply_own("AllocationPolicy", "gpus", devices=[{"driver": DRIVER}])

    def reserve(self, name="training", **spec):
        """Create a reservation, or change it."""
        self.apply_own("DeviceReservation", name, **{"resourceClaimTemplateName": "gpu", **spec})

    def maintain(self, name, card, phase="Drained"):
        """Take a card, as `pool/device`, out of service, and wait until it has a phase."""
        pool, device = card.split("/")
        self.apply_own(
            "DeviceMaintenance", name, devices=[{"driver": DRIVER, "pool": pool, "device": device}]
        )
        self.client.wait_for(
            f"{API}/devicemaintenances/{name}",
            lambda found: [each["phase"] for each in found.get("status", {}).get("cards", ())] == [phase],
            seconds=180,
            what=f"{name} {phase}",
        )

    def wait(self, condition, what, name="training", seconds=90):
        """Wait until the status of a reservation fulfils a condition, and return it."""

        def holds(found):
            return found is not None and bool(status := found.get("status")) and condition(status)

        return self.client.wait_for(f"{self.path}/{name}", holds, seconds=seconds, what=what)["status"]

    def wait_phase(self, phase, name="training"):
        """Wait until a reservation has a phase, and return its status."""
        return self.wait(lambda status: status["phase"] == phase, f"{name} {phase}", name)

    def create_pod(self, name, claim):
        """Create a pod that names a claim."""
        spec = {
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
            "terminationGracePeriodSeconds": 0,
        }
        self.client.create(self.pods, {"metadata": {"name": name}, "spec": spec})

    def wait_bound(self, name):
        """Wait until a pod has a node, and its claim is reserved for it."""
        path = f"{self.pods}/{name}"
        self.client.wait_for(path, lambda pod: pod["spec"].get("nodeName"), what=f"node of {name}")

    def users(self, claim):
        """Return for whom a claim is reserved, by resource and name."""
        entries = self.scene.claim(claim)["status"].get("reservedFor", ())
        return [(each["resource"], each["name"]) for each in entries]

    def wait_users(self, claim, *names):
        """Wait until a claim is reserved for the reservation and some pods alone."""
        wanted = sorted([("devicereservations", "training"), *(("pods", name) for name in names)])
        self.client.wait_for(
            f"{self.scene.claims}/{claim}",
            lambda _found: sorted(self.users(claim)) == wanted,
            what=f"{claim} reserved for {wanted}",
        )


def ready(status):
    """Return the condition Ready."""
    return next(each for each in status["conditions"] if each["type"] == "Ready")


@pytest.fixture
def installed(plane, tmp_path):
    """Return such an installation, with devices of one driver on two nodes, all owned."""
    with fresh_namespace(plane) as name:
        found = ReservationInstallation(plane, name, tmp_path)
        found.scene.apply("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
        found.apply(TEMPLATE)
        found.own_devices()
        found.start()
        try:
            yield found
        finally:
            for each in plane.client.get(found.pods)["items"]:
                plane.client.delete(f"{found.pods}/{each['metadata']['name']}")
            for each in plane.client.get(found.path)["items"]:
                gone = f"{found.path}/{each['metadata']['name']}"
                plane.client.delete(gone)
                plane.client.wait_for(gone, lambda body: body is None, what=f"the end of {gone}")
            assert found.scene.all_claims() == []
            plane.client.delete(f"{API}/allocationpolicies/gpus")
            path = f"{API}/allocationpolicies/gpus"
            plane.client.wait_for(path, lambda body: body is None, what="the end of the policy")
            for each in found.operators:
                each.stop()


def test_reservation_survives_pods_in_turn_and_restarts(installed):
    """Three pods use one copy, one after the other, and its device stays the same; without our entry it is taken."""
    installed.reserve(copies=2)
    status = installed.wait_phase("Ready")
    assert status["ready"] == "2/2"
    assert [each["name"] for each in status["copies"]] == ["training-0", "training-1"]
    held = devices(installed.scene.claim("training-0"))
    installed.wait_users("training-0")

    for turn, name in enumerate(("first", "second", "third")):
        installed.create_pod(name, "training-0")
        installed.wait_bound(name)
        installed.wait_users("training-0", name)
        if turn == 1:
            installed.plane.restart_controllers()
            installed.start()
        installed.client.delete(f"{installed.pods}/{name}")
        installed.wait_users("training-0")
        assert devices(installed.scene.claim("training-0")) == held
    assert installed.wait_phase("Ready")["ready"] == "2/2"

    installed.operators[-1].kill()
    installed.create_pod("fourth", "training-0")
    installed.wait_bound("fourth")
    entries = installed.scene.claim("training-0")["status"]["reservedFor"]
    others = [each for each in entries if each["resource"] == "pods"]
    assert [each["name"] for each in others] == ["fourth"]
    path = f"{installed.scene.claims}/training-0"
    installed.client.patch(f"{path}/status", {"status": {"reservedFor": others}})
    installed.client.delete(f"{installed.pods}/fourth")
    taken = "devices that kube-controller-manager takes"
    installed.client.wait_for(path, lambda claim: not allocation(claim), what=taken)
    installed.start()
    installed.wait_phase("Ready")


def test_at_its_end_running_pods_go_on_and_no_new_one_starts(installed):
    """The claims are deleted at once; the entry goes when it alone is left."""
    installed.reserve(copies=2)
    installed.wait_phase("Ready")
    installed.create_pod("running", "training-0")
    installed.wait_bound("running")

    installed.reserve(copies=2, until="2026-01-01T00:00:00Z")

    installed.wait(lambda status: [each["name"] for each in status["copies"]] == ["training-0"], "one copy")
    status = installed.wait_phase("Expiring")
    assert "running has ended" in status["copies"][0]["message"]
    claim = installed.client.wait_for(
        f"{installed.scene.claims}/training-0",
        lambda found: found["metadata"].get("deletionTimestamp"),
        what="the deletion of the claim",
    )
    assert devices(claim)
    installed.client.delete(f"{installed.pods}/running")
    assert installed.wait_phase("Expired")["ready"] == "0/2"
    assert installed.scene.all_claims() == []


def test_namespace_goes_with_its_reservations(installed, tmp_path):
    """Nothing of a reservation holds it up, also not while a pod uses it, and no claim is made in it meanwhile."""
    name = f"{installed.scene.namespace}-2"
    path = f"/api/v1/namespaces/{name}"
    installed.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    other = ReservationInstallation(installed.plane, name, tmp_path)
    other.apply(TEMPLATE)
    other.reserve(copies=2)
    other.wait_phase("Ready")
    other.create_pod("user", "training-0")
    other.wait_bound("user")

    installed.client.delete(path)

    installed.client.wait_for(path, lambda found: found is None, seconds=180, what="the end of the namespace")


def test_kinds_that_are_deleted_before_their_objects_take_these_along(installed):
    """Each kind's finalizers are taken off whatever goes first; the operator stays, and serves kinds made anew."""
    installed.reserve(copies=1)
    installed.wait_phase("Ready")
    (held,) = devices(installed.scene.claim("training-0"))
    (free, *_) = sorted({"node-1/gpu-0", "node-1/gpu-1", "node-2/gpu-0", "node-2/gpu-1"} - {held})
    installed.maintain("card", free)
    (operator,) = installed.operators

    installed.plane.kubectl("delete", "-k", str(CRDS), "--timeout=110s")

    assert installed.scene.all_claims() == []
    assert installed.client.get(RULES)["items"] == []
    installed.plane.kubectl("apply", "-k", str(CRDS))
    wait_kinds(installed.plane)
    installed.own_devices()
    installed.reserve(copies=1)
    # Kopf begins up to a minute after a kind is served again.
    installed.wait(lambda status: status["phase"] == "Ready", "training Ready again", seconds=240)
    installed.maintain("card", free)
    installed.client.delete(f"{API}/devicemaintenances/card")
    operator.wait_ready()
    assert operator.exit_code is None
    assert [line for line in operator.lines() if "exception" in line] == []


def test_card_of_the_operator_s_own_is_safe_once_its_fence_is_seen(installed):
    """The policy of owned devices refuses the dry run before that of maintenances does, which counts as well."""
    installed.scene.create_claim("waits", "absent.example.com")

    installed.maintain("card", "node-1/gpu-0", "Safe")

    installed.client.delete(f"{API}/devicemaintenances/card")
    installed.client.delete(f"{installed.scene.claims}/waits")
    _, metrics = installed.operators[-1].http("/metrics")
    taken = re.search(r"^dra_operator_maintenance_safe_seconds_sum (\S+)$", metrics, re.MULTILINE)
    assert float(taken[1]) < 100


def test_what_is_left_behind_goes_by_the_patches_of_the_page(installed):
    """Without an operator, the finalizer and then the entry are taken off by hand."""
    installed.reserve(copies=1)
    installed.wait_phase("Ready")
    installed.operators[-1].kill()
    page = (MANIFESTS.parent / "docs" / "kinds.md").read_text().partition("## Uninstall")[2]
    patches = {
        kind: re.search(rf"^kubectl (patch {kind} .*)$", page, re.MULTILINE)[1]
        for kind in ("devicereservation", "resourceclaim")
    }

    def run(kind, name):
        command = shlex.split(patches[kind].replace("NAME", name))
        installed.plane.kubectl(*command, f"--namespace={installed.scene.namespace}")

    installed.client.delete(f"{installed.path}/training")
    run("devicereservation", "training")
    path = f"{installed.scene.claims}/training-0"
    installed.client.wait_for(path, lambda found: found["metadata"].get("deletionTimestamp"), what="deletion")
    run("resourceclaim", "training-0")
    installed.scene.wait_gone("training-0")
    installed.start()


def test_template_of_a_reservation_cannot_be_changed_nor_its_name_be_too_long(plane):
    """The rest can; the message says what to do."""
    path = f"{API}/namespaces/default/devicereservations"
    body = {
        "apiVersion": "dra-operator.io/v1alpha1",
        "kind": "DeviceReservation",
        "metadata": {"name": "kept"},
        "spec": {"resourceClaimTemplateName": "gpu"},
    }
    too_long = {**body, "metadata": {"name": "x" * 250}}
    assert "at most 249" in plane.client.request("POST", path, too_long).body["message"]
    # Nobody runs here that would make its claims.
    created = plane.client.create(path, body)
    try:
        assert (created["spec"]["copies"], created["spec"]["ifLost"]) == (1, "Wait")
        changed = {**created, "spec": {**created["spec"], "resourceClaimTemplateName": "other"}}
        answer = plane.client.request("PUT", f"{path}/kept", changed)
        assert answer.status == 422
        assert "make another reservation" in answer.body["message"]
    finally:
        plane.client.delete(f"{path}/kept")


def test_columns_are_those_that_people_look_for(installed):
    """`kubectl get dr` says phase, copies and end; the kind is of the category `dra`."""
    installed.reserve(copies=1, until="2099-01-01T00:00:00Z")
    installed.wait_phase("Ready")

    for kind in ("dr", "dra"):
        text = installed.plane.kubectl("get", kind, f"--namespace={installed.scene.namespace}")
        assert "1/1" in text
        assert "2099-01-01T00:00:00Z" in text


def test_each_right_of_the_component_is_used(installed):
    """By the audit log, from the first claim to the last; nothing of Kopf's is on what is not of our kinds."""
    installed.plane.audit_log.write_bytes(b"")
    installed.start()
    installed.reserve(copies=1)
    installed.wait_phase("Ready")
    assert "dra-operator.io/kopf" not in json.dumps(installed.scene.all_claims())
    path = f"{installed.path}/training"
    installed.client.delete(path)
    installed.client.wait_for(path, lambda body: body is None, what="the end")

    wait_rights_used(installed.plane, "device-reservations")
