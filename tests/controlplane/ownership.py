"""The policies around devices that are the operator's, on a control plane of tests."""

from pathlib import Path

from controlplane.manifests import MANIFESTS
from controlplane.plane import ControlPlane

POLICY_FILE = MANIFESTS / "components" / "ownership" / "policy.yaml"
_RULES = "/apis/resource.k8s.io/v1/devicetaintrules?dryRun=All"


def put_up(plane: ControlPlane, policy: Path = POLICY_FILE) -> None:
    """Apply the policies, and wait until the one for rules is in force."""
    plane.kubectl("apply", "-f", str(policy), "--warnings-as-errors")
    taint = {"key": "dra-operator.io/owned", "effect": "NoExecute"}
    probe = {
        "metadata": {"name": "probe"},
        "spec": {"taint": taint, "deviceSelector": {"driver": "gpu.example.com"}},
    }
    plane.client.wait_for(
        "/healthz", lambda _: not plane.client.request("POST", _RULES, probe).ok, seconds=30
    )
