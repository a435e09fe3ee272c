"""Other API servers: some serve one version of `resource.k8s.io` alone, others what comes with their Kubernetes."""

from contextlib import ExitStack

import pytest

from controlplane import (
    as_of,
    fresh_namespace,
    install_access,
    only,
    running_control_plane,
    start_operator,
)
from controlplane.fleet import DRIVER, create_node
from controlplane.serving import EMULATED

ALONE = {version: only(version) for version in ("v1beta2", "v1beta1")}
OLDEST = EMULATED[0]
"""Of which other tests have an API server as well."""
INSTALLED = {minor: as_of(minor) for minor in EMULATED[1:]}


class Older:
    """What is in a namespace of a control plane that serves one version."""

    def __init__(self, client, version, namespace):
        self.client = client
        self._root = f"/apis/resource.k8s.io/{version}"
        self._is_flat = version == "v1beta1"
        self.claims = f"{self._root}/namespaces/{namespace}/resourceclaims"

    def publish(self, *devices):
        """Create a class, a node and its slice."""
        create_node(self.client, "node-1")
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        self.client.create(
            f"{self._root}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": selectors}}
        )
        pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": name, **({"basic": {}} if self._is_flat else {})} for name in devices]
        self.client.create(
            f"{self._root}/resourceslices",
            {
                "metadata": {"name": "slice"},
                "spec": {"driver": DRIVER, "nodeName": "node-1", "pool": pool, "devices": listed},
            },
        )

    def remove_published(self):
        """Delete these."""
        for path in (
            f"{self._root}/resourceslices/slice",
            f"{self._root}/deviceclasses/{DRIVER}",
            "/api/v1/nodes/node-1",
        ):
            self.client.delete(path)

    def claim(self, name):
        """Create a claim for one device."""
        wanted = {"deviceClassName": DRIVER}
        request = {"name": "gpu", **(wanted if self._is_flat else {"exactly": wanted})}
        self.client.create(
            self.claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        )

    def wait_allocated(self, name):
        """Return the device that a claim gets."""
        found = self.client.wait_for(
            f"{self.claims}/{name}", lambda claim: claim.get("status", {}).get("allocation")
        )
        (result,) = found["status"]["allocation"]["devices"]["results"]
        return result["device"]

    def wait_pending(self, name):
        """Return why a claim waits."""
        key = "dra-operator.io/pending"
        found = self.client.wait_for(
            f"{self.claims}/{name}", lambda claim: key in claim["metadata"].get("annotations", {})
        )
        return found["metadata"]["annotations"][key]


@pytest.fixture(params=[*ALONE, OLDEST, *INSTALLED])
def older(programs, tmp_path, request):
    """Run such a control plane, and the operator."""
    version, namespace = request.param, "default"
    with ExitStack() as stack:
        if version == OLDEST:
            plane = request.getfixturevalue("old_plane")
            namespace = stack.enter_context(fresh_namespace(plane))
        else:
            serving = ALONE.get(version) or INSTALLED[version]
            plane = stack.enter_context(running_control_plane(programs, tmp_path, serving))
            install_access(plane)
        older = Older(plane.client, version if version in ALONE else "v1", namespace)
        stack.callback(older.remove_published)
        operator = start_operator(plane, tmp_path / "operator.log")
        stack.callback(operator.stop, grace=10)
        operator.wait_ready()
        yield older


def test_an_older_version_is_as_good(older):
    """Claims are allocated, wait, and are let go; a kind that is not served is done without."""
    older.publish("gpu-0")
    older.claim("first")
    assert older.wait_allocated("first") == "gpu-0"
    older.claim("second")
    assert "1 in use by 1 claim (first)" in older.wait_pending("second")
    older.client.delete(f"{older.claims}/first")
    assert older.wait_allocated("second") == "gpu-0"
