"""The component `gates` on an API server of Kubernetes 1.34, which does not serve MutatingAdmissionPolicy in v1."""

import pytest

from controlplane import KubectlError, fresh_namespace
from controlplane.client import MERGE_PATCH
from controlplane.manifests import MANIFESTS, NAMESPACE, SERVICE_ACCOUNT
from dra_operator.api.names import GATE

GATES = MANIFESTS / "components" / "gates"


@pytest.fixture
def old_gates(old_plane):
    """Return the plane with the component, without the part for managed namespaces."""
    files = [f"--filename={GATES / name}" for name in ("access.yaml", "policy.yaml")]
    old_plane.kubectl("apply", *files, "--warnings-as-errors")
    yield old_plane
    old_plane.kubectl("delete", *files)


def test_operator_is_confined_and_takes_the_gate_off(old_gates):
    """Pod templates carry the gate there; all else works as on newer servers."""
    operator = old_gates.client_for(SERVICE_ACCOUNT, NAMESPACE)
    with fresh_namespace(old_gates) as namespace:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        containers = [{"name": "main", "image": "none"}]
        spec = {"containers": containers, "schedulingGates": [{"name": GATE}]}
        old_gates.client.create(pods, {"metadata": {"name": "pod"}, "spec": spec})

        def write(body, tail=""):
            return operator.request("PATCH", f"{pods}/pod{tail}", body, content_type=MERGE_PATCH)

        label = {"metadata": {"labels": {"a": "b"}}}
        old_gates.client.wait_for(
            "/healthz", lambda _: write(label, "?dryRun=All").status == 403, what="the policy"
        )
        assert write({"status": {"nominatedNodeName": "node-1"}}, "/status").status == 200
        assert write({"spec": {"schedulingGates": []}}).status == 200


def test_part_for_managed_namespaces_is_refused_whole(old_gates):
    """Kubectl says which kind is missing."""
    with pytest.raises(KubectlError, match='no matches for kind "MutatingAdmissionPolicy" in version'):
        old_gates.kubectl("apply", f"--filename={GATES / 'managed-namespaces' / 'policy.yaml'}")
