"""docs/upgrade.md: each of its commands, with operators of the versions that it names, and what is left at the end."""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from controlplane import OperatorProcess, Scene, running_full_control_plane, start_operator
from controlplane.helm import find_or_build_helm
from controlplane.manifests import NAMESPACE
from controlplane.scene import PENDING, allocation, annotations
from dra_operator.api.names import OWNED_KEY
from factories import manifest

ROOT = Path(__file__).parents[2]
OLD_MANIFESTS = "08fb02b7"
FIRST_CHART = "ed0db0b4"
COMPONENTS = ("ownership", "gates", "explain-pods")
RULE = manifest(
    "DeviceTaintRule",
    "ours",
    {
        "deviceSelector": {"driver": "driver.example.com"},
        "taint": {"key": OWNED_KEY, "effect": "NoSchedule"},
    },
)
KINDS = ("allocationpolicies", "devicereservations", "devicemaintenances")
CHANGES_BY_ITSELF = (
    "events",
    "events.events.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "clustertrustbundles.certificates.k8s.io",
)
ITS_OWN = {"default", "kube-system", "kube-public", "kube-node-lease", "life"}
"""Namespaces with objects of the control plane, and that of the claims, which stay."""


def blocks(page, heading):
    """Return the commands under a heading of a page, block by block."""
    section = (ROOT / "docs" / page).read_text().split(f"\n{heading}\n")[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    """Return the folders of this version, of the manifests before the chart and of the first chart."""
    found = {}
    for name in (OLD_MANIFESTS, FIRST_CHART, "now"):
        found[name] = tmp_path_factory.mktemp(name)
        if name == "now":
            for each in ("manifests", "crds", "charts", "operator"):
                shutil.copytree(ROOT / each, found[name] / each, symlinks=True)
        else:
            export(name, found[name])
        file = found[name] / "manifests" / "kustomization.yaml"
        overlay = yaml.safe_load(file.read_text())
        overlay["components"] = [f"components/{name}" for name in COMPONENTS]
        file.write_text(yaml.safe_dump(overlay))
    return found


def export(commit, folder):
    """Write what a commit has into a folder; skip the test where the history is cut off before."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.skip(f"this checkout has no commit {commit}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="fully_trusted")  # noqa: S202 - our own commit


@dataclass
class Cluster:
    """A cluster in which claims are allocated and wait, and an operator as the Deployment there says."""

    plane: object
    helm: Path
    folder: Path
    operator: OperatorProcess | None = None
    started: int = 0

    def run(self, commands, folder):
        """Run commands of the page in a checkout."""
        environment = {"HOME": str(self.folder), "KUBECONFIG": str(self.plane.admin_kubeconfig)}
        programs = {"kubectl": self.plane.programs.kubectl, "helm": self.helm}
        functions = "\n".join(
            f'{name}() {{ {shlex.quote(str(path))} "$@"; }}' for name, path in programs.items()
        )
        ran = subprocess.run(
            ["bash", "-c", f"set -eo pipefail\n{functions}\n{commands}"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def ask(self, *question):
        """Return what `kubectl dra` answers; 1 says that something waits."""
        command = [
            str(Path(sys.executable).with_name("kubectl-dra")),
            *question,
            f"--kubeconfig={self.plane.admin_kubeconfig}",
        ]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode in {0, 1}, ran.stderr
        return ran.stdout

    def start(self, checkout):
        """Start the operator of a checkout with what the Deployment says; the one before ends."""
        self.stop()
        self.started += 1
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/dra-operator"
        pod = self.plane.client.get(path)["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["args"] == ["run", "--config=/etc/dra-operator/config.yaml"]
        (volume,) = [each for each in pod["volumes"] if each["name"] == "config"]
        data = self.plane.client.get(
            f"/api/v1/namespaces/{NAMESPACE}/configmaps/{volume['configMap']['name']}"
        )
        config = self.folder / "config.yaml"
        config.write_text(data["data"]["config.yaml"])
        variables = {}
        for each in container["env"]:
            # As kubelet: a field of the pod, or a text with variables that stand before.
            value = each.get("value", "one")
            variables[each["name"]] = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], value)
        assert variables["DRA_OPERATOR_CLAIMS"] == "all"
        self.operator = start_operator(
            self.plane,
            self.folder / f"operator-{self.started}.log",
            f"--config={config}",
            "--devices=owned",
            "--ownership-settle-seconds=1",
            environment={**variables, "PYTHONPATH": str(checkout / "operator")},
            kubeconfig=self.plane.kubeconfig_for(pod["serviceAccountName"], NAMESPACE),
            program="dra_operator",
        )
        self.operator.wait_ready(90)

    def stop(self):
        """End the operator."""
        if self.operator is not None:
            self.operator.stop()

    def objects(self):
        """Return kind, namespace and name of all objects, but for those that the control plane makes for itself."""
        kinds = self.plane.kubectl("api-resources", "--verbs=list", "-o=name").split()
        wanted = ",".join(kind for kind in kinds if kind not in CHANGES_BY_ITSELF)
        template = '{range .items[*]}{.kind},{.metadata.namespace},{.metadata.name}{"\\n"}{end}'
        lines = self.plane.kubectl("get", wanted, "-A", f"-o=jsonpath={template}").splitlines()
        found = {tuple(line.split(",")) for line in lines}
        return {each for each in found if each[1] not in ITS_OWN or "dra-operator" in each[2]}


@pytest.fixture
def cluster(programs, tmp_path):
    """Return a cluster of this test alone, without anything in it."""
    (tmp_path / "plane").mkdir()
    with running_full_control_plane(programs, tmp_path / "plane") as plane:
        found = Cluster(plane, find_or_build_helm(), tmp_path)
        yield found
        found.stop()


def claim(name, count):
    """Return a claim for some devices."""
    exactly = {"deviceClassName": "example-device-class", "count": count}
    return manifest("ResourceClaim", name, {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})


def gated_pod(name):
    """Return a pod with the gate that uses the claim of its name."""
    return manifest(
        "Pod",
        name,
        {
            "schedulingGates": [{"name": "dra-operator.io/allocation"}],
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        },
    )


class Life:
    """What must survive: a standalone claim and one of a pod that have devices, and one of each that wait."""

    def __init__(self, plane):
        self.plane = plane
        plane.client.create("/api/v1/namespaces", {"metadata": {"name": "life"}})
        self.scene = Scene(plane, "life")
        self.apply(RULE)
        self.scene.apply(
            "nodes.yaml", *(f"walkthrough/{name}.yaml" for name in ("1-class", "2-slices", "3-claim"))
        )
        self.kept = {}
        self.tried = 0

    def apply(self, *objects):
        """Apply objects."""
        self.plane.kubectl("apply", "-n", "life", "-f", "-", input=yaml.safe_dump_all(objects))

    def begin(self):
        """Make it all, and wait until the operator has decided."""
        self.scene.wait_allocated("example-resource-claim", seconds=120)
        self.apply(claim("runs", 1), gated_pod("runs"))
        self.scene.wait_allocated("runs")
        self.pod("runs", lambda pod: pod["spec"].get("nodeName"), "a node")
        self.apply(claim("queued", 2), gated_pod("queued"), claim("waits", 2))
        self.kept = {name: self.held(name) for name in ("example-resource-claim", "runs")}
        self.goes_on()

    def pod(self, name, condition, what):
        """Wait for something of a pod."""
        path = f"/api/v1/namespaces/life/pods/{name}"
        self.plane.client.wait_for(path, condition, what=f"{what} of {name}")

    def held(self, name):
        """Return what a claim holds, and for whom."""
        found = self.scene.claim(name)
        return allocation(found), found["status"].get("reservedFor")

    def goes_on(self):
        """Nothing is lost, what waits is told so, and a new claim gets the device that is left."""
        self.tried += 1
        name = f"new-{self.tried}"
        self.apply(claim(name, 1))
        self.scene.wait_allocated(name, seconds=120)
        self.scene.delete_claim(name)
        self.scene.wait_gone(name)
        assert {each: self.held(each) for each in self.kept} == self.kept
        self.scene.wait_pending("waits", "in use")
        self.scene.wait_pending("queued", "in use")
        queued = self.plane.client.get("/api/v1/namespaces/life/pods/queued")
        assert queued["spec"]["schedulingGates"] == gated_pod("queued")["spec"]["schedulingGates"]


@pytest.mark.timeout(900)
def test_page_leads_from_version_to_version_and_back(cluster, checkouts):
    """Nothing is lost on any of its ways, and what is left at the end is what it names."""
    plane = cluster.plane
    old, first, now = checkouts[OLD_MANIFESTS], checkouts[FIRST_CHART], checkouts["now"]
    take_over, back = blocks("upgrade.md", "## From manifests to the chart")
    upgrade, roll_back = blocks("upgrade.md", "## From chart to chart")
    uninstall, clean_up = blocks("upgrade.md", "## Uninstall")
    life = Life(plane)
    before = cluster.objects()

    cluster.run("kubectl apply -k manifests/", old)
    cluster.start(old)
    life.begin()

    # Manifests of before, chart of now, and back.
    for commands, checkout in ((take_over, now), (back, old)):
        cluster.run(commands, checkout)
        cluster.start(checkout)
        life.goes_on()

    # The first chart, the chart of now, and back; in the end the chart of now.
    cluster.run(take_over, first)
    cluster.start(first)
    life.goes_on()
    kinds = " --set allocationPolicies=true,deviceReservations=true,deviceMaintenance=true,confinement=true,reader=true"
    for commands, checkout in ((upgrade, now), (roll_back, first), (f"{upgrade.strip()}{kinds}", now)):
        cluster.run(commands, checkout)
        cluster.start(checkout)
        life.goes_on()
    assert "node-2       2      1" in cluster.ask("top")
    assert "in use" in cluster.ask("explain", "pod/queued", "--namespace=life")

    # What the page wants first.
    cluster.run(blocks("tasks/gate-pods.md", "## Take the gate off")[0], now)
    plane.kubectl("delete", "devicetaintrule", "ours")
    cluster.run(uninstall, now)
    cluster.stop()
    for name in life.kept:
        assert life.held(name) == life.kept[name]
    assert cluster.objects() - before == {
        ("Namespace", "", NAMESPACE),
        ("Lease", NAMESPACE, "dra-operator"),
        ("ConfigMap", NAMESPACE, "kube-root-ca.crt"),
        ("ServiceAccount", NAMESPACE, "default"),
        *(("CustomResourceDefinition", "", f"{kind}.dra-operator.io") for kind in KINDS),
    }

    cluster.run(clean_up, now)
    assert cluster.objects() - before == set()
    for each in life.scene.all_claims():
        assert not [name for name in annotations(each) if name.startswith("dra-operator.io/")]
        assert PENDING not in annotations(each)
