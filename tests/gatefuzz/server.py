"""The stored objects, with the preconditions of patches, and an independent check of each change.

The check knows nothing of the operator: it reads bodies only.
"""

import copy
from typing import Any

from dra_operator.cluster.reflector import Delta

GATE = "dra-operator.io/allocation"
GANG, GANG_SIZE = "dra-operator.io/gang", "dra-operator.io/gang-size"
LET_GO = "dra-operator.io/let-go"
FINALIZER = "resource.kubernetes.io/delete-protection"
NOMINATED = {"manager": "dra-operator", "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}
"""What managedFields say of a pod that an operator nominated."""
Key = tuple[str, str, str]


class BrokenError(AssertionError):
    """Something that must never be."""


class ConflictError(Exception):
    """A precondition of a patch does not hold; `body` is the object as it is, None if it is gone."""

    def __init__(self, body: dict[str, Any] | None) -> None:
        super().__init__()
        self.body = body


class Server:
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[Key, dict[str, Any]] = {}
        self.complete: set[str] = set()
        """The gangs that had all their pods at some time."""
        self.events: list[tuple[int, Delta]] = []
        """All changes, each with its version."""

    def put(self, body: dict[str, Any]) -> dict[str, Any]:
        """Store an object."""
        body = copy.deepcopy(body)
        metadata = body["metadata"]
        key = body["kind"], metadata.get("namespace", ""), metadata["name"]
        before = self.objects.get(key)
        self.version += 1
        metadata.setdefault("uid", f"uid-{self.version}")
        metadata.setdefault("creationTimestamp", f"2026-01-01T00:00:{self.version % 60:02}Z")
        metadata["resourceVersion"] = str(self.version)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.objects.pop(key, None)
            # A deletion has a version of its own, after that of the write that took the last finalizer off.
            self.version += 1
            self.events.append((self.version, Delta(*key, None)))
        else:
            self.objects[key] = body
            self.events.append((self.version, Delta(*key, copy.deepcopy(body))))
        gang = self.gang_of(body) if body["kind"] == "Pod" else []
        size = (body["metadata"].get("annotations") or {}).get(GANG_SIZE, "")
        if gang and size.isdigit() and len(gang) >= int(size):
            self.complete.add(gang_name(body))
        self._check(before, body)
        return copy.deepcopy(body)

    def delete(self, key: Key) -> None:
        """Delete an object, as far as its finalizers permit."""
        body = self.objects[key]
        body = {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:01:00Z"}}
        self.put(body)

    def patch(self, key: Key, uid: str, version: str, patch: dict[str, Any]) -> dict[str, Any]:
        """Apply a merge patch. Raises ConflictError."""
        body = self.objects.get(key)
        if body is None or (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) != (uid, version):
            raise ConflictError(copy.deepcopy(body))
        merged = _merged(body, patch)
        if merged == body:
            return copy.deepcopy(body)
        if nominated_node(merged) != nominated_node(body):
            # Only operators patch.
            merged["metadata"] = {**merged["metadata"], "managedFields": [NOMINATED]}
        return self.put(merged)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return [body for key, body in self.objects.items() if key[0] == kind]

    def claims_of(self, pod: dict[str, Any]) -> list[dict[str, Any] | None]:
        """Return the claims of a pod; None for one that is not there."""
        names = [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"]]
        return [self.objects.get(("ResourceClaim", pod["metadata"]["namespace"], name)) for name in names]

    # --- what must never be

    def _check(self, before: dict[str, Any] | None, body: dict[str, Any]) -> None:
        if body["kind"] == "ResourceClaim":
            self._check_devices()
            self._check_use(before, body)
        if body["kind"] == "Pod" and before is not None and is_gated(before) and not is_gated(body):
            self._check_hand_over(body)

    def _check_devices(self) -> None:
        """Check that no device has two holders."""
        holders: dict[str, str] = {}
        for claim in self.of_kind("ResourceClaim"):
            for device in devices_of(claim):
                name = claim["metadata"]["name"]
                if device in holders:
                    raise BrokenError(f"device {device} has two holders: {holders[device]}, {name}")
                holders[device] = name

    def _check_use(self, before: dict[str, Any] | None, claim: dict[str, Any]) -> None:
        """Check that nothing is taken from a pod that was let go, and an allocation never without the finalizer."""
        if devices_of(claim) and FINALIZER not in claim["metadata"].get("finalizers", ()):
            raise BrokenError(f"claim {claim['metadata']['name']} has devices and no finalizer")
        if before is None or not devices_of(before) or devices_of(before) == devices_of(claim):
            return
        name = claim["metadata"]["name"]
        for pod in self.of_kind("Pod"):
            names = [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"]]
            if name in names and not (is_gated(pod) or is_over(pod) or is_refused(pod) or self._is_held(pod)):
                raise BrokenError(
                    f"claim {name} lost its devices, which pod {pod['metadata']['name']} may use"
                )

    def _is_held(self, pod: dict[str, Any]) -> bool:
        """Return whether kube-scheduler looks at no pod of a PodGroup, as one has a gate."""
        group = pod["spec"].get("schedulingGroup")
        others = [
            each["spec"] for each in self.of_kind("Pod") if each["spec"].get("schedulingGroup") == group
        ]
        return group is not None and any(each.get("schedulingGates") for each in others)

    def _check_hand_over(self, pod: dict[str, Any]) -> None:
        """Check that a pod is let go only when all its claims are stored, usable on one node."""
        found = self.claims_of(pod)
        name = pod["metadata"]["name"]
        self._check_gang(pod)
        if not found:
            return
        if any(claim is None or not devices_of(claim) for claim in found):
            raise BrokenError(f"the gate of pod {name} is off, and not all of its claims are stored")
        nodes = {node_of(claim) for claim in found if claim is not None}
        if len(nodes) != 1:
            raise BrokenError(f"the claims of pod {name} are on {sorted(nodes)}")
        if pod["status"].get("nominatedNodeName") not in nodes:
            raise BrokenError(f"pod {name} is not nominated to the node of its claims")

    def gang_of(self, pod: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pods of a pod's gang that are not over; none if it has no gang."""
        gang = gang_name(pod)
        return [
            each for each in self.of_kind("Pod") if gang and gang_name(each) == gang and not is_over(each)
        ]

    def _check_gang(self, pod: dict[str, Any]) -> None:
        """Check that the first gate of a gang comes off only when all its pods have all that they need."""
        members = [each for each in self.gang_of(pod) if each["metadata"]["uid"] != pod["metadata"]["uid"]]
        if not gang_name(pod) or any(is_under_way(each, self.claims_of(each)) for each in members):
            return
        name, gated = pod["metadata"]["name"], [each for each in members if is_gated(each)]
        # One may be gone while the patches are under way.
        if gang_name(pod) not in self.complete:
            raise BrokenError(f"the gate of pod {name} is off, and its gang is not complete")
        for each in [pod, *gated]:
            other = each["metadata"]["name"]
            if not nominated_node(each):
                raise BrokenError(f"the gate of pod {name} is off, and {other} of its gang is not nominated")
            if any(claim is None or not devices_of(claim) for claim in self.claims_of(each)):
                raise BrokenError(f"the gate of pod {name} is off, and {other} of its gang lacks devices")


def gang_name(pod: dict[str, Any]) -> str:
    """Return the gang of a pod; empty if it has none."""
    return str((pod["metadata"].get("annotations") or {}).get(GANG, ""))


def is_under_way(pod: dict[str, Any], claims: list[dict[str, Any] | None]) -> bool:
    """Return whether an operator let a pod go, and it runs or has its devices."""
    if is_gated(pod) or LET_GO not in (pod["metadata"].get("annotations") or {}):
        return False
    has_all = all(claim is not None and devices_of(claim) for claim in claims)
    return bool(pod["spec"].get("nodeName")) or (has_all and (bool(claims) or bool(nominated_node(pod))))


def nominated_node(body: dict[str, Any]) -> str | None:
    """Return the node that a pod is nominated to."""
    found: str | None = (body.get("status") or {}).get("nominatedNodeName")
    return found


def is_gated(pod: dict[str, Any]) -> bool:
    """Return whether our gate holds a pod."""
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())


def is_refused(pod: dict[str, Any]) -> bool:
    """Return whether kube-scheduler says that it cannot place a pod."""
    return any(each["reason"] == "Unschedulable" for each in pod["status"].get("conditions") or ())


def is_over(pod: dict[str, Any]) -> bool:
    """Return whether a pod has run, or is being deleted."""
    return pod["status"].get("phase") in ("Succeeded", "Failed") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def devices_of(claim: dict[str, Any]) -> list[str]:
    """Return the devices of a claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return [f"{item['pool']}/{item['device']}" for item in allocation.get("devices", {}).get("results", ())]


def node_of(claim: dict[str, Any]) -> str:
    """Return the node on which an allocated claim can be used."""
    (term,) = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


def _merged(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for name, value in patch.items():
        if name in ("uid", "resourceVersion"):
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and name != "allocation":
            merged[name] = _merged(merged.get(name) or {}, value)
        else:
            merged[name] = value
    return merged
