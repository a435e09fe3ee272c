"""What a pod requests of a node, as kube-scheduler counts it."""

import pytest

from dra_operator.pods.field_reader import FieldReader
from dra_operator.pods.resource_requests import read_allocatable, read_requests, read_requests_on_node


def container(name="c", *, lasts=None, **requests):
    """A container; `lasts` makes an init container a sidecar."""
    body = {"name": name, "resources": {"requests": requests}}
    return body | ({"restartPolicy": "Always"} if lasts else {})


def requested(read=read_requests, status=None, **spec):
    """Return what a pod requests."""
    body = {"spec": spec, "status": status or {}}
    reader = FieldReader("Pod", body)
    found = dict(read(reader, body))
    assert reader.problems == []
    return found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"containers": [container(cpu="1"), container(cpu="500m", memory="1Ki")]},
            {"cpu": 1500, "memory": 1024},
        ),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]}, {"cpu": 3000}),
        (
            {"containers": [container(cpu="1")], "initContainers": [container(lasts=True, cpu="3")]},
            {"cpu": 4000},
        ),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(lasts=True, cpu="1"), container(cpu="3")],
            },
            {"cpu": 4000},
        ),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="3"), container(lasts=True, cpu="1")],
            },
            {"cpu": 3000},
        ),
        (
            {
                "containers": [container(cpu="2", memory="1Gi")],
                "initContainers": [container(cpu="1", memory="2Gi")],
            },
            {"cpu": 2000, "memory": 2**31},
        ),
        (
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1"}},
            {"cpu": 1250, "memory": 1},
        ),
        (
            {"containers": [container(cpu="1", memory="1")], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000, "memory": 1},
        ),
        (
            {"containers": [container(cpu="1")], "resources": {"limits": {"cpu": "3", "memory": "7"}}},
            {"cpu": 1000, "memory": 7},
        ),
        (
            {"containers": [container(cpu="1")], "resources": {"requests": {"example.com/gpu": "3"}}},
            {"cpu": 1000},
        ),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, {"cpu": 2000}),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, {"cpu": 1000}),
    ],
    ids=[
        "containers add up",
        "the largest init container counts if it is larger",
        "sidecars add up with containers",
        "an init container runs beside the sidecars before it",
        "and not beside those after it",
        "resource by resource",
        "overhead comes on top",
        "the pod's own requests replace the sum",
        "its limits do so where nothing is requested",
        "other resources have none for the pod",
        "a limit is a request",
        "unless there is a request",
    ],
)
def test_what_a_pod_requests(spec, expected):
    """Containers, init containers, sidecars, overhead, and the pod as a whole."""
    assert requested(**spec) == expected


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ({"cpu": "0.1"}, {"cpu": 100}),
        ({"cpu": "1u"}, {"cpu": 1}),
        ({"memory": "1500m"}, {"memory": 2}),
        ({"cpu": "0", "memory": 0}, {}),
        ({"cpu": 2}, {"cpu": 2000}),
        ({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": 2**30}),
        ({"example.com/gpu": "2"}, {"example.com/gpu": 2}),
        ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": 2**22}),
        ({"attachable-volumes-x": "1"}, {"attachable-volumes-x": 1}),
        ({"deviceclass.resource.kubernetes.io/gpu": "1"}, {"deviceclass.resource.kubernetes.io/gpu": 1}),
        ({"storage": "1Gi", "requests.example.com/x": "1", "gpu": "1"}, {}),
    ],
)
def test_which_resources_count_and_how(requests, expected):
    """Thousandths of cpu, whole units of others, rounded up; no resources that no node could have."""
    assert requested(containers=[container(**requests)]) == expected


def resized(reason=None, **statuses):
    """The status of a pod on a node whose container c is being resized."""
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    return {"conditions": conditions, "containerStatuses": [{"name": "c", **statuses}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, 2000),
        (resized(allocatedResources={"cpu": "3"}), 3000),
        (resized(allocatedResources={"cpu": "1"}), 2000),
        (resized(allocatedResources={"cpu": "1"}, resources={"requests": {"cpu": "4"}}), 4000),
        (resized("Deferred", allocatedResources={"cpu": "1"}), 2000),
        (resized("Infeasible", allocatedResources={"cpu": "1"}), 1000),
        (resized("Infeasible"), None),
        (
            {
                **resized("Infeasible", allocatedResources={"cpu": "1"}),
                "resources": {"requests": {"cpu": "3"}},
            },
            1000,
        ),
        ({"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "1"}}}, 3000),
        ({"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "3"}}}, 3000),
    ],
    ids=[
        "nothing said",
        "more allocated",
        "less allocated",
        "more in force",
        "deferred",
        "infeasible",
        "infeasible, nothing allocated",
        "infeasible, the pod's resources without what was allocated to it",
        "more allocated to the pod",
        "more in force for the pod",
    ],
)
def test_a_pod_on_a_node_has_what_was_allocated_to_it(status, expected):
    """While a resize is under way the largest counts; what is infeasible does not."""
    found = requested(read_requests_on_node, status, containers=[container(cpu="2")])

    assert found.get("cpu") == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, 3000),
        ({"resources": {"requests": {"cpu": "4"}}}, 4000),
        ({"resources": {}, "allocatedResources": {"cpu": "5"}}, 5000),
        (
            {
                "resources": {"requests": {"cpu": "2"}},
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
            },
            2000,
        ),
    ],
)
def test_what_a_pod_has_as_a_whole_counts_too(status, expected):
    """As for containers."""
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "3"}}}

    assert requested(read_requests_on_node, status, **spec) == {"cpu": expected}


@pytest.mark.parametrize("read", [read_requests, read_requests_on_node])
def test_resources_that_go_with_devices_are_added(read):
    """Known to the status where `DRANodeAllocatableResources` is on."""
    status = {
        "nodeAllocatableResourceClaimStatuses": [
            {
                "containers": ["a", "b"],
                "mapping": [{"name": "cpu", "quantity": "2"}, {"name": "cpu"}],
                "overhead": [{"name": "memory", "perPod": "5", "perContainer": "3"}],
            }
        ]
    }

    assert requested(read, status, containers=[container(cpu="1")]) == {"cpu": 3000, "memory": 11}


def test_what_a_node_offers():
    """In the units of requests; pods are counted."""
    allocatable = {"cpu": "3900m", "memory": "1Ki", "pods": "110", "example.com/gpu": "8", "storage": "1"}
    body = {"allocatable": allocatable}

    found = read_allocatable(FieldReader("Node", {}), body)

    assert found == {"cpu": 3900, "memory": 1024, "pods": 110, "example.com/gpu": 8}
