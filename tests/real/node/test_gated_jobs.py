"""Pods whose devices the operator decides run in containers: a Job on two nodes, a gang on one."""

import pytest

from controlplane.manifests import MANIFESTS
from controlplane.node.images import GUEST
from controlplane.scene import RESOURCE
from dra_operator.api.names import CLAIMS_LABEL, GANG_ANNOTATION, GANG_SIZE_ANNOTATION, GATE, OWNED_KEY

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


def reporting(entries, *gates):
    """Return the spec of a pod that reports what it has of its claims, and ends."""
    container = {
        "name": "main",
        "image": GUEST,
        "command": ["report"],
        "resources": {"claims": [{"name": entry["name"]} for entry in entries]},
    }
    return {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "schedulingGates": [{"name": name} for name in gates],
        "resourceClaims": entries,
        "containers": [container],
    }


def create_job(cluster, fabric):
    """Create a Job of pods that report what they have: a claim of a template, and one that they share."""
    cluster.create_template("own")
    cluster.create_claim("shared", fabric)
    entries = [
        {"name": "own", "resourceClaimTemplateName": "own"},
        {"name": "shared", "resourceClaimName": "shared"},
    ]
    template = {"spec": reporting(entries)}
    spec = {"completions": PODS, "parallelism": PODS, "backoffLimit": 0, "template": template}
    jobs = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
    cluster.client.create(jobs, {"metadata": {"name": "job"}, "spec": spec})
    return f"{jobs}/job"


def test_job_runs_without_any_change_in_a_managed_namespace(managed, nodes, operator):
    """The policy adds the gate to ten pods of a Job without one, and the operator takes it off."""
    run_job(managed, nodes)

    assert gates_taken_off(operator, managed) == PODS


def gates_taken_off(operator, cluster):
    """Return from how many pods of a namespace the operator took its gate, by its log."""
    lines = [line for line in operator.lines() if line.get("event") == "gate taken off"]
    return sum(line["pod"].startswith(f"{cluster.namespace}/") for line in lines)


def run_job(cluster, nodes):
    """Ten pods take their turns on six GPUs and share a device of the network; each sees the devices of its claims."""
    fabric = f"net-{cluster.driver}"
    cluster.create_class(fabric)
    drivers = [cluster.start_driver(each, GPUS) for each in nodes]
    everywhere = {"nodeName": None, "allNodes": True}
    cluster.start_driver(nodes[0], [{"name": "link-0", "taints": OWNED}], name=fabric, **everywhere)
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
    # A kubelet that got no answer in time asks again.
    prepared = {call.claim for driver in drivers for call in driver.calls if call.verb == "prepare"}
    assert len(prepared) == PODS


@pytest.mark.parametrize("made_by", ["PodGroup", "annotations"])
def test_both_containers_of_a_gang_see_their_half(cluster, nodes, made_by):
    """A card is published whole, and then as halves; each pod takes the whole, or else a half."""
    counters = [{"name": "card", "counters": {"slots": {"value": "2"}}}]
    parts = (("whole", "whole", "2"), ("half-0", "half", "1"), ("half-1", "half", "1"))
    cluster.start_driver(nodes[0], [part_of_card(*part) for part in parts], counters=counters)
    options = [
        {
            "name": kind,
            "deviceClassName": cluster.driver,
            "selectors": [{"cel": {"expression": f'device.attributes["{cluster.driver}"].kind == "{kind}"'}}],
        }
        for kind in ("whole", "half")
    ]
    requests = {"devices": {"requests": [{"name": "devices", "firstAvailable": options}]}}
    templates = f"{RESOURCE}/namespaces/{cluster.namespace}/resourceclaimtemplates"
    cluster.client.create(templates, {"metadata": {"name": "part"}, "spec": {"spec": requests}})
    annotations, group = {GANG_ANNOTATION: "g", GANG_SIZE_ANNOTATION: "2"}, {}
    if made_by == "PodGroup":
        groups = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{cluster.namespace}/podgroups"
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        cluster.client.create(groups, {"metadata": {"name": "g"}, "spec": policy})
        annotations, group = {}, {"schedulingGroup": {"podGroupName": "g"}}

    for name in ("p0", "p1"):
        spec = reporting([{"name": "part", "resourceClaimTemplateName": "part"}], GATE)
        metadata = {"name": name, "annotations": annotations}
        cluster.client.create(cluster.pods, {"metadata": metadata, "spec": {**spec, **group}})

    reports = [cluster.report(name) for name in ("p0", "p1")]
    assert sorted(map(sorted, [report.devices for report in reports])) == [["half-0"], ["half-1"]]
    for report in reports:
        (half,) = report.devices
        assert report.environment[half.upper().replace("-", "_")] == "of-node-1"


def part_of_card(name, kind, slots):
    """Return a device that takes so many slots of its card."""
    uses = [{"counterSet": "card", "counters": {"slots": {"value": slots}}}]
    return {
        "name": name,
        "attributes": {"kind": {"string": kind}},
        "consumesCounters": uses,
        "taints": OWNED,
    }
