"""The bridge's account on a control plane, as `manifests/bridge` has it."""

from pathlib import Path

import yaml

from controlplane.manifests import MANIFESTS
from controlplane.plane import ControlPlane

BRIDGE = MANIFESTS / "bridge"
NAMESPACE = ACCOUNT = "dra-bridge"


def install_bridge(plane: ControlPlane) -> None:
    """Apply everything but the DaemonSet, since tests run agents themselves; a warning counts as an error."""
    documents = yaml.safe_load_all(plane.kubectl("kustomize", str(BRIDGE)))
    wanted = [each for each in documents if each["kind"] != "DaemonSet"]
    plane.kubectl("apply", "-f", "-", "--warnings-as-errors", input=yaml.safe_dump_all(wanted))


def remove_bridge(plane: ControlPlane) -> None:
    """Remove its cluster-wide objects."""
    for name in ("policy", "access"):
        plane.kubectl("delete", f"--filename={BRIDGE / name}.yaml", "--ignore-not-found")


def token_on_node(plane: ControlPlane, node: str) -> str:
    """Return a token of the account as a pod on a node has it."""
    uid = plane.client.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    answer = plane.client.create(
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": 7200,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid},
            },
        },
    )
    token: str = answer["status"]["token"]
    return token


def write_kubeconfig(plane: ControlPlane, node: str, path: Path) -> Path:
    """Write a kubeconfig with which an agent acts on a node, and return its path."""
    config = yaml.safe_load(plane.admin_kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_on_node(plane, node)}
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path
