"""The fence around owned devices on a control plane, and users who try to get past it."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.client import MERGE_PATCH, Answer, Client
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT
from controlplane.scene import RESOURCE, Scene
from dra_operator.api.names import OWNED_KEY, OWNED_POLICY
from dra_operator.cluster.ownership_policy import PoolsFence, RulesFence, fenced

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RULES = f"{RESOURCE}/devicetaintrules"
DRIVER = "gpu.example.com"


class Fenced:
    """A namespace of a control plane with the fence, and users who try to get past it."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.client, plane = scene, scene.client, scene.plane
        self.users: dict[str, Client] = {
            "admin": self.client,
            "scheduler": Client(plane.server, plane.tokens["scheduler"], plane.ca),
            "operator": plane.client_for(SERVICE_ACCOUNT, NAMESPACE),
        }
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        self.client.patch(f"/api/v1/namespaces/{scene.namespace}", label)
        self._claims = iter(range(10_000))

    def own(self, **selector: str) -> str:
        """Create a rule that owns devices, wait until the fence knows it, and return its name.

        For a moment the fence may still have those of another test, so no two have one name.
        """
        name = f"ours-{secrets.token_hex(4)}"
        self.client.create(RULES, rule(name, selector={"driver": DRIVER, **selector}))
        pool, device = selector.get("pool", "any"), selector.get("device", "any")
        self.wait(lambda: name in self.allocate("admin", (pool, device)).body.get("message", ""))
        return name

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the API server has heard of what was written."""
        self.client.wait_for("/healthz", lambda _: condition(), what="the fence")

    def allocate(
        self,
        user: str,
        *devices: tuple[str, str],
        admin_access: bool = False,
        version: str = "v1",
        driver: str = DRIVER,
        query: str = "?dryRun=All",
    ) -> Answer:
        """Let a user allocate a new claim, as a dry run; devices are (pool, device). Return the answer."""
        name = f"claim-{next(self._claims)}"
        access: dict[str, Any] = {"adminAccess": True} if admin_access else {}
        self.scene.create_claim(name, "any.example.com", **access)
        results = [
            {"request": "devices", "driver": driver, "pool": pool, "device": device, **access}
            for pool, device in devices
        ]
        path = f"{self.scene.claims}/{name}/status{query}".replace("/v1/", f"/{version}/", 1)
        body = {"status": {"allocation": {"devices": {"results": results}}}}
        return self.users[user].request("PATCH", path, body, content_type=MERGE_PATCH)


def rule(
    name: str,
    *,
    effect: str = "NoSchedule",
    value: str | None = None,
    key: str = OWNED_KEY,
    selector: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a DeviceTaintRule."""
    taint: dict[str, str] = {"key": key, "effect": effect, **({"value": value} if value is not None else {})}
    chosen = {} if selector is None else {"deviceSelector": selector}
    return {"metadata": {"name": name}, "spec": {"taint": taint, **chosen}}


def installed(client: Client, name: str = OWNED_POLICY) -> RulesFence | PoolsFence | None:
    """Return what an installed fence covers."""
    policy, binding = (
        client.get(f"{ADMISSION}/{kind}/{name}")
        for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    )
    if name != OWNED_POLICY:
        binding["spec"]["policyName"] = OWNED_POLICY
    return fenced(policy, binding)


def remove(client: Client, *names: str) -> None:
    """Delete policies and their bindings."""
    for name in names:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            client.delete(f"{ADMISSION}/{kind}/{name}")


def install(scene: Scene, objects: Sequence[Mapping[str, Any]]) -> None:
    """Apply objects; a warning of the API server counts as an error."""
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [*objects]})
    scene.plane.kubectl("apply", "-f", "-", "--warnings-as-errors", input=text)
