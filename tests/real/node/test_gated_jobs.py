"""A Job whose devices the operator decides runs in containers on two nodes."""

import pytest

from controlplane.manifests import MANIFESTS
from controlplane.node.images import GUEST
from dra_operator.api.names import CLAIMS_LABEL, GATE, OWNED_KEY

FLAGS = ("--claims=all", "--devices=owned", "--ownership-quiet-seconds=0")
PODS = 10
OWNED = [{"key": OWNED_KEY, "effect": "NoSchedule"}]
GPUS = tuple({"name": f"gpu-{number}", "taints": OWNED} for number in range(3))


POLICIES = [
    MANIFESTS / "components" / "gates" / name for name in ("policy.yaml", "managed-namespaces/policy.yaml")
]


@pytest.fixture
def managed(cluster):
    """The namespace after the policies of the component were applied, when they gate its pods."""
    files = [f"--filename={file}" for file in POLICIES]
    cluster.plane.kubectl("apply", *files)
    label = {"metadata": {"labels": {CLAIMS_LABEL: "managed"}}}
    cluster.client.patch(f"/api/v1/namespaces/{cluster.namespace}", label)
    probe = {
        "metadata": {"name": "probe"},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "own"}],
        },
    }
    cluster.client.wait_for(
        "/healthz",
        lambda _: cluster.client.create(f"{cluster.pods}?dryRun=All", probe)["spec"].get("schedulingGates"),
        what="the policy that gates pods",
    )
    yield cluster
    cluster.plane.kubectl("delete", *files)


def create_job(cluster, fabric, gates):
    """Create a Job of pods that report what they have: a claim of a template, and one that they share."""
    cluster.create_template("own")
    cluster.create_claim("shared", fabric)
    entries = [
        {"name": "own", "resourceClaimTemplateName": "own"},
        {"name": "shared", "resourceClaimName": "shared"},
    ]
    container = {
        "name": "main",
        "image": GUEST,
        "command": ["report"],
        "resources": {"claims": [{"name": entry["name"]} for entry in entries]},
    }
    pod = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "schedulingGates": [{"name": name} for name in gates],
        "resourceClaims": entries,
        "containers": [container],
    }
    spec = {"completions": PODS, "parallelism": PODS, "backoffLimit": 0, "template": {"spec": pod}}
    jobs = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
    cluster.client.create(jobs, {"metadata": {"name": "job"}, "spec": spec})
    return f"{jobs}/job"


def test_job_of_ten_gated_pods_runs_on_two_nodes(cluster, nodes, operator):
    """Its template has the gate, which the operator takes off."""
    run_job(cluster, nodes, gates=[GATE])

    assert gates_taken_off(operator, cluster) == PODS


def test_job_runs_without_any_change_in_a_managed_namespace(managed, nodes, operator):
    """The policy adds the gate to the pods of the same Job without one."""
    run_job(managed, nodes, gates=[])

    assert gates_taken_off(operator, managed) == PODS


def gates_taken_off(operator, cluster):
    """Return from how many pods of a namespace the operator took its gate, by its log."""
    lines = [line for line in operator.lines() if line.get("event") == "gate taken off"]
    return sum(line["pod"].startswith(f"{cluster.namespace}/") for line in lines)


def run_job(cluster, nodes, gates):
    """Ten pods take their turns on six GPUs and share a device of the network; each sees the devices of its claims."""
    fabric = f"net-{cluster.driver}"
    cluster.create_class(fabric)
    drivers = [cluster.start_driver(each, GPUS) for each in nodes]
    everywhere = {"nodeName": None, "allNodes": True}
    cluster.start_driver(nodes[0], [{"name": "link-0", "taints": OWNED}], name=fabric, **everywhere)
    cluster.start_driver(nodes[1], [], name=fabric)

    job = create_job(cluster, fabric, gates)

    cluster.client.wait_for(
        job,
        lambda found: found["status"].get("succeeded") == PODS,
        seconds=120,
        what="ten pods that have run",
    )
    pods = cluster.client.get(cluster.pods)["items"]
    for pod in pods:
        name, at = pod["metadata"]["name"], pod["spec"]["nodeName"]
        report = cluster.report(name)
        assert "link-0" in report.devices
        (gpu,) = report.devices - {"link-0"}
        assert report.environment[gpu.upper().replace("-", "_")] == f"of-{at}"
    assert len(pods) == PODS
    # A kubelet that got no answer in time asks again.
    prepared = {call.claim for driver in drivers for call in driver.calls if call.verb == "prepare"}
    assert len(prepared) == PODS
