"""DeviceMaintenance beside kube-scheduler and kube-controller-manager: one card is emptied, its neighbours are not."""

import json
import re

import pytest
import yaml
from pydantic import ValidationError

from controlplane import (
    KubectlError,
    clear_cluster,
    fresh_namespace,
    install_access,
    install_component,
    running_full_control_plane,
)
from controlplane.installation import Installation
from controlplane.manifests import MANIFESTS, RULES, wait_rights_used
from dra_operator.kinds.device_maintenance import read_maintenance

ROOT = MANIFESTS.parent
PAGE = (ROOT / "docs" / "kinds.md").read_text().partition("## DeviceMaintenance")[2]
EXAMPLE = ROOT / "examples" / "kinds" / "maintenance.yaml"
KIND = "/apis/dra-operator.io/v1alpha1/devicemaintenances"
RESOURCE = "/apis/resource.k8s.io/v1"
DRIVER, NODE = "gpu.example.com", "node-1"
CARD = {"driver": DRIVER, "pool": NODE}
QUIET = 5


@pytest.fixture(scope="module")
def plane(programs, tmp_path_factory):
    """Return a full control plane with the kind, its rights, its policy and the confinement."""
    with running_full_control_plane(programs, tmp_path_factory.mktemp("maintenance")) as started:
        started.kubectl("apply", "-k", str(ROOT / "crds/device-maintenance"), "--warnings-as-errors")
        started.client.wait_for(KIND, lambda found: found is not None, what="the kind")
        install_access(started)
        install_component(started, "device-maintenance")
        for each in ("confinement", "device-maintenance"):
            started.kubectl("apply", f"--filename={MANIFESTS / 'components' / each / 'policy.yaml'}")
        yield started


def counter_use(name):
    """What one of two partitions draws on."""
    return [{"counterSet": name, "counters": {"memory": {"value": "40Gi"}}}]


def slices():
    """Two cards of two partitions each on one node."""
    place = {
        "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 2},
        "driver": DRIVER,
        "nodeName": NODE,
    }
    sets = [{"name": each, "counters": {"memory": {"value": "80Gi"}}} for each in ("g0", "g1")]
    parts = [
        {"name": f"{each}-{part}", "consumesCounters": counter_use(each)}
        for each in ("g0", "g1")
        for part in "ab"
    ]
    for name, content in (("counters", {"sharedCounters": sets}), ("devices", {"devices": parts})):
        yield {"kind": "ResourceSlice", "metadata": {"name": f"cards-{name}"}, "spec": place | content}


def pod_spec(**spec):
    """A pod that goes at once when it is deleted, as nobody runs it."""
    return {"containers": [{"name": "main", "image": "none", **spec}], "terminationGracePeriodSeconds": 0}


class MaintenanceInstallation(Installation):
    """A node with two cards, three replicas and a pod with an extended resource on their partitions; an operator."""

    flags = ("--devices=owned", f"--maintenance-quiet-seconds={QUIET}")

    def __init__(self, plane, namespace, folder):
        super().__init__(plane, namespace, folder)
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def create_devices(self):
        """Create the node's devices and their class."""
        for body in slices():
            self.client.create(f"{RESOURCE}/resourceslices", body)
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        spec = {"selectors": [selector], "extendedResourceName": "example.com/gpu"}
        self.client.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})

    def create_users(self):
        """Create four pods, of which three are replicas that a budget protects, and wait until they run."""
        where = f"namespaces/{self.namespace}"
        self.create_template()
        claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        made = pod_spec(resources={"claims": [{"name": "gpu"}]}) | {"resourceClaims": claims}
        labels = {"app": "training"}
        replicas = {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": made},
        }
        self.client.create(
            f"/apis/apps/v1/{where}/replicasets", {"metadata": {"name": "r"}, "spec": replicas}
        )
        amount = {"example.com/gpu": "1"}
        single = pod_spec(resources={"requests": amount, "limits": amount})
        self.client.create(self.pods, {"metadata": {"name": "extended"}, "spec": single})
        self.client.create(
            f"/apis/policy/v1/{where}/poddisruptionbudgets",
            {
                "metadata": {"name": "budget"},
                "spec": {"minAvailable": 3, "selector": {"matchLabels": labels}},
            },
        )
        self.run_pods(4)
        self.client.wait_for(
            f"/apis/policy/v1/{where}/poddisruptionbudgets/budget",
            lambda found: found.get("status", {}).get("currentHealthy") == 3,
            what="three healthy pods",
        )

    def create_template(self):
        """Create a template of claims for one partition, and return the spec of such a claim."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        spec = {"devices": {"requests": [request]}}
        where = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates"
        self.client.create(where, {"metadata": {"name": "gpu"}, "spec": {"spec": spec}})
        return spec

    def run_pods(self, count):
        """Wait until so many pods have a node, and say of each that it runs, as its kubelet would."""
        listed = self.client.wait_for(
            self.pods,
            lambda found: sum(bool(each["spec"].get("nodeName")) for each in found["items"]) == count,
            what=f"{count} pods with a node",
        )
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for each in listed["items"]:
            self.client.patch(f"{self.pods}/{each['metadata']['name']}/status", {"status": status})

    def allow_one(self):
        """Let the budget allow one disruption."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/budget"
        self.client.patch(path, {"spec": {"minAvailable": 2}})

    def uids(self):
        """Return the pods by their uids, with the device of each."""
        found = {}
        for claim in self.scene.all_claims():
            results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            for result in results:
                found[claim["status"]["reservedFor"][0]["uid"]] = result["device"]
        return found

    def apply(self, name="dm", **spec):
        """Create a maintenance, or change it."""
        body = {
            "apiVersion": "dra-operator.io/v1alpha1",
            "kind": "DeviceMaintenance",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(body))

    def wait_condition(self, condition, status, text="", name="dm"):
        """Wait until a maintenance says something."""

        def is_said(found):
            for each in (found or {}).get("status", {}).get("conditions", ()):
                if each["type"] == condition:
                    return each["status"] == status and text in each["message"]
            return False

        what = f"{condition}={status} of {name} with {text!r}"
        return self.client.wait_for(f"{KIND}/{name}", is_said, seconds=120, what=what)

    def wait_phase(self, *phases, name="dm"):
        """Wait until the cards have some phases."""

        def has(found):
            return [each["phase"] for each in (found or {}).get("status", {}).get("cards", ())] == [*phases]

        return self.client.wait_for(f"{KIND}/{name}", has, seconds=120, what=f"phases {phases}")

    def wait_told(self, *reasons):
        """Wait until maintenances have Events with some reasons."""

        def are_there(events):
            about = [
                each for each in events["items"] if each["involvedObject"]["kind"] == "DeviceMaintenance"
            ]
            return {*reasons} <= {each["reason"] for each in about}

        self.client.wait_for("/api/v1/events", are_there, what=f"Events {reasons}")

    def tainted(self):
        """Return which devices have a rule."""
        return sorted(each["spec"]["deviceSelector"]["device"] for each in self.client.get(RULES)["items"])

    def remove(self, name="dm"):
        """Delete a maintenance, and wait until it and its rules are gone."""
        self.client.delete(f"{KIND}/{name}")
        gone = f"the end of {name}"
        self.client.wait_for(f"{KIND}/{name}", lambda found: found is None, what=gone)


@pytest.fixture
def installed(plane, tmp_path):
    """Return such an installation."""
    with fresh_namespace(plane) as name:
        found = MaintenanceInstallation(plane, name, tmp_path)
        found.scene.apply("nodes.yaml")
        found.create_devices()
        try:
            yield found
        finally:
            for each in plane.client.get(KIND)["items"]:
                plane.client.delete(f"{KIND}/{each['metadata']['name']}")
            for each in found.operators:
                each.stop()
            for each in plane.client.get(KIND)["items"]:
                plane.client.patch(f"{KIND}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
            clear_cluster(plane)


def test_one_card_is_emptied_worked_on_and_put_back(installed):
    """Exactly its pods go, the one with an extended resource at once, the other when its budget allows it.

    The operator is killed in between, neighbours keep their pods, and the last pod comes back on the card.
    """
    installed.create_users()
    installed.start()
    before = installed.uids()
    extended = installed.client.get(f"{installed.pods}/extended")["metadata"]["uid"]
    device = before[extended]
    card = device[:2]
    ours = {uid for uid, each in before.items() if each[:2] == card}
    assert len(before) == 4
    assert len(ours) == 2

    installed.apply(devices=[{**CARD, "device": device}], drain="Evict", evictAfterSeconds=0)
    found = installed.wait_condition("Drained", "False", "disruption budget")
    (preview,) = [each for each in found["status"]["conditions"] if each["type"] == "Previewed"]
    assert re.match("2 devices, held by claims .*; 0 of 2 would get other devices, not ", preview["message"])
    assert installed.tainted() == [f"{card}-a", f"{card}-b"]
    installed.client.wait_for(f"{installed.pods}/extended", lambda found: found is None, what="the eviction")
    installed.start()
    installed.allow_one()
    found = installed.wait_condition("SafeToWork", "True", f"{NODE}/{card}")
    assert installed.uids().keys() == before.keys() - ours
    assert [each["phase"] for each in found["status"]["cards"]] == ["Safe"]
    installed.start()
    installed.wait_condition("SafeToWork", "True")

    patch = re.search(r"^kubectl (patch devicemaintenance gpu-3 .*?) -p '(.*)'$", PAGE, re.MULTILINE)
    installed.plane.kubectl(*patch[1].replace("gpu-3", "dm").split(), "-p", patch[2])
    installed.wait_phase("Returned")
    assert installed.tainted() == []
    installed.run_pods(3)
    assert len(installed.uids()) == 3
    demand = {"namespace": installed.namespace, "resourceClaimTemplateName": "gpu", "copies": 9}
    installed.apply("other", devices=[{**CARD, "device": device}], mustStillFit=[demand])
    installed.wait_condition("Blocked", "True", "of 9 copies would fit", name="other")
    installed.remove("other")
    installed.remove()
    assert "dra-operator.io/kopf" not in json.dumps(installed.scene.all_claims())
    wait_rights_used(installed.plane, "device-maintenance")
    installed.wait_told("Evicted", "SafeToWork", "Returned")


def test_policy_refuses_what_is_in_maintenance_and_makes_it_safe_sooner(installed):
    """No card is begun that claims need which must still fit; the policy keeps anybody off, so 600 s are not waited."""
    installed.flags = ("--devices=owned", "--maintenance-quiet-seconds=600", "--ownership-settle-seconds=2")
    spec = installed.create_template()
    claims = f"{RESOURCE}/namespaces/{installed.namespace}/resourceclaims"
    installed.client.create(claims, {"metadata": {"name": "waits"}, "spec": spec})
    installed.start()
    demand = {"namespace": installed.namespace, "resourceClaimTemplateName": "gpu"}
    devices = [{**CARD, "device": "g0-a"}]

    installed.apply(devices=devices, mustStillFit=[{**demand, "copies": 3}])
    installed.wait_condition("Blocked", "True", f"{installed.namespace}/gpu: 2 of 3 copies would fit: ")
    assert installed.tainted() == []
    installed.apply(devices=devices, mustStillFit=[{**demand, "copies": 2}])
    found = installed.wait_condition("SafeToWork", "True", f"{NODE}/g0")
    assert found["status"]["conditions"][-1]["message"] == "2 devices, which no claim holds"

    for device, is_refused in (("g0-b", True), ("g1-a", False)):
        result = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": device}
        status = {"allocation": {"devices": {"results": [result]}}}
        patch = (
            "--subresource=status",
            "--type=merge",
            "--dry-run=server",
            "-p",
            json.dumps({"status": status}),
        )
        said = ""
        try:
            installed.plane.kubectl(
                "patch", "resourceclaim", "waits", f"--namespace={installed.namespace}", *patch
            )
        except KubectlError as error:
            said = str(error)
        assert ("g0-b is in maintenance" in said) is is_refused
        assert bool(said) is is_refused


FITTING = {"namespace": "n", "resourceClaimTemplateName": "t", "copies": 255}
SPECS = [
    ({"devices": [{**CARD, "device": "g0-a"}]}, True),
    ({"devices": [{"node": NODE}], "drain": "Evict", "finished": ["all", "a/b/c", "a/b/c/d"]}, True),
    ({"devices": [{"driver": DRIVER}], "maxUnavailable": 2}, True),
    ({"devices": [{"node": NODE}], "mustStillFit": [FITTING]}, True),
    ({"devices": [{"node": NODE}], "mustStillFit": [{**FITTING, "copies": 0}]}, False),
    ({"devices": [{"node": NODE}], "mustStillFit": [{"namespace": "n"}]}, False),
    ({}, False),
    ({"devices": []}, False),
    ({"devices": [{}]}, False),
    ({"devices": [{"driver": DRIVER}]}, False),
    ({"devices": [{"driver": DRIVER, "device": "a"}]}, False),
    ({"devices": [{"node": "n", "driver": DRIVER, "pool": "p"}]}, False),
    ({"devices": [{"node": "n", "pool": "p"}]}, False),
    ({"devices": [{"node": ""}]}, False),
    ({"devices": [{"node": "n"}] * 65}, False),
    ({"devices": [{"node": "n"}], "drain": "Never"}, False),
    ({"devices": [{"node": "n"}], "maxUnavailable": 0}, False),
    ({"devices": [{"node": "n"}], "maxUnavailable": 1001}, False),
    ({"devices": [{"node": "n"}], "evictAfterSeconds": -1}, False),
    ({"devices": [{"node": "n"}], "finished": ["gpu-3"]}, False),
    ({"devices": [{"node": "n"}], "reason": "x" * 1025}, False),
]


@pytest.mark.parametrize(("spec", "is_good"), SPECS)
def test_schema_and_operator_accept_the_same(plane, spec, is_good):
    """What the API server stores the operator can read, and what it refuses the operator would."""
    body = {
        "apiVersion": "dra-operator.io/v1alpha1",
        "kind": "DeviceMaintenance",
        "metadata": {"name": "tried", "uid": "u"},
        "spec": spec,
    }
    answer = plane.client.request("POST", f"{KIND}?dryRun=All", body)

    assert answer.status == (201 if is_good else 422)
    if is_good:
        assert read_maintenance(answer.body).spec.model_dump() == read_maintenance(body).spec.model_dump()
    else:
        with pytest.raises(ValidationError):
            read_maintenance(body)


def test_example_is_taken(plane):
    """By kubectl, with its strict validation."""
    plane.kubectl("apply", f"--filename={EXAMPLE}", "--dry-run=server", "--warnings-as-errors")
