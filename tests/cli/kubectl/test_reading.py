"""What is read of a cluster, with which rights, and what is said where not everything can be read."""

import gzip
import json
import re

import pytest
import yaml
from click.testing import CliRunner

from cluster import allocation, claim, node, pod
from dra_operator.cli.kubectl.commands import app
from factories import manifest


def forbid(cluster, *kinds):
    """Refuse lists of some kinds, as an authorizer does."""
    for kind in kinds:
        cluster.server.faults.answer(403, kind=kind, verb="list", times=None, message=f"may not list {kind}")


async def test_kind_without_which_there_is_no_answer_ends_with_2(cluster, dra):
    """Nothing is printed as if it were the answer."""
    forbid(cluster, "ResourceSlice")

    result = await dra("top")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: not permitted to list resourceslices.resource.k8s.io: "
        "ClusterRole dra-reader has it (manifests/components/reader)\n"
    )


async def test_role_that_has_missing_rights_is_named_once(cluster, dra):
    """Rights that are missed in several lines are in one ClusterRole, which has none for claims."""
    forbid(cluster, "ResourceClaim", "Node", "DeviceClass", "DeviceTaintRule")

    result = await dra("top")

    assert result.stderr.splitlines()[:2] == [
        'note: not permitted to list resourceclaims.resource.k8s.io in namespace "default"',
        (
            "note: not permitted to list nodes, deviceclasses.resource.k8s.io, devicetaintrules.resource.k8s.io: "
            "ClusterRole dra-reader has it (manifests/components/reader)"
        ),
    ]


@pytest.mark.parametrize("kind", ["Node", "DeviceTaintRule"])
async def test_what_is_free_is_at_most_where_a_taint_or_a_node_may_be_in_the_way(cluster, dra, kind):
    """A cordoned node is not seen by who may not read nodes."""
    forbid(cluster, kind)

    result = await dra("top")

    assert "FREE is at most: nodes and taint rules that cannot be read may keep devices" in result.stderr


async def test_cluster_without_the_api_group_is_named(cluster, dra):
    """What to do is part of the line."""
    cluster.server.faults.answer(404, kind="ResourceClaim", times=None)

    result = await dra("claims")

    assert result.exit_code == 2
    assert "does not serve resourceclaims of resource.k8s.io" in result.stderr
    assert "needs Kubernetes 1.34" in result.stderr


async def test_older_version_of_the_api_is_read_as_well(cluster, dra):
    """Where v1 is not served, v1beta2 is asked for."""
    cluster.server.faults.answer(404, kind="ResourceSlice", verb="list")

    result = await dra("devices", "-o", "name")

    assert (result.exit_code, len(result.stdout.split())) == (0, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "kind: ResourceClaim\napiVersion: resource.k8s.io/v1\nmetadata: {name: a}\nspec: {divices: {}}",
            "divices",
        ),
        ("{", "no YAML"),
        ("", "error: "),
    ],
    ids=["unknown field", "no YAML", "absent file"],
)
async def test_manifest_that_cannot_be_read_ends_with_2(dra, tmp_path, text, words):
    """It is not passed over, as the answer would be about something else."""
    file = tmp_path / "bad.yaml"
    if text:
        file.write_text(text)

    result = await dra("claims", "-f", str(file))

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


# --- snapshots


@pytest.fixture
async def snapshot(cluster, run, tmp_path):
    """Return a function that takes a snapshot of the cluster and returns the file."""

    async def take(name="state.yaml"):
        cluster.put(claim("waiting", request={"count": 9}), pod("user", uses="waiting"))
        file = tmp_path / name
        result = await run("snapshot", "--out", str(file))
        assert result.exit_code == 0, result.output
        return file

    return take


@pytest.mark.parametrize("where", ["between documents", "in a document", "packed"])
async def test_snapshot_cut_in_half_is_refused(dra, snapshot, tmp_path, where):
    """What is left of it may be YAML, and is never taken for the whole."""
    file = await snapshot()
    text = file.read_text()
    cut = text.rindex("---\n") if where == "between documents" else len(text) // 2
    half = tmp_path / ("half.yaml.gz" if where == "packed" else "half.yaml")
    half.write_bytes(gzip.compress(text.encode())[:-20] if where == "packed" else text[:cut].encode())

    result = await dra("claims", "--snapshot", str(half))

    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert str(half) in result.stderr


def asking(cpu, **spec):
    """A pod that asks for cpu, and for no claim by itself."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return manifest(
        "Pod",
        f"asks-{cpu}",
        {"containers": [container], **spec},
        status={"phase": "Running"},
        namespace="default",
    )


async def test_snapshot_answers_as_of_when_it_was_taken(cluster, dra, snapshot):
    """A claim that was unreserved for an hour then is not so for months."""
    idle = claim("idle") | {"status": {"allocation": allocation()}}
    cluster.put(idle)
    file = await snapshot()

    today = await dra("audit", "--sort", "Unreserved", "--snapshot", str(file))
    text = re.sub(r"creationTimestamp: .*", "creationTimestamp: '2026-01-01T00:00:00Z'", file.read_text())
    file.write_text(re.sub(r"^# taken: .*", "# taken: 2026-01-01T01:00:00Z", text, flags=re.MULTILINE))
    then = await dra("audit", "--sort", "Unreserved", "--snapshot", str(file))
    claims = await dra("claims", "--snapshot", str(file))

    assert (today.exit_code, then.exit_code) == (1, 0), then.output
    assert "note: as of 2026-01-01T01:00:00Z, " in then.stderr
    assert " 60m" in claims.stdout


async def test_snapshot_says_what_could_not_be_read(dra, snapshot):
    """A kind that was forbidden when it was taken restricts the answer, as it would on the cluster."""
    file = await snapshot()
    header, rest = file.read_text().split("\n", 1)
    why = "not permitted to list devicetaintrules.resource.k8s.io when the snapshot was taken"
    file.write_text(f"{header}\n# not read: DeviceTaintRule: {why}\n{rest}")

    result = await dra("fit", "class/gpu", "--snapshot", str(file))

    assert result.exit_code == 2, result.output
    assert f"note: {why}" in result.stderr


async def test_pods_without_claims_count_in_a_snapshot(cluster, dra, snapshot, tmp_path):
    """By what they have of the nodes."""
    for number in (1, 2):
        body = node(f"node-{number}")
        room = {"cpu": "10", "memory": "8Gi", "pods": "3"}
        cluster.put(body | {"status": {**body["status"], "allocatable": room}})
        for index, cpu in enumerate(("4", "2500m")):
            other = asking(cpu, nodeName=f"node-{number}")
            cluster.put(other | {"metadata": {"name": f"other-{number}-{index}", "namespace": "default"}})
    file = await snapshot()
    template = manifest("ResourceClaimTemplate", "one", {"spec": claim()["spec"]}, namespace="default")
    codes = []
    for cpu, copies in (("1", 2), ("1", 3), ("4", 1)):
        items = [template, asking(cpu, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])]
        given = tmp_path / f"{cpu}.json"
        given.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        live = await dra("fit", str(given), "-c", str(copies), "-o", "json")
        offline = await dra(*("fit", str(given), "-c", str(copies), "-o", "json", "--snapshot", str(file)))
        assert json.loads(offline.stdout).get("copies") == json.loads(live.stdout).get("copies")
        codes.append(offline.exit_code)

    # A third one finds devices and cpu, and no place.
    assert codes == [0, 1, 1]


OFFLINE = """
apiVersion: v1
kind: List
items:
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu, uid: "1"}, spec: {}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: s, uid: "2"}
  spec:
    driver: gpu.example.com
    nodeName: node-1
    pool: {name: node-1, generation: 1, resourceSliceCount: 1}
    devices: [{name: gpu-0}, {name: gpu-1}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: train, namespace: team, uid: "3"}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 3}}]}}
"""


@pytest.mark.parametrize(
    ("line", "code", "printed"),
    [
        ("top -o name", 0, "node/node-1\n"),
        ("claims -o name", 0, "resourceclaim.resource.k8s.io/train\n"),
        ("explain train -n team -o name", 1, "resourceclaim.resource.k8s.io/train\n"),
        ("fit class/gpu -c 2 -o name", 0, "node/node-1\n"),
    ],
)
def test_files_are_asked_without_a_cluster(tmp_path, monkeypatch, line, code, printed):
    """As `kubectl get -o yaml` writes them, and without kubectl; what is not in them is not there."""
    (tmp_path / "cluster.yaml").write_text(OFFLINE)
    monkeypatch.setenv("PATH", "")

    result = CliRunner().invoke(app, [*line.split(), "--offline", "-f", str(tmp_path)])

    assert (result.exit_code, result.stdout) == (code, printed), result.stderr
    assert "note: what is not in the files is not there" in result.stderr


def test_files_that_are_asked_are_named():
    """Without -f there is nothing to ask."""
    result = CliRunner().invoke(app, ["top", "--offline"])

    assert result.exit_code == 2
    assert "--offline asks the files of -f" in result.stderr


@pytest.mark.parametrize("is_stdin", [False, True], ids=["file", "stdin"])
@pytest.mark.parametrize("option", ["subject", "-f"])
async def test_templates_of_the_namespaces_that_a_file_names_are_read(
    cluster, dra, tmp_path, option, is_stdin
):
    """The context is of another one: the pod of the file names a template beside it."""
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}
    metadata = {"name": "one", "namespace": "gated"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    cluster.put({**kind, "metadata": metadata, "spec": spec})
    asked = pod("train")
    asked["metadata"] = {"name": "train", "namespace": "gated"}
    asked["spec"] = {
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(asked))
    path = "-" if is_stdin else str(file)
    given = [path] if option == "subject" else ["template/gated/one", "-f", path]

    result = await dra("fit", *given, "-o", "json", stdin=json.dumps(asked))

    assert (result.exit_code, json.loads(result.stdout or "{}").get("fitting")) == (0, 1), result.output


SHARED = """
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu, uid: "1"}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, uid: "2"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice, uid: "3"}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, allowMultipleAllocations: true, capacity: {memory: {value: 8Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: asks, namespace: default, uid: "4"}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {deviceClassName: gpu, capacity: {requests: {gpu.example.com/memory: 4Gi}}}
"""
"""A claim that names a capacity with its driver's domain, which is another one up to Kubernetes 1.37."""


@pytest.mark.parametrize(
    ("options", "code"), [((), 1), (("--kubernetes", "1.37"), 1), (("--kubernetes", "1.38"), 0)]
)
def test_files_are_asked_by_the_rules_of_a_version(tmp_path, options, code):
    """Those of the released one, unless another is named."""
    file = tmp_path / "cluster.yaml"
    file.write_text(SHARED)

    result = CliRunner().invoke(
        app, ["explain", "asks", "-n", "default", "--offline", "-f", str(file), *options]
    )

    assert result.exit_code == code, result.output


async def test_a_cluster_and_its_snapshot_are_asked_by_its_own_rules(cluster, dra, snapshot):
    """A snapshot of an older version of ours does not say them, and is asked by those of the released one."""
    cluster.put(*yaml.safe_load_all(SHARED))
    codes = []
    for version in ("v1.38.0", "v1.37.2"):
        cluster.server.version = version
        codes.append((await dra("explain", "asks")).exit_code)
        file = await snapshot()
        codes.append((await dra("explain", "asks", "--snapshot", str(file))).exit_code)
        other = "1.37" if version == "v1.38.0" else "1.38"
        codes.append((await dra("explain", "asks", "--snapshot", str(file), "--kubernetes", other)).exit_code)

    assert codes == [0, 0, 1, 1, 1, 0]


async def test_a_live_cluster_says_its_version_itself(dra):
    """Whoever names another one would be told what is not so."""
    result = await dra("top", "--kubernetes", "1.38")

    assert result.exit_code == 2
    assert "a cluster says its version itself" in result.stderr
