"""A Job whose devices the operator decides runs in containers on two nodes."""

from controlplane.node.images import GUEST
from controlplane.scene import RESOURCE
from dra_operator.api.names import GATE

PODS = 10
GPUS = tuple({"name": f"gpu-{number}"} for number in range(3))


def create_job(cluster, fabric):
    """Create a Job of gated pods that report what they have: a claim of a template, and one that they share."""
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
        "schedulingGates": [{"name": GATE}],
        "resourceClaims": entries,
        "containers": [container],
    }
    spec = {"completions": PODS, "parallelism": PODS, "backoffLimit": 0, "template": {"spec": pod}}
    jobs = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
    cluster.client.create(jobs, {"metadata": {"name": "job"}, "spec": spec})
    return f"{jobs}/job"


def test_job_of_ten_gated_pods_runs_on_two_nodes(cluster, nodes):
    """Ten pods take their turns on six GPUs and share a device of the network; each sees the devices of its claims."""
    fabric = f"net-{cluster.driver}"
    cluster.create_class(fabric)
    drivers = [cluster.start_driver(each, GPUS) for each in nodes]
    everywhere = {"nodeName": None, "allNodes": True}
    cluster.start_driver(nodes[0], [{"name": "link-0"}], name=fabric, **everywhere)
    cluster.start_driver(nodes[1], [], name=fabric)

    job = create_job(cluster, fabric)

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
    assert sum(call.verb == "prepare" for driver in drivers for call in driver.calls) == PODS
    assert cluster.client.get(f"{RESOURCE}/namespaces/{cluster.namespace}/resourceclaims/shared")
