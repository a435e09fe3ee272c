"""What `helm install` makes of a cluster: what the manifests do; one moves to the other without a break."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from controlplane import running_control_plane
from controlplane.helm import CHART, Helm, HelmError, find_or_build_helm
from controlplane.manifests import MANIFESTS
from controlplane.registry import find_or_build_registry, running_registry
from dra_operator import __version__
from dra_operator.controller.settings import Settings

HELM_LABELS = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
CONFIG = re.compile(r"dra-operator-config-\w{10}")
COMPONENTS = {
    "ownership": "ownership.policy=true",
    "ownership/warn-tolerations": "ownership.tolerations=Warn",
    "gates": "claims=all",
    "gates/managed-namespaces": "managedNamespaces=true",
    "explain-pods": "explain=all",
    "allocation-policies": "allocationPolicies=true",
    "device-reservations": "deviceReservations=true",
    "device-maintenance": "deviceMaintenance=true",
    "confinement": "confinement=true",
    "reader": "reader=true",
    "disruption-budget": "podDisruptionBudget=true",
    "priority": "priority=true",
    "network-policy": "networkPolicy.enabled=true",
    "prometheus": "serviceMonitor.enabled=true,prometheusRule.enabled=true",
    "grafana": "dashboard.enabled=true",
}
"""The value that stands for each component of the manifests."""
BESIDE = {"ownership/warn-tolerations": "ownership", "gates/managed-namespaces": "gates"}
WITH_SETTINGS = {
    "image": {"repository": "example.com/dra-operator", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 2,
    "config": {"log_level": "debug", "handback_seconds": 30, "ownership_settle_seconds": 10},
    "serviceAccount": {"name": "allocator", "annotations": {"example.com/role": "dra"}},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "extraEnv": [{"name": "DRA_OPERATOR_LOG_LEVEL", "value": "debug"}],
    "labels": {"team": "platform"},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "x"},
    "global": {"anything": {"goes": 1}},
}


@pytest.fixture(scope="session")
def helm_program(programs):
    """Return helm, which is built where the control plane is."""
    return find_or_build_helm()


@pytest.fixture
def helm(helm_program, tmp_path):
    """Return helm without a cluster."""
    return Helm(helm_program, tmp_path)


@pytest.fixture(scope="module")
def plane(programs, tmp_path_factory):
    """Return a control plane of these tests alone: a release owns objects of the whole cluster."""
    with running_control_plane(programs, tmp_path_factory.mktemp("chart-plane")) as started:
        yield started


@pytest.fixture
def kustomized(control_plane, tmp_path):
    """Return a function that returns the objects of the manifests with components."""

    def build(*components):
        folder = tmp_path / "manifests"
        shutil.copytree(MANIFESTS, folder, dirs_exist_ok=True)
        shutil.copytree(MANIFESTS.parent / "crds", tmp_path / "crds", dirs_exist_ok=True)
        file = folder / "kustomization.yaml"
        overlay = yaml.safe_load(file.read_text())
        overlay["components"] = [f"components/{name}" for name in components]
        file.write_text(yaml.safe_dump(overlay))
        return list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(folder))))

    return build


def as_data(objects):
    """Return objects by kind and name, without what only one of the two ways sets: see docs/decisions.md, Chart."""
    found = {}
    for each in objects:
        text = CONFIG.sub("dra-operator-config", json.dumps(each))
        body = json.loads(text)
        metadata = body["metadata"]
        metadata.get("annotations", {}).pop("helm.sh/resource-policy", None)
        if not metadata.get("annotations", True):
            del metadata["annotations"]
        metadata["labels"] = {k: v for k, v in metadata.get("labels", {}).items() if k not in HELM_LABELS}
        if body["kind"] == "Deployment":
            template = body["spec"]["template"]["metadata"]
            template.get("annotations", {}).pop("checksum/config", None)
            if not template.get("annotations"):
                template.pop("annotations", None)
            (container,) = body["spec"]["template"]["spec"]["containers"]
            container["env"].sort(key=lambda variable: variable["name"])
        if body["kind"] == "ConfigMap" and "config.yaml" in body["data"]:
            body["data"]["config.yaml"] = yaml.safe_load(body["data"]["config.yaml"])
        if body["kind"] != "Namespace":
            found[body["kind"], metadata["name"]] = body
    return found


@pytest.mark.parametrize(
    "components",
    [(), *((BESIDE[name], name) if name in BESIDE else (name,) for name in COMPONENTS), tuple(COMPONENTS)],
    ids=lambda names: ",".join(names) if len(names) < 3 else "all",
)
def test_chart_is_the_manifests(helm, kustomized, components):
    """Each value that stands for a component makes of the cluster what the component does, and nothing more."""
    flags = [f"--set={COMPONENTS[name]}" for name in components]

    assert as_data(helm.template(*flags)) == as_data(kustomized(*components))


def test_bridge_is_the_manifests(helm, control_plane):
    """With the bridge there is what `manifests/bridge` makes, in its own namespace, and nothing else changes."""
    expected = list(yaml.safe_load_all(control_plane.kubectl("kustomize", str(MANIFESTS / "bridge"))))
    found = helm.template("--set=bridge.enabled=true", name="blue", namespace="devices")
    without = as_data(helm.template(name="blue", namespace="devices"))

    assert as_data(found) == without | as_data(expected)
    (namespace,) = [each for each in found if each["kind"] == "Namespace"]
    (of_manifests,) = [each for each in expected if each["kind"] == "Namespace"]
    labels = namespace["metadata"]["labels"]
    assert of_manifests["metadata"]["labels"].items() <= labels.items()
    with pytest.raises(HelmError, match=r"needs Kubernetes 1\.34 or newer, this server is v1\.33\.0"):
        helm.template("--set=bridge.enabled=true", "--kube-version=1.33.0")


def test_values_reach_the_agent(helm, tmp_path):
    """Its image, where it is, and what it may use."""
    file = tmp_path / "values.yaml"
    settings = {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"plugins": "yes"},
        "tolerations": [],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    image = {"repository": "example.com/dra-bridge", "digest": "sha256:" + "0" * 64, "pullPolicy": "Always"}
    file.write_text(yaml.safe_dump({"bridge": {"enabled": True, "image": image, **settings}}))

    found = as_data(helm.template(f"--values={file}"))

    pod = found["DaemonSet", "dra-bridge"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "example.com/dra-bridge@sha256:" + "0" * 64
    assert (container["imagePullPolicy"], container["resources"]["limits"]) == ("Always", {"memory": "1Gi"})
    assert pod["imagePullSecrets"] == settings["imagePullSecrets"]
    # helm adds to maps.
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "plugins": "yes"}
    assert "tolerations" not in pod


def test_gated_claims_have_the_rights_of_all(helm, kustomized):
    """`claims: gated` differs from the component in the setting alone."""
    expected = as_data(kustomized("gates"))
    (container,) = expected["Deployment", "dra-operator"]["spec"]["template"]["spec"]["containers"]
    next(each for each in container["env"] if each["name"] == "DRA_OPERATOR_CLAIMS")["value"] = "gated"

    assert as_data(helm.template("--set=claims=gated")) == expected


def test_explanations_alone_are_the_manifests_of_that(helm, control_plane):
    """`claims: none` has the rights of manifests/explain-only, which has none to allocate."""
    text = control_plane.kubectl("kustomize", str(MANIFESTS / "explain-only"))
    expected = as_data(yaml.safe_load_all(text))

    assert as_data(helm.template("--set=claims=none,explain=all")) == expected
    granted = [
        (resource, set(rule["verbs"]))
        for (kind, _), role in expected.items()
        if kind == "ClusterRole"
        for rule in role["rules"]
        for resource in rule["resources"]
        if not set(rule["verbs"]) <= {"list", "watch"}
    ]
    assert [resource for resource, _ in granted] == ["resourceclaims", "events"]


def test_names_follow_release_and_namespace(helm):
    """Roles, bindings, account and the user in the policies are those of the release; policies keep their names."""
    flags = ["--set=claims=all,ownership.policy=true,explain=all,reader=true"]
    found = helm.template(*flags, name="blue", namespace="devices")
    text = yaml.safe_dump_all(found)

    policies = {each["metadata"]["name"] for each in found if "Admission" in each["kind"]}
    assert policies == {
        "dra-operator-gates",
        "dra-operator-owned",
        "dra-operator-owned-rules",
        "dra-operator-owned-tolerations",
    }
    users = set(re.findall(r"system:serviceaccount:[\w:-]+", text))
    assert users == {"system:serviceaccount:devices:blue-dra-operator"}
    roles = {each["metadata"]["name"] for each in found if each["kind"] in {"Role", "ClusterRole"}}
    assert roles - {"dra-reader"} == {
        f"blue-dra-operator{suffix}" for suffix in ("", "-gates", "-explain-pods")
    }
    bound = {each["roleRef"]["name"] for each in found if each["kind"].endswith("RoleBinding")}
    assert bound == roles - {"dra-reader"}
    subjects = [subject for each in found for subject in each.get("subjects", ())]
    assert {(each["namespace"], each["name"]) for each in subjects} == {("devices", "blue-dra-operator")}


def test_values_reach_the_pod(helm, tmp_path):
    """What a user sets about image, account and placement is in the Deployment."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(WITH_SETTINGS))
    found = as_data(helm.template(f"--values={file}"))

    spec = found["Deployment", "dra-operator"]["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 2
    assert pod["serviceAccountName"] == "allocator"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["image"] == "example.com/dra-operator@sha256:" + "0" * 64
    assert {"name": "DRA_OPERATOR_LOG_LEVEL", "value": "debug"} in pod["containers"][0]["env"]
    assert found["ServiceAccount", "allocator"]["metadata"]["annotations"] == {"example.com/role": "dra"}
    data = found["ConfigMap", "dra-operator-config"]["data"]["config.yaml"]
    assert data == {"log_format": "json", **WITH_SETTINGS["config"]}
    assert all(body["metadata"]["labels"]["team"] == "platform" for body in found.values())


def leaves(schema, path=()):
    """Yield the path of each value that the schema describes, and what it says of it."""
    if properties := schema.get("properties"):
        for name, each in properties.items():
            yield from leaves(each, (*path, name))
    if path:
        yield path, schema


SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("path", [path for path, _ in leaves(SCHEMA)], ids=".".join)
def test_wrong_value_is_refused_by_name(helm, tmp_path, path):
    """A value of another type than the schema's is refused, and the message names the field."""
    said = dict(leaves(SCHEMA))[path]
    wrong = "wrong" if said.get("type") != "string" else 7
    for name in reversed(path):
        wrong = {name: wrong}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(wrong))

    with pytest.raises(HelmError, match="/".join(path)):
        helm.template(f"--values={file}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("claims=some", "claims"),
        ("image.digest=sha256:12", "image/digest"),
        ("image.name=x", "'name' not allowed"),
        ("config.claims=all", "'claims' not allowed"),
        ("config.handback_seconds=0", "config/handback_seconds"),
        ("replicas=-1", "replicas"),
        ("ownership.tolerations=Audit", "ownership/tolerations"),
        ("networkPolicy.apiServerPorts={0}", "networkPolicy/apiServerPorts"),
        ("serviceMonitor.interval=often", "serviceMonitor/interval"),
        ("claims=none", "claims: none needs explain: all"),
        ("managedNamespaces=true", "managedNamespaces: true needs claims: gated or all"),
    ],
)
def test_value_out_of_bounds_is_refused(helm, value, said):
    """Unknown fields, values that are not allowed, and those that make no sense together."""
    with pytest.raises(HelmError, match=re.escape(said)):
        helm.template(f"--set={value}")


RIGHT = (
    {},
    WITH_SETTINGS,
    {"claims": "none", "explain": "all", "replicas": 0},
    {"claims": "gated", "ownership": {"policy": True, "tolerations": "Warn"}, "managedNamespaces": True},
    {"claims": "all", "explain": "all", "confinement": True, "reader": True, "priority": True},
    {"allocationPolicies": True, "deviceReservations": True, "deviceMaintenance": True},
    {"networkPolicy": {"enabled": True, "scraperNamespace": "watch", "apiServerPorts": [443]}},
    {
        "serviceMonitor": {"enabled": True, "interval": "1m"},
        "prometheusRule": {"enabled": True, "labels": {"a": "b"}},
    },
    {"serviceAccount": {"create": False}, "nodeSelector": {}, "resources": {}, "serviceAnnotations": {}},
    {"image": {"tag": "1.2", "pullPolicy": "Never"}, "config": {"devices": "all"}, "fullnameOverride": "dra"},
)


@pytest.mark.parametrize("values", RIGHT)
def test_right_values_pass(helm, tmp_path, values):
    """Also those that nobody has thought of in one place: each file makes a Deployment."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))

    assert [each["kind"] for each in helm.template(f"--values={file}")].count("Deployment") == 1


def test_only_free_maps_take_what_they_are_given():
    """Every other object of the schema names its fields and refuses others; a variable may have `valueFrom`."""
    free = {path for path, said in objects(SCHEMA) if said.get("additionalProperties") is not False}
    maps = {name for name in free if name[-1].lower().endswith(("labels", "annotations", "selector"))}

    assert free - maps == {
        ("resources",),
        ("affinity",),
        ("global",),
        ("tolerations", "items"),
        ("bridge", "resources"),
        ("bridge", "tolerations", "items"),
        ("extraEnv", "items"),
    }


def objects(schema, path=()):
    """Yield the path of each object that the schema describes, and what it says of it."""
    if schema.get("type") == "object":
        yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from objects(each, (*path, name))
    if "items" in schema:
        yield from objects(schema["items"], (*path, "items"))


def test_fence_is_refused_where_it_would_refuse_every_allocation(helm):
    """Servers before 1.37 do not serve what the policy is about."""
    with pytest.raises(HelmError, match=r"needs Kubernetes 1\.37 or newer, this server is v1\.36\.0"):
        helm.template("--set=ownership.policy=true", "--kube-version=1.36.0")


def test_every_value_has_a_schema(helm):
    """Fields of values.yaml and schema are the same; those of `config` are the settings that no other value sets."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert set(SCHEMA["properties"]) == set(values)
    elsewhere = {"claims", "explain", "kubeconfig", "context", "listen", "lease_namespace"}
    assert set(SCHEMA["properties"]["config"]["properties"]) == set(Settings.model_fields) - elsewhere


def test_chart_is_of_this_version():
    """Chart, application and image have one version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_readme_has_every_value(repository):
    """The table is made from the comments of values.yaml; `.ci/chart_values.py` writes it."""
    program = [sys.executable, str(repository / ".ci" / "chart_values.py"), "--check"]

    assert subprocess.run(program, check=False).returncode == 0


def test_lint_finds_nothing(helm):
    """`helm lint --strict` counts warnings as errors."""
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))


def rights(text):
    """Return what `kubectl auth can-i --list` shows: resource or path, and verb."""
    rows = [
        re.fullmatch(r"(\S*)\s+\[(.*?)\]\s+\[(.*?)\]\s+\[(.*?)\]", line) for line in text.splitlines()[1:]
    ]
    return {
        (row[1] or path, verb) for row in rows for path in row[2].split() or [""] for verb in row[4].split()
    }


def full_name(resource, group):
    """Return a resource as the list has it: `pods/status`, `resourceclaims.resource.k8s.io/status`."""
    kind, slash, part = resource.partition("/")
    return f"{kind}{group and '.'}{group}{slash}{part}"


@pytest.mark.parametrize("claims", ["none", "standalone", "gated", "all"])
def test_account_has_the_rights_of_its_mode_alone(plane, helm_program, tmp_path, claims):
    """`kubectl auth can-i --list` shows those that are rendered, which other tests hold to the audit log."""
    helm = Helm(helm_program, tmp_path, plane.admin_kubeconfig)
    flags = ["--namespace=modes", f"--set=claims={claims},explain={'all' if claims == 'none' else 'ours'}"]
    helm.run("install", "dra-operator", str(CHART), "--create-namespace", *flags)
    try:
        ask = ("auth", "can-i", "--list", "--namespace=modes", "--as=system:serviceaccount:modes:{}")
        groups = ("--as-group=system:serviceaccounts", "--as-group=system:authenticated")
        found, of_everybody = (
            rights(plane.kubectl(*(part.format(name) for part in ask), *groups))
            for name in ("dra-operator", "default")
        )
        rendered = {
            (full_name(resource, group), verb)
            for role in helm.template(*flags[1:], namespace="modes")
            if role["kind"] in {"ClusterRole", "Role"}
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert found - of_everybody == rendered
    finally:
        helm.run("uninstall", "dra-operator", "--namespace=modes")


@pytest.fixture(scope="module")
def packed(repository, tmp_path_factory):
    """Return a clone, and the chart that a release of it has."""
    folder = tmp_path_factory.mktemp("packed")
    subprocess.run(["git", "clone", "--quiet", "--shared", repository, folder / "clone"], check=True)
    program = [sys.executable, folder / "clone" / ".ci" / "release.py", folder / "out", "--without-downloads"]
    subprocess.run(program, check=True, capture_output=True)
    return folder / "clone", folder / "out" / f"dra-operator-{__version__}.tgz"


def test_packed_chart_renders_what_the_folder_renders(helm, packed):
    """The chart of a release, in which links are files, makes the same objects."""
    clone, package = packed
    flags = ["--set=claims=all,ownership.policy=true,explain=all,reader=true,allocationPolicies=true"]

    rendered = [
        list(yaml.safe_load_all(helm.run("template", "dra-operator", str(chart), *flags)))
        for chart in (package, clone / "charts" / "dra-operator")
    ]

    assert rendered[0] == rendered[1]


def test_chart_is_installed_from_a_registry_by_digest(plane, helm_program, packed, tmp_path):
    """Pushed, it is installed by one command that names the digest; another digest is refused."""
    helm = Helm(helm_program, tmp_path, plane.admin_kubeconfig)
    with running_registry(find_or_build_registry(), tmp_path) as registry:
        charts = f"oci://{registry}/charts"
        digest = helm.push(packed[1], charts)
        install = ("--namespace=registry", "--create-namespace", "--plain-http")
        helm.run("install", "dra-operator", f"{charts}/dra-operator@{digest}", *install)
        try:
            found = plane.client.get("/apis/apps/v1/namespaces/registry/deployments/dra-operator")
            assert found["metadata"]["labels"]["helm.sh/chart"] == f"dra-operator-{__version__}"
            with pytest.raises(HelmError, match="not found"):
                helm.run("pull", f"{charts}/dra-operator@sha256:{'0' * 64}", "--plain-http")
        finally:
            helm.run("uninstall", "dra-operator", "--namespace=registry")
