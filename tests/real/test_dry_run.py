"""A dry run on the real API server: it reads, decides and prints, and asks for nothing else."""

from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT


def test_a_dry_run_only_reads(control_plane, scene, start_operator):
    """By the audit log; and the claims stay as they were made, whatever was decided about them."""
    create_fleet(scene.client, nodes=1, devices=2)
    scene.create_claim("works", DRIVER)
    scene.create_claim("waits", "absent.example.com")
    before = {claim["metadata"]["name"]: claim for claim in scene.all_claims()}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    held = scene.client.get(leases)["items"]
    control_plane.audit_log.write_bytes(b"")

    operator = start_operator("--dry-run", "--devices=all")
    operator.wait_until(lambda: "waits   ClassNotFound" in operator.log_text(), seconds=30)
    operator.wait_until(lambda: "works   Allocated" in operator.log_text(), seconds=30)
    scene.create_claim("later", DRIVER)
    operator.wait_until(lambda: "later   Allocated" in operator.log_text(), seconds=30)
    scene.delete_claim("later")
    scene.wait_gone("later")
    operator.stop()

    requests = control_plane.requests_of(SERVICE_ACCOUNT, NAMESPACE)
    assert {request["verb"] for request in requests} == {"get", "list", "watch"}
    assert {claim["metadata"]["name"]: claim for claim in scene.all_claims()} == before
    assert scene.client.get(leases)["items"] == held
    assert scene.client.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"] == []
