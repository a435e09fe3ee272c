"""The manifests that the project ships, as tests apply them."""

import time
from pathlib import Path
from typing import Any

import yaml

from controlplane.plane import ControlPlane
from dra_operator.api.names import OWNED_KEY

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "dra-operator"
SERVICE_ACCOUNT = "dra-operator"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
POLICIES = "/apis/dra-operator.io/v1alpha1/allocationpolicies"
KINDS = (
    POLICIES,
    *(f"/apis/dra-operator.io/v1alpha1/device{name}s" for name in ("reservation", "maintenance")),
)
FENCE = MANIFESTS / "components" / "ownership" / "policy.yaml"
_ACCESS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def rendered(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return the objects as `kubectl kustomize` builds them."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(plane.kubectl("kustomize", str(MANIFESTS))))
    return documents


def install_access(plane: ControlPlane) -> None:
    """Apply the service account and its rights, without the Deployment: tests run the operator themselves."""
    wanted = [document for document in rendered(plane) if document["kind"] in _ACCESS]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(wanted))


def install_component(plane: ControlPlane, name: str) -> None:
    """Apply the rights that a component of the manifests adds."""
    plane.kubectl("apply", f"--filename={MANIFESTS / 'components' / name / 'access.yaml'}")


def install_kinds(plane: ControlPlane) -> None:
    """Apply the kinds of our own with the rights that they need, and wait until they are served."""
    plane.kubectl("apply", "-k", str(MANIFESTS.parent / "crds"), "--warnings-as-errors")
    for path in KINDS:
        plane.client.wait_for(path, lambda found: found is not None, what="the kinds")
    install_component(plane, "allocation-policies")


def install_fence(plane: ControlPlane) -> None:
    """Apply the policies of components/ownership, which then stay: an API server follows only the first of a name.

    Returns when the API server acts on them, if it has not been told to ask no policy.
    """
    plane.kubectl("apply", f"--filename={FENCE}", "--warnings-as-errors")
    if "ValidatingAdmissionPolicy" in plane.serving.without_admission:
        return
    tolerant = {
        "name": "any",
        "exactly": {"deviceClassName": "any", "tolerations": [{"key": OWNED_KEY, "operator": "Exists"}]},
    }
    # What two of the policies refuse: the API server may begin with one before the other.
    probes = {
        RULES: {
            "deviceSelector": {"driver": "example.com"},
            "taint": {"key": OWNED_KEY, "effect": "NoExecute"},
        },
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {"devices": {"requests": [tolerant]}},
    }
    for path, spec in probes.items():
        probe = {"metadata": {"name": "probe"}, "spec": spec}
        plane.client.wait_for(
            "/healthz",
            lambda _, path=path, probe=probe: (
                not plane.client.request("POST", f"{path}?dryRun=All", probe).ok
            ),
            what="the fence",
        )


def wait_rights_used(plane: ControlPlane, component: str) -> None:
    """Wait until the operator has used each right that a component adds, by the audit log."""
    access = (MANIFESTS / "components" / component / "access.yaml").read_text()
    role, *_ = yaml.safe_load_all(access)
    granted = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}

    def find_unused() -> set[tuple[str, str]]:
        abouts = [
            (about, request["verb"])
            for request in plane.requests_of(SERVICE_ACCOUNT, NAMESPACE)
            if (about := request.get("objectRef"))
        ]
        return granted - {
            ("/".join(filter(None, (about["resource"], about.get("subresource")))), verb)
            for about, verb in abouts
        }

    until = time.monotonic() + 60
    while unused := find_unused():
        assert time.monotonic() < until, unused
        time.sleep(1)
