"""AllocationPolicy on the real API server: which devices the operator allocates, as an object."""

import re
import shlex
import subprocess
import textwrap

import pytest
import yaml

from controlplane import (
    fresh_namespace,
    install_access,
    running_full_control_plane,
)
from controlplane.fencing import ADMISSION
from controlplane.installation import Installation
from controlplane.manifests import MANIFESTS, POLICIES, RULES, install_fence, install_kinds
from controlplane.scene import allocation
from dra_operator.api.names import OWNED_FINALIZER, OWNED_POLICY

ROOT = MANIFESTS.parent
PAGE = (ROOT / "docs" / "kinds.md").read_text()
DRIVER = "gpu.example.com"


@pytest.fixture(scope="module")
def plane(programs, tmp_path_factory):
    """Return a control plane with the kind, the fence and the rights."""
    with running_full_control_plane(programs, tmp_path_factory.mktemp("policies")) as started:
        install_access(started)
        install_kinds(started)
        install_fence(started)
        yield started


class PolicyInstallation(Installation):
    """An operator with its kinds, in a namespace of claims."""

    flags = ("--devices=owned", "--ownership-settle-seconds=1")

    def apply(self, name, *devices):
        """Create a policy, or change it."""
        body = {
            "apiVersion": "dra-operator.io/v1alpha1",
            "kind": "AllocationPolicy",
            "metadata": {"name": name},
            "spec": {"devices": list(devices)},
        }
        self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(body))

    def ask_with_a_claim(self):
        """Create a claim that waits: by it the API server can be asked whether it knows the rules."""
        self.scene.create_claim("waits", "absent.example.com")

    def wait_condition(self, name, condition, status, text=""):
        """Wait until a policy says something."""

        def is_said(found):
            for each in (found or {}).get("status", {}).get("conditions", ()):
                if each["type"] == condition:
                    return each["status"] == status and text in each["message"]
            return False

        return self.plane.client.wait_for(
            f"{POLICIES}/{name}", is_said, seconds=60, what=f"{condition}={status} of {name}"
        )

    def run(self, commands):
        """Run commands of a page, from where the repository is, in the namespace; return what they print."""
        kubectl = [str(self.plane.programs.kubectl), f"--kubeconfig={self.plane.admin_kubeconfig}"]
        kubectl += ["--namespace", self.scene.namespace]
        script = f'set -e\nkubectl() {{ {shlex.join(kubectl)} "$@"; }}\n{commands}'
        ran = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @staticmethod
    def uninstall_commands():
        """Return the commands of the page: for the objects, for the kinds, for finalizers that were left behind."""
        return re.findall(r"^```sh\n(.*?)^```", PAGE.split("## Uninstall")[1], re.MULTILINE | re.DOTALL)

    def wait_kinds_gone(self):
        """Wait until the kinds are not served any more, and install them again for the next test."""
        self.plane.client.wait_for(POLICIES, lambda found: found is None, what="the end of the kinds")
        install_kinds(self.plane)

    def wait_events(self, name, said):
        """Wait until there are Events about a policy with these reasons and words."""

        def are_there(found):
            there = {
                each["reason"]: each["message"]
                for each in found["items"]
                if each["involvedObject"]["name"] == name
            }
            return all(words in there.get(reason, "") for reason, words in said.items())

        self.plane.client.wait_for(
            "/api/v1/namespaces/default/events", are_there, seconds=60, what=f"Events {said}"
        )

    def rules(self):
        """Return the rules."""
        return self.plane.client.get(RULES)["items"]

    def wait_gone(self, name):
        """Wait until a policy and its rules are gone."""
        path = f"{POLICIES}/{name}"
        self.plane.client.wait_for(path, lambda found: found is None, what=f"the end of {name}")


@pytest.fixture
def installed(plane, tmp_path):
    """Return such an installation, with devices of one driver on two nodes."""
    with fresh_namespace(plane) as name:
        found = PolicyInstallation(plane, name, tmp_path)
        found.driver = "driver.example.com"
        found.scene.apply("nodes.yaml", "walkthrough/1-class.yaml", "walkthrough/2-slices.yaml")
        try:
            yield found
        finally:
            for policy in plane.client.get(POLICIES)["items"]:
                plane.client.delete(f"{POLICIES}/{policy['metadata']['name']}")
            for each in found.operators:
                each.stop()


def test_devices_are_allocated_kept_while_claims_hold_them_and_given_back(installed):
    """From the first rule to the last; a killed operator goes on, and nothing is left behind."""
    installed.scene.apply("walkthrough/3-claim.yaml")
    installed.start()
    assert installed.rules() == []

    installed.apply("gpus", {"driver": installed.driver})
    installed.wait_condition("gpus", "Settled", "True")
    installed.wait_condition("gpus", "Fenced", "True")
    installed.scene.wait_allocated("example-resource-claim")
    (rule,) = installed.rules()
    assert "dra-operator.io/allocation-policy" in rule["metadata"]["finalizers"]

    installed.plane.client.delete(f"{POLICIES}/gpus")
    claim = f"{installed.scene.namespace}/example-resource-claim"
    installed.wait_condition("gpus", "Releasing", "True", claim)
    installed.start()
    assert allocation(installed.scene.claim("example-resource-claim"))
    assert [each["metadata"]["name"] for each in installed.rules()] == [rule["metadata"]["name"]]

    installed.plane.client.delete(f"{installed.scene.claims}/example-resource-claim")
    installed.wait_gone("gpus")
    assert installed.rules() == []


def test_devices_in_use_are_given_back_on_demand(installed):
    """The claim keeps its devices, and nothing of the policy is left."""
    installed.scene.apply("walkthrough/3-claim.yaml")
    installed.start()
    installed.apply("training", {"driver": installed.driver})
    installed.scene.wait_allocated("example-resource-claim")
    installed.plane.client.delete(f"{POLICIES}/training")
    installed.wait_condition("training", "Releasing", "True")

    command = re.search(r"^kubectl (annotate allocationpolicy .*)$", PAGE, re.MULTILINE)[1]
    installed.plane.kubectl(*command.split())

    installed.wait_gone("training")
    assert installed.rules() == []
    assert allocation(installed.scene.claim("example-resource-claim"))


def test_walkthrough_of_the_page_needs_kubectl_alone(installed):
    """docs/tasks/own-devices.md: devices are taken, allocated and given back by the commands there, in their order."""
    page = (ROOT / "docs" / "tasks" / "own-devices.md").read_text()
    blocks = re.findall(r"^ +```sh\n(.*?)^ +```", page, re.MULTILINE | re.DOTALL)
    installed.start()

    ran = installed.run("".join(map(textwrap.dedent, blocks)))

    assert "allocationpolicy.dra-operator.io/training condition met" in ran
    assert "resourceclaim.resource.k8s.io/example-resource-claim condition met" in ran
    assert installed.rules() == []


def test_orphaned_rules_go_on_and_lose_our_finalizer(installed):
    """A policy deleted with `--cascade=orphan` leaves nothing that nobody takes off."""
    installed.start()
    installed.ask_with_a_claim()
    installed.apply("orphaning", {"driver": installed.driver})
    installed.wait_condition("orphaning", "Settled", "True")
    (rule,) = installed.rules()
    path = f"{RULES}/{rule['metadata']['name']}"

    installed.plane.kubectl("delete", "allocationpolicy", "orphaning", "--cascade=orphan", "--wait=false")

    installed.plane.client.wait_for(
        f"{POLICIES}/orphaning", lambda found: found is None, what="the end of the policy"
    )
    left = installed.plane.client.wait_for(
        path,
        lambda found: found["metadata"]["finalizers"] == [OWNED_FINALIZER],
        seconds=150,
        what="the finalizer",
    )
    assert "deletionTimestamp" not in left["metadata"]
    installed.plane.client.delete(path)
    installed.plane.client.wait_for(path, lambda found: found is None, what="the end of the rule")


def test_uninstall_in_order_leaves_nothing(installed):
    """Objects, operator, kinds, by the commands of the page: no kind, rule or finalizer is there any more."""
    objects, kinds, _ = installed.uninstall_commands()
    installed.start()
    installed.ask_with_a_claim()
    installed.apply("gpus", {"driver": installed.driver})
    installed.wait_condition("gpus", "Settled", "True")

    installed.run(objects)
    installed.operators[-1].stop()
    installed.run(kinds)

    assert installed.rules() == []
    installed.wait_kinds_gone()


def test_finalizers_left_behind_go_by_the_patches_of_the_page(installed):
    """Where the operator is gone before its objects, and the kinds wait for them."""
    _, kinds, patches = installed.uninstall_commands()
    installed.start()
    installed.ask_with_a_claim()
    installed.apply("gpus", {"driver": installed.driver})
    installed.wait_condition("gpus", "Settled", "True")
    installed.operators[-1].kill()
    (rule,) = installed.rules()
    installed.run(kinds.replace("delete", "delete --wait=false"))

    installed.run(patches.replace("NAME", "gpus").replace("RULE", rule["metadata"]["name"]))

    installed.wait_kinds_gone()
    assert installed.rules() == []


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([], "spec.devices"),
        ([{"pool": "node-1"}], "spec.devices[0].driver"),
        ([{"driver": "Not A Driver"}], "spec.devices[0].driver"),
        ([{"driver": DRIVER, "pool": ""}], "spec.devices[0].pool"),
    ],
)
def test_wrong_policy_is_refused_by_the_schema(plane, devices, said):
    """The field is named."""
    body = {
        "apiVersion": "dra-operator.io/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "wrong"},
        "spec": {"devices": devices},
    }
    answer = plane.client.request("POST", POLICIES, body)

    assert answer.status == 422
    assert said in answer.body["message"]


def test_fenced_says_what_is_so_now(installed):
    """The last test here, as the API server may follow no rules of a policy that is installed again."""
    installed.start()
    installed.ask_with_a_claim()
    installed.apply("gpus", {"driver": installed.driver})
    installed.wait_condition("gpus", "Fenced", "True")

    installed.plane.client.delete(f"{ADMISSION}/validatingadmissionpolicybindings/{OWNED_POLICY}")

    installed.wait_condition("gpus", "Fenced", "False", "the binding dra-operator-owned is not installed")
    installed.wait_events("gpus", {"NotFenced": "manifests/components/ownership has it"})
