"""Extended resources of a pod as a claim."""

from typing import Any

import pytest

from dra_operator.allocator.extended import (
    CLASS_PREFIX,
    classes_by_resource,
    extended_resources,
    is_extended,
    special_claim,
)
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim

GPU = "example.com/gpu"
NIC = "example.com/nic"


def device_class(name: str, resource: str | None = None, created: str = "2026-01-01T00:00:00Z") -> Any:
    """Return a class that serves a resource."""
    metadata = {"name": name, "creationTimestamp": created}
    return read_object({"metadata": metadata, "spec": {"extendedResourceName": resource}}, "DeviceClass")


CLASSES = classes_by_resource([device_class("gpu", GPU), device_class("nic", NIC)])


def container(name: str, *, lasts: bool = False, **requests: str) -> dict[str, Any]:
    """Return a container that requests amounts of `gpu`, `nic`, `cpu`; `lasts` is for init containers."""
    full = {{"gpu": GPU, "nic": NIC}.get(key, key): amount for key, amount in requests.items()}
    made: dict[str, Any] = {"name": name, "resources": {"requests": full}}
    return {**made, "restartPolicy": "Always"} if lasts else made


def pod(*containers: Any, init: Any = ()) -> Any:
    """Return pod `train` of namespace `team`."""
    metadata = {"name": "train", "namespace": "team", "uid": "u1"}
    spec = {"initContainers": list(init), "containers": list(containers)}
    return read_object({"metadata": metadata, "spec": spec}, "Pod")


def requests(claim: ResourceClaim | None) -> dict[str, tuple[str, int]]:
    """Return class and count of each request."""
    assert claim is not None
    found = {}
    for request in claim.spec.devices.requests:
        assert request.exactly is not None
        assert request.exactly.allocation_mode == "ExactCount"
        found[request.name] = (request.exactly.device_class_name, request.exactly.count)
    return found


def test_each_container_has_a_request_for_each_resource() -> None:
    """Its numbers are those of the container and of the resource among all names that the container requests."""
    found = special_claim(
        pod(container("a", cpu="1", gpu="2", nic="1"), container("b", gpu="1")), CLASSES, {}
    )

    assert requests(found) == {
        "container-0-request-1": ("gpu", 2),
        "container-0-request-2": ("nic", 1),
        "container-1-request-0": ("gpu", 1),
    }


def test_the_claim_belongs_to_the_pod_and_says_what_it_is() -> None:
    """Owner and annotation; the name is a placeholder until it is created."""
    found = special_claim(pod(container("a", gpu="1")), CLASSES, {})

    assert found is not None
    metadata = found.metadata
    assert (metadata.name, metadata.namespace) == ("<extended-resources>", "team")
    assert metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [(item.kind, item.name, item.uid, item.controller) for item in metadata.owner_references] == [
        ("Pod", "train", "u1", True)
    ]


def test_an_init_container_uses_what_comes_later() -> None:
    """What sidecars behind it and regular containers request, until it has enough."""
    init = [container("i", gpu="3"), container("s", lasts=True, gpu="2")]
    found = special_claim(pod(container("a", gpu="2"), container("b", gpu="1"), init=init), CLASSES, {})

    assert list(requests(found)) == [
        "container-1-request-0",
        "container-2-request-0",
        "container-3-request-0",
    ]


def test_an_init_container_does_not_use_what_began_before_it() -> None:
    """A sidecar that runs already has its devices for itself."""
    init = [container("s", lasts=True, gpu="2"), container("i", gpu="2")]
    found = special_claim(pod(container("a", cpu="1"), init=init), CLASSES, {})

    assert requests(found) == {"container-0-request-0": ("gpu", 2), "container-1-request-0": ("gpu", 2)}


@pytest.mark.parametrize("amount", ["0", "500m", "1500m"])
def test_amounts_that_are_no_number_of_devices_are_skipped(amount: str) -> None:
    """Zero asks for nothing, and half a device cannot be had."""
    assert special_claim(pod(container("a", gpu=amount)), CLASSES, {}) is None


@pytest.mark.parametrize(("allocatable", "served"), [({GPU: "2"}, False), ({GPU: "0"}, True), ({}, True)])
def test_a_device_plugin_comes_first(allocatable: dict[str, str], *, served: bool) -> None:
    """Where the node has any of the resource, its plugin serves it, and no claim is needed."""
    found = special_claim(pod(container("a", gpu="1")), CLASSES, allocatable)

    assert (found is not None) is served


def test_only_what_the_node_lacks_is_claimed() -> None:
    """A pod can use a plugin and a claim at once; numbers stay as they are."""
    found = special_claim(pod(container("a", gpu="1", nic="1")), CLASSES, {GPU: "8"})

    assert requests(found) == {"container-0-request-1": ("nic", 1)}


def test_every_class_has_an_implicit_name() -> None:
    """Also one without `extendedResourceName`."""
    classes = classes_by_resource([device_class("plain")])
    found = special_claim(pod(container("a", **{CLASS_PREFIX + "plain": "1"})), classes, {})

    assert requests(found) == {"container-0-request-0": ("plain", 1)}


@pytest.mark.parametrize(
    ("classes", "winner"),
    [
        ([("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z")], "new"),
        ([("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T00:00:00Z")], "a"),
        ([("a", "2026-01-01T00:00:00Z"), ("b", "2026-02-01T00:00:00Z")], "b"),
    ],
    ids=["the newest", "of equally old ones the first by name", "age before name"],
)
def test_of_classes_with_one_resource_name_one_serves_it(classes: list[tuple[str, str]], winner: str) -> None:
    """In whatever order they arrive."""
    made = [device_class(name, GPU, created) for name, created in classes]

    assert classes_by_resource(made)[GPU].metadata.name == winner
    assert classes_by_resource(made[::-1])[GPU].metadata.name == winner


def test_limits_are_requests_where_there_are_none() -> None:
    """As the API server has it; manifests of files have seen none."""
    limited = {"name": "a", "resources": {"limits": {GPU: "2"}}}

    assert requests(special_claim(pod(limited), CLASSES, {})) == {"container-0-request-0": ("gpu", 2)}


def test_extended_resources_are_those_of_which_any_is_wanted() -> None:
    """Kubernetes' own resources are no extended ones; zero is not wanted."""
    asked = {"cpu": "1", "hugepages-2Mi": "1Gi", "other.com/fpga": "1", "other.com/none": "0", GPU: "1"}

    assert extended_resources(pod(container("a", **asked))) == (GPU, "other.com/fpga")


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("cpu", False),
        ("attachable-volumes-csi", False),
        ("kubernetes.io/batch", False),
        ("requests.example.com/gpu", False),
        (GPU, True),
        (CLASS_PREFIX + "gpu", True),
    ],
)
def test_extended_resources_have_a_domain_of_their_own(name: str, *, extended: bool) -> None:
    """Except the implicit names of classes, whose domain is Kubernetes'."""
    assert is_extended(name) is extended
