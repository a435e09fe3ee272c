"""The manifests that the project ships, as tests apply them."""

from pathlib import Path
from typing import Any

import yaml

from controlplane.plane import ControlPlane

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "dra-operator"
SERVICE_ACCOUNT = "dra-operator"
_ACCESS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def rendered(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return the objects as `kubectl kustomize` builds them."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(plane.kubectl("kustomize", str(MANIFESTS))))
    return documents


def install_access(plane: ControlPlane) -> None:
    """Apply the service account and its rights, without the Deployment: tests run the operator themselves."""
    wanted = [document for document in rendered(plane) if document["kind"] in _ACCESS]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(wanted))
