"""The walkthrough of the Kubernetes documentation on two real nodes, with the files of examples/.

Source: kubernetes.io, "Allocate Devices to Workloads with DRA" and "Access DRA Device Metadata".
"""

import json

import yaml

from controlplane.scene import EXAMPLES, allocation, devices, node

DRIVER = "driver.example.com"
FOLDER = EXAMPLES / "walkthrough"
CONTAINERS = ("container0", "container1", "container2")


def documented_devices(count):
    """Return devices as the documentation's driver publishes them."""
    return [
        {
            "name": f"gpu-{number}",
            "attributes": {"type": {"string": "gpu"}},
            "capacity": {"memory": {"value": "64Gi"}},
        }
        for number in range(count)
    ]


def half_of_a_node(document):
    """Let a claim or a template of the walkthrough ask for one GPU instead of all of a node.

    As documented each pod needs all GPUs of a node twice, and never starts.
    """
    spec = document["spec"].get("spec", document["spec"])
    del spec["devices"]["requests"][0]["exactly"]["allocationMode"]
    return document


def pods_of_the_job(cluster):
    """Return the path of the Job's pods."""
    return f"{cluster.pods}?labelSelector=job-name%3Dexample-dra-job"


def running(listed):
    """Return the names of pods that run."""
    return sorted(pod["metadata"]["name"] for pod in listed["items"] if pod["status"]["phase"] == "Running")


def test_walkthrough(cluster, nodes):
    """Class, claim, template and Job of the documentation: the pods run, and each container sees what it asked for.

    The Job's pods share the operator's claim, so they run on its node, and each has a claim of its own from
    kube-scheduler. The node has GPUs for two pods; a third pod waits.
    """
    for each in nodes:
        cluster.start_driver(each, documented_devices(3), name=DRIVER)
    cluster.apply("walkthrough/1-class.yaml")
    claim = half_of_a_node(yaml.safe_load((FOLDER / "3-claim.yaml").read_text(encoding="utf-8")))
    template = half_of_a_node(yaml.safe_load((FOLDER / "4-template.yaml").read_text(encoding="utf-8")))
    create(cluster, claim, template)
    shared = cluster.wait_allocated("example-resource-claim")

    cluster.apply("walkthrough/5-job.yaml")

    listed = cluster.client.wait_for(
        pods_of_the_job(cluster), lambda found: len(running(found)) == 2, what="two pods"
    )
    own_claims = {}
    for pod in listed["items"]:
        assert pod["spec"]["nodeName"] == node(shared)
        own_claims[pod["metadata"]["name"]] = check_containers(cluster, pod, shared)
    own = [device for claim in own_claims.values() for device in devices(claim)]
    assert len(set(own)) == 2
    assert set(own).isdisjoint(devices(shared))
    check_one_too_many(cluster)


def test_container_that_names_a_request(cluster, nodes):
    """A container that names one request of a claim sees devices and metadata of that request alone."""
    cluster.start_driver(nodes[0], documented_devices(2))
    requests = [
        {"name": name, "exactly": {"deviceClassName": cluster.driver}} for name in ("gpu", "not-for-me")
    ]
    create(
        cluster,
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu-claim"},
            "spec": {"devices": {"requests": requests}},
        },
    )
    results = allocation(cluster.wait_allocated("gpu-claim"))["devices"]["results"]

    cluster.create_pod("reader", {"resourceClaimName": "gpu-claim"}, request="gpu")

    report = cluster.report("reader")
    assert report.devices == {result["device"] for result in results if result["request"] == "gpu"}
    assert set(report.metadata) == {f"resourceclaims/gpu-claim/gpu/{cluster.driver}-metadata.json"}


def create(cluster, *documents):
    """Create claims and templates."""
    for document in documents:
        plural = f"{document['kind'].lower()}s"
        cluster.client.create(f"/apis/resource.k8s.io/v1/namespaces/{cluster.namespace}/{plural}", document)


def check_containers(cluster, pod, shared):
    """Check what the three containers of a pod see and return the pod's own claim."""
    name = pod["metadata"]["name"]
    (status,) = pod["status"]["resourceClaimStatuses"]
    own = cluster.claim(status["resourceClaimName"])
    files = {
        "container0": f"resourceclaimtemplates/separate-gpu-claim/gpu-claim/{DRIVER}-metadata.json",
        "container1": f"resourceclaims/example-resource-claim/single-gpu-claim/{DRIVER}-metadata.json",
    }
    files["container2"] = files["container1"]
    for container in CONTAINERS:
        claim = own if container == "container0" else shared
        report = cluster.report(name, container)
        ((pool, device),) = [found.split("/") for found in devices(claim)]
        assert report.devices == {device}
        assert report.environment[device.upper().replace("-", "_")] == f"of-{pool}"
        assert set(report.metadata) == {files[container]}
        metadata = json.loads(report.metadata[files[container]])
        assert metadata["metadata"]["uid"] == claim["metadata"]["uid"]
        assert metadata["requests"] == [
            {
                "name": allocation(claim)["devices"]["results"][0]["request"],
                "devices": [
                    {
                        "driver": DRIVER,
                        "pool": pool,
                        "name": device,
                        "attributes": {"type": {"string": "gpu"}},
                    }
                ],
            }
        ]
    return own


def check_one_too_many(cluster):
    """Check what becomes of a pod for which no GPU is left: it waits, and `kubectl describe pod` says why.

    kube-scheduler says its one sentence; the operator says which devices there are, what keeps the pod from each, and
    what would help.
    """
    job = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs/example-dra-job"
    cluster.client.patch(job, {"spec": {"parallelism": 3}})

    def waiting(listed):
        return [
            pod["metadata"]["name"]
            for pod in listed["items"]
            if "cannot allocate all claims" in str(pod["status"].get("conditions"))
        ]

    listed = cluster.client.wait_for(pods_of_the_job(cluster), waiting, what="a pod that waits")
    (name,) = waiting(listed)
    assert len(running(listed)) == 2

    def is_told(listed):
        return any(
            (event["involvedObject"]["name"], event["source"].get("component")) == (name, "dra-operator")
            for event in listed["items"]
        )

    events = f"/api/v1/namespaces/{cluster.namespace}/events"
    cluster.client.wait_for(events, is_told, what="the operator's reason")
    text = cluster.plane.kubectl("describe", "pod", name, f"--namespace={cluster.namespace}")
    described = " ".join(text.split())
    assert "cannot allocate all claims" in described
    assert "Warning DeviceInUse" in described
    assert 'claim "separate-gpu-claim": request gpu-claim: 6 devices published, 6 in class' in described
    assert 'not where claim "shared-gpu-claim" is allocated on 3), 3 in use by 3 claims' in described
    assert "; it would fit if claim" in described
