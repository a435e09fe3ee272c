"""`dra-operator snapshot`: what it writes, `simulate` decides as the operator does."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

# The small cluster of the controller's tests, with the operator beside it.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from cluster import Operator, claim, pod, resource_slice
from dra_operator.cli.commands import app
from dra_operator.cli.snapshot import read_objects

PENDING = "dra-operator.io/pending"
CLAIMS = [claim(f"claim-{number}", request={"count": count}) for number, count in enumerate((2, 1, 3, 1, 9))]
SECRET = "secret"


def slices():
    """Two nodes, one with a tainted device."""
    broken = [{"key": "broken", "effect": "NoSchedule"}]
    yield resource_slice("gpu-0", "gpu-1", "gpu-2")
    yield resource_slice("gpu-0", "gpu-1", name="slice-2", on="node-2", pool="pool-2")
    yield resource_slice("gpu-9", name="slice-3", on="node-2", pool="pool-3", taints=broken)


@pytest.fixture
async def cluster(cluster):
    """An API server in memory, with nodes, devices and claims."""
    cluster.put(*slices(), *CLAIMS)
    return cluster


@pytest.fixture
def snapshot(run, tmp_path):
    """Return a function that takes a snapshot and returns the file."""

    async def take(*options, name="state.yaml"):
        file = tmp_path / name
        result = await run("snapshot", "--out", str(file), *options)
        assert result.exit_code == 0, result.output
        return file

    return take


async def simulated(file):
    """Simulate a file and return the claims."""
    result = await asyncio.to_thread(CliRunner().invoke, app, ["simulate", "-f", str(file), "-o", "json"])
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)["items"]


def decision(body):
    """Return what was decided about a claim: its devices, or why it waits."""
    allocation = (body.get("status") or {}).get("allocation")
    if allocation is None:
        return body["metadata"]["annotations"][PENDING]
    return allocation["devices"]["results"], allocation["nodeSelector"]


async def decided(cluster):
    """Let the operator decide, and return what it decided."""
    operator = await Operator(cluster.server.url).start()
    for body in CLAIMS:
        name = body["metadata"]["name"]
        await cluster.until(lambda name=name: cluster.devices(name) or cluster.annotation(name), name)
    await operator.settled()
    await operator.manager.close()
    return [decision(cluster.claim(body["metadata"]["name"])) for body in CLAIMS]


async def test_simulate_decides_as_the_operator(cluster, snapshot):
    """A snapshot from before gives offline what the operator decides afterwards: devices, nodes, reasons."""
    file = await snapshot()

    offline = [decision(body) for body in await simulated(file)]

    assert offline == await decided(cluster)
    assert any(isinstance(item, str) for item in offline)
    assert not all(isinstance(item, str) for item in offline)


async def test_a_redacted_snapshot_decides_alike(cluster, snapshot):
    """Other names in the same order: each claim comes to the same."""
    plain, redacted = await snapshot(), await snapshot("--redact", name="redacted.yaml")

    def renamed(item):
        """Return a decision as it is told of redacted claims, which are numbered from one."""
        text = re.compile(r"claim-(\d)")
        return text.sub(lambda match: f"claim-{int(match[1]) + 1}", item) if isinstance(item, str) else item

    assert [decision(body) for body in await simulated(redacted)] == [
        renamed(decision(body)) for body in await simulated(plain)
    ]


async def test_only_what_decides_is_taken(cluster):
    """Of nodes the state, of pods their claims and what they ask of a node, and no record of who wrote what."""
    plain = {"containers": [{"name": "main", "image": SECRET}]}
    cluster.put(pod(), {**pod("plain"), "spec": plain})

    taken = await read_objects(cluster.session)

    kinds = [body["kind"] for body in taken.bodies]
    assert kinds.count("Pod") == 1
    assert kinds.count("ResourceClaim") == len(CLAIMS)
    text = json.dumps(taken.bodies)
    assert SECRET not in text
    assert '"image"' not in text
    assert "managedFields" not in text


async def test_what_a_pod_asks_of_a_node_is_taken(cluster):
    """So that `simulate` says for each node whether the pod can run there; volumes are left out."""
    port = {"containerPort": 80, "hostPort": 8080}
    asked = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priority": 7,
        "containers": [
            {"name": "main", "resources": {"requests": {"cpu": "2"}}, "ports": [{**port, "name": "http"}]}
        ],
    }
    body = pod()
    cluster.put({**body, "spec": {**body["spec"], **asked, "volumes": [{"name": "data", "emptyDir": {}}]}})

    (taken,) = [body for body in (await read_objects(cluster.session)).bodies if body["kind"] == "Pod"]

    # The API server adds two, and the scheduler.
    assert taken["spec"].pop("schedulerName") == "default-scheduler"
    assert taken["spec"].pop("tolerations")[0] == asked.pop("tolerations")[0]
    container = {**asked["containers"][0], "ports": [port]}
    assert taken["spec"] == {
        **asked,
        "resourceClaims": body["spec"]["resourceClaims"],
        "containers": [container],
    }


async def test_lease_of_the_operator_is_taken_alone(cluster, snapshot):
    """With it an audit of a snapshot says whether anybody decides; those of nodes are none of its business."""
    spec = {"holderIdentity": "op-0", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    leases = [
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "dra-operator"},
            "spec": {**spec, "acquireTime": "2025-01-01T00:00:00.000000Z"},
        }
        for name in ("dra-operator", "node-1")
    ]
    cluster.put(*leases)

    taken = (await read_objects(cluster.session)).bodies
    redacted = yaml.safe_load_all((await snapshot("--redact")).read_text())

    assert [body["spec"] for body in taken if body["kind"] == "Lease"] == [spec]
    assert [body["spec"]["holderIdentity"] for body in redacted if body["kind"] == "Lease"] == ["operator"]


async def test_what_containers_name_of_claims_is_taken_and_redacted(cluster, snapshot):
    """An audit asks whether the claim has the request; names of containers and entries are tenants' own."""
    body = pod()
    entry = body["spec"]["resourceClaims"][0]["name"]
    containers = [{"name": "main", "resources": {"claims": [{"name": entry, "request": "gpu"}]}}]
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r0"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "claim-0", "requestMappings": [mapping]}}
    cluster.put({**body, "spec": {**body["spec"], "containers": containers}, "status": status})

    (taken,) = [body for body in (await read_objects(cluster.session)).bodies if body["kind"] == "Pod"]
    documents = yaml.safe_load_all((await snapshot("--redact")).read_text())
    (redacted,) = [body for body in documents if body["kind"] == "Pod"]

    assert taken["spec"]["containers"] == containers
    assert taken["status"]["extendedResourceClaimStatus"]["requestMappings"] == [mapping]
    (container,) = redacted["spec"]["containers"]
    (claim_name,) = container["resources"]["claims"]
    (shown,) = redacted["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert claim_name == {"name": redacted["spec"]["resourceClaims"][0]["name"], "request": "gpu"}
    assert shown == {**mapping, "containerName": container["name"]}


async def test_a_list_that_is_forgotten_is_begun_again(cluster, monkeypatch):
    """An API server that forgets a list in the middle costs another attempt and no object."""
    monkeypatch.setattr("dra_operator.cli.snapshot.PAGE", 2)
    request, forgotten = cluster.session.request, []

    async def expire(method, path, *, params=None, **options):
        if path.endswith("/resourceclaims") and "continue" in (params or {}) and not forgotten:
            forgotten.append(path)
            cluster.server.lists.expire()
        return await request(method, path, params=params, **options)

    monkeypatch.setattr(cluster.session, "request", expire)
    taken = await read_objects(cluster.session)

    assert forgotten
    assert [body["kind"] for body in taken.bodies].count("ResourceClaim") == len(CLAIMS)


async def test_an_answer_that_is_no_list_is_no_empty_one(cluster, monkeypatch):
    """What something between answers in the place of a list would make a snapshot without the kind."""
    from dra_operator.cluster.session import ApiUnreachable  # noqa: PLC0415

    request = cluster.session.request

    async def hide(method, path, **options):
        return {"status": "ok"} if path.endswith("slices") else await request(method, path, **options)

    monkeypatch.setattr(cluster.session, "request", hide)
    with pytest.raises(ApiUnreachable, match="no list of objects"):
        await read_objects(cluster.session)


@pytest.mark.parametrize("kind", ["resourceclaimtemplates", "resourceslices"])
async def test_what_is_not_permitted(cluster, monkeypatch, kind):
    """Templates are left out, and it is said; without slices there is nothing to decide."""
    from dra_operator.cluster.session import ApiError  # noqa: PLC0415

    request = cluster.session.request

    async def forbid(method, path, **options):
        if path.endswith(kind):
            raise ApiError(403, "Forbidden", "no", verb="list", resource=kind)
        return await request(method, path, **options)

    monkeypatch.setattr(cluster.session, "request", forbid)
    if kind == "resourceslices":
        with pytest.raises(ApiError, match="list resourceslices"):
            await read_objects(cluster.session)
    else:
        assert (await read_objects(cluster.session)).notes == [f"not permitted to list {kind}: left out"]


async def test_an_audit_finds_in_a_snapshot_what_it_needs(cluster, snapshot):
    """For which node a pod is nominated, and what makes another pod when it is evicted."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    waiting = pod("waiting", uses="claim-0", phase="Pending")
    waiting["metadata"]["ownerReferences"] = [owner]
    waiting["status"]["nominatedNodeName"] = "node-1"
    cluster.put(waiting)

    bodies = list(yaml.safe_load_all((await snapshot()).read_text()))

    (kept,) = [body for body in bodies if body["kind"] == "Pod"]
    assert kept["metadata"]["ownerReferences"] == [owner]
    assert kept["status"]["nominatedNodeName"] == "node-1"


async def test_what_other_pods_have_of_their_node_is_taken(cluster):
    """Name, requests and host ports, and no image; of pods that have ended, or have no node, nothing."""
    main = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    spec = {"containers": [{**main, "image": SECRET}], "nodeName": "node-1"}
    cluster.put({**pod("plain"), "spec": spec}, {**pod("ended", phase="Failed"), "spec": spec})

    (taken,) = [body for body in (await read_objects(cluster.session)).bodies if body["kind"] == "Pod"]

    assert taken["metadata"]["name"] == "plain"
    assert taken["spec"] == {"nodeName": "node-1", "containers": [main]}


async def test_what_makes_a_gang_is_taken(cluster):
    """A member without claims, and what its PodGroup and annotations say."""
    annotations = {"dra-operator.io/gang": "ring", "dra-operator.io/gang-topology": "rack"}
    plain = {"containers": [{"name": "main", "image": SECRET}], "schedulingGroup": {"podGroupName": "ring"}}
    member = {**pod("leader"), "spec": plain}
    member["metadata"] = {**member["metadata"], "annotations": {**annotations, "note": SECRET}}
    cluster.put(member)
    labels = {"leaderworkerset.sigs.k8s.io/worker-index": "0", "leaderworkerset.sigs.k8s.io/group-index": "1"}
    leader = {**pod("lws-1"), "spec": {"containers": plain["containers"]}}
    leader["metadata"] = {**leader["metadata"], "labels": {**labels, "note": SECRET}}
    cluster.put(leader)

    bodies = (await read_objects(cluster.session)).bodies
    taken = {body["metadata"]["name"]: body for body in bodies}

    assert taken["lws-1"]["metadata"]["labels"] == labels
    assert taken["leader"]["metadata"]["annotations"] == annotations
    assert taken["leader"]["spec"]["schedulingGroup"] == {"podGroupName": "ring"}
    assert SECRET not in json.dumps(taken)
