"""A namespace with examples in it, and what tests ask about its claims."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from controlplane.client import Client
from controlplane.plane import ControlPlane

EXAMPLES = Path(__file__).parents[2] / "examples"
PENDING = "dra-operator.io/pending"
FINALIZER = "resource.kubernetes.io/delete-protection"
RESOURCE = "/apis/resource.k8s.io/v1"

Claim = dict[str, Any]


class Scene:
    """One namespace of a control plane."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.client: Client = plane.client
        self.namespace = namespace
        self.claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"

    def apply(self, *examples: str) -> str:
        """Apply files or folders below examples/ with kubectl and return what it prints."""
        files = [f"--filename={EXAMPLES / example}" for example in examples]
        return self.plane.kubectl("apply", f"--namespace={self.namespace}", *files)

    def describe(self, claim: str) -> str:
        """Return what `kubectl describe resourceclaim` shows."""
        return self.plane.kubectl("describe", "resourceclaim", claim, f"--namespace={self.namespace}")

    def create_user(self, claim: str) -> None:
        """Let a pod name a claim, so that the claim is left to kube-scheduler."""
        self.client.create(
            f"/api/v1/namespaces/{self.namespace}/pods",
            {
                "metadata": {"name": "user"},
                "spec": {
                    "containers": [{"name": "main", "image": "none"}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
                },
            },
        )

    def create_claim(
        self, name: str, device_class: str, *, labels: Mapping[str, str] | None = None, **exactly: Any
    ) -> Claim:
        """Create a claim with the one request `devices` and return it as stored."""
        request = {"name": "devices", "exactly": {"deviceClassName": device_class, **exactly}}
        claim: Claim = self.client.create(
            self.claims,
            {
                "metadata": {"name": name, "labels": dict(labels or {})},
                "spec": {"devices": {"requests": [request]}},
            },
        )
        return claim

    def delete_claim(self, name: str) -> None:
        """Ask for the end of a claim; its finalizer may hold it."""
        self.client.delete(f"{self.claims}/{name}")

    def claim(self, name: str) -> Claim:
        """Return a claim as it is now."""
        found: Claim = self.client.get(f"{self.claims}/{name}")
        return found

    def all_claims(self) -> list[Claim]:
        """Return all claims of the namespace."""
        items: list[Claim] = self.client.get(self.claims)["items"]
        return items

    def wait_allocated(self, name: str, *, seconds: float = 90) -> Claim:
        """Wait until a claim is allocated and return it."""
        return self._wait(name, lambda claim: bool(allocation(claim)), seconds, "an allocation")

    def wait_pending(self, name: str, text: str = "", *, seconds: float = 90) -> str:
        """Wait until a claim says that it is pending, with `text` in what it says, and return that."""
        claim = self._wait(
            name,
            lambda claim: PENDING in annotations(claim) and text in annotations(claim)[PENDING],
            seconds,
            f"an annotation with {text!r}",
        )
        return annotations(claim)[PENDING]

    def wait_gone(self, name: str, *, seconds: float = 90) -> None:
        """Wait until a claim does not exist any more."""
        self.client.wait_for(
            f"{self.claims}/{name}", lambda claim: claim is None, seconds=seconds, what="the end of the claim"
        )

    def events(self, name: str, kind: str = "ResourceClaim") -> list[dict[str, Any]]:
        """Return the Events about an object; those about cluster-wide ones are in `default`."""
        namespace = self.namespace if kind == "ResourceClaim" else "default"
        return [
            event
            for event in self.client.get(f"/api/v1/namespaces/{namespace}/events")["items"]
            if event["involvedObject"]["kind"] == kind and event["involvedObject"]["name"] == name
        ]

    def wait_event(self, name: str, reason: str, *, seconds: float = 90) -> dict[str, Any]:
        """Wait until a claim has an Event with a reason and return it."""

        def found() -> list[dict[str, Any]]:
            return [event for event in self.events(name) if event["reason"] == reason]

        self.client.wait_for(
            f"/api/v1/namespaces/{self.namespace}/events",
            lambda _list: found(),
            seconds=seconds,
            what=f"an Event {reason} of {name}",
        )
        return found()[0]

    def _wait(self, name: str, condition: Callable[[Claim], bool], seconds: float, what: str) -> Claim:
        claim: Claim = self.client.wait_for(
            f"{self.claims}/{name}",
            lambda found: found is not None and condition(found),
            seconds=seconds,
            what=what,
        )
        return claim


def allocation(claim: Claim) -> dict[str, Any] | None:
    """Return the allocation of a claim, None if it has none."""
    found: dict[str, Any] | None = claim.get("status", {}).get("allocation")
    return found


def annotations(claim: Claim) -> dict[str, str]:
    """Return the annotations of a claim."""
    found: dict[str, str] = claim["metadata"].get("annotations", {})
    return found


def devices(claim: Claim) -> list[str]:
    """Return the devices of an allocated claim as `pool/device`, in the order of the results."""
    results = (allocation(claim) or {}).get("devices", {}).get("results", [])
    return [f"{result['pool']}/{result['device']}" for result in results]


def node(claim: Claim) -> str:
    """Return the one node that an allocated claim can be used on."""
    (term,) = (allocation(claim) or {})["nodeSelector"]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    (name,) = field["values"]
    return str(name)
