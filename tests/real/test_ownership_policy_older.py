"""The fence on an API server of Kubernetes 1.34, which does not serve DeviceTaintRule."""

import pytest

from controlplane import Scene, fresh_namespace
from controlplane.client import MERGE_PATCH
from controlplane.fencing import DRIVER, Fenced, installed, remove
from controlplane.manifests import FENCE
from dra_operator.api.names import OWNED_POLICY, OWNED_RULES_POLICY
from dra_operator.cluster.ownership_policy import OPERATOR, PoolsFence


@pytest.fixture
def old(old_plane):
    """Return a namespace there, and who acts in it; afterwards no policy is left."""
    with fresh_namespace(old_plane) as name:
        yield Fenced(Scene(old_plane, name))
    remove(old_plane.client, OWNED_POLICY, OWNED_RULES_POLICY)


def test_policy_for_pools_is_a_fence(old):
    """It needs no rules."""
    old.scene.plane.kubectl("apply", "-f", str(FENCE.parent / "pools.yaml"), "--warnings-as-errors")
    old.wait(lambda: old.allocate("scheduler", ("node-1", "gpu-0")).status == 403)

    pools = frozenset({(DRIVER, "node-1"), (DRIVER, "node-2")})
    assert installed(old.client) == PoolsFence(OPERATOR, frozenset({"nic.example.com"}), pools)
    assert old.allocate("scheduler", ("node-3", "gpu-0")).status == 200
    assert old.allocate("operator", ("node-1", "gpu-0"), query="").status == 200


def test_policy_with_rules_as_parameters_refuses_every_write_to_a_status(old):
    """Also those that allocate nothing: the matching conditions are not asked."""
    old.scene.plane.kubectl("apply", "-f", str(FENCE))
    old.scene.create_claim("claim", "any.example.com")
    path = f"{old.scene.claims}/claim/status"

    def write():
        return old.client.request("PATCH", path, {"status": {}}, content_type=MERGE_PATCH)

    old.wait(lambda: not write().ok)
    assert "failed to find resource referenced by paramKind" in write().body["message"]
