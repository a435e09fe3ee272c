"""The claim store: all claims, the pods that use them, and the standing of each claim.

kube-scheduler allocates the claims of pods, so the operator takes those that no pod uses, or only pods that our gate
holds. A pod that has finished still uses a claim: as long as it is there, kube-controller-manager reserves whatever is
allocated to its claim for it, and clears that again, some twenty times a second. (Source: `podNeedsWork` and
`syncClaim` of its claim controller.) That does not clear what is reserved for another pod.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import ENDED_PHASES, FINALIZER, GATE, OPT_OUT_LABEL, PENDING_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.pods.gate import has_only_gated

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a claim or a pod."""


class ClaimScope(Enum):
    """Which claims are ours to allocate: the setting `claims`."""

    NONE = "none"
    STANDALONE = "standalone"
    GATED = "gated"
    ALL = "all"

    @property
    def has_standalone(self) -> bool:
        """Whether claims are ours that no pod names."""
        return self in (ClaimScope.STANDALONE, ClaimScope.ALL)

    @property
    def has_gated(self) -> bool:
        """Whether claims are ours that only gated pods name."""
        return self in (ClaimScope.GATED, ClaimScope.ALL)


class Standing(Enum):
    """Whose a claim is. All but OURS and GATED are left alone, except for our own annotation.

    GATED are those that unfinished pods name, and all of these have our gate: they are decided with their pods.
    """

    OURS = "ours"
    GATED = "gated"
    STANDALONE = "standalone"
    OPTED_OUT = "opted-out"
    OWNED = "owned"
    RESERVED = "reserved"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class PodUse:
    """The names of the claims that a pod uses, in its namespace; empty if it uses none, or none any more.

    `is_gated` says that our gate holds it, `is_finished` that it has run; `uid` is the pod's, where it is known.
    """

    namespace: str
    name: str
    claims: frozenset[str]
    is_gated: bool = False
    is_finished: bool = False
    uid: str = ""


def pod_use(body: Mapping[str, Any]) -> PodUse:
    """Return the claims that the pod `body` (a Pod as on the wire, whole or trimmed) uses.

    A pod that is being deleted uses none, nor does one that is Succeeded or Failed and never had a node. The body is
    not read into a dataclass, as there are many pods, and most use no claims. Source: core/v1 Pod,
    `spec.resourceClaims`, `status.resourceClaimStatuses`, `status.extendedResourceClaimStatus`.
    """
    metadata = body.get("metadata") or {}
    spec = body.get("spec") or {}
    status = body.get("status") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    is_finished = status.get("phase") in ENDED_PHASES
    if metadata.get("deletionTimestamp") or (is_finished and not spec.get("nodeName")):
        return PodUse(namespace, name, frozenset())
    entries = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    entries.append(status.get("extendedResourceClaimStatus") or {})
    return PodUse(
        namespace,
        name,
        frozenset(entry["resourceClaimName"] for entry in entries if entry.get("resourceClaimName")),
        is_gated=any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ()),
        is_finished=is_finished,
        uid=metadata.get("uid", ""),
    )


class ClaimStore:
    """All claims of the cluster, and the pods that use them. `scope` says which claims are ours."""

    def __init__(self, scope: ClaimScope = ClaimScope.STANDALONE) -> None:
        self.scope = scope
        self._claims: dict[Key, ResourceClaim] = {}
        self._waiting: set[Key] = set()
        self._pods: dict[Key, PodUse] = {}
        self._users: dict[Key, set[str]] = {}
        self._standings: dict[Key, Standing] = {}
        self._counts = Counter(dict.fromkeys(Standing, 0))
        self.version = 0
        """Grows with every claim that comes, changes or goes."""

    def get(self, key: Key) -> ResourceClaim | None:
        """Return the claim, or None if there is none of that name."""
        return self._claims.get(key)

    def find_all(self, namespace: str, names: Iterable[str]) -> list[ResourceClaim]:
        """Return those of some claims of a namespace that are there, by name."""
        found = [self._claims.get((namespace, name)) for name in sorted(names)]
        return [claim for claim in found if claim is not None]

    def allocated(self) -> Iterator[ResourceClaim]:
        """Yield the claims that have an allocation."""
        return (claim for claim in self._claims.values() if claim.status.allocation is not None)

    def pending(self) -> Iterator[ResourceClaim]:
        """Yield the claims that have no allocation and may get one, whoever makes it."""
        return filter(is_pending, self._claims.values())

    def put(self, claim: ResourceClaim) -> None:
        """Keep the newest state of a claim."""
        key = claim_key(claim)
        self.version += 1
        self._claims[key] = claim
        self._update_standing(key)

    def remove(self, key: Key) -> None:
        """Forget a claim that is gone."""
        self.version += 1
        self._claims.pop(key, None)
        self._update_standing(key)

    def put_pod(self, use: PodUse) -> frozenset[Key]:
        """Keep what a pod uses, and return the claims whose standing may have changed by it.

        A pod that is gone uses nothing.
        """
        pod = (use.namespace, use.name)
        old = self._pods.pop(pod, None)
        before = frozenset[str]() if old is None else old.claims
        if use.claims:
            self._pods[pod] = use
        for name in before - use.claims:
            users = self._users[use.namespace, name]
            users.discard(use.name)
            if not users:
                del self._users[use.namespace, name]
        for name in use.claims - before:
            self._users.setdefault((use.namespace, name), set()).add(use.name)
        is_same = old is None or replace(old, claims=use.claims) == use
        changed = frozenset(
            (use.namespace, name) for name in (before ^ use.claims if is_same else before | use.claims)
        )
        for key in changed:
            self._update_standing(key)
        return changed

    def standing(self, claim: ResourceClaim) -> Standing:
        """Return whose the claim is."""
        if claim.metadata.labels.get(OPT_OUT_LABEL) == "false":
            return Standing.OPTED_OUT
        return self._use(claim)

    def is_for_us_to_release(self, claim: ResourceClaim) -> bool:
        """True if nobody uses the claim but gated pods: once it is deleted, nobody is going to."""
        ours = (Standing.OURS, Standing.STANDALONE, Standing.GATED)
        return self.scope is not ClaimScope.NONE and self._use(claim) in ours

    def is_allocatable(self, key: Key) -> bool:
        """True if the claim has no allocation, and it is for us to make one, alone or with its pods."""
        claim = self._claims.get(key)
        if claim is None or not is_pending(claim):
            return False
        return self._standings[key] in (Standing.OURS, Standing.GATED)

    def _use(self, claim: ResourceClaim) -> Standing:
        key = claim_key(claim)
        if claim.metadata.reservation is not None and self.scope is not ClaimScope.NONE:
            # Whoever names it: it is allocated for the reservation, and pods use it then.
            return Standing.RESERVED if claim.status.reserved_for else Standing.OURS
        if self.scope.has_gated and key in self._users and self._has_only_gated(key, claim):
            return Standing.GATED
        if claim.metadata.is_made_for_pods:
            return Standing.OWNED
        if claim.status.reserved_for:
            return Standing.RESERVED
        if key in self._users:
            return Standing.POD
        return Standing.OURS if self.scope.has_standalone else Standing.STANDALONE

    def _has_only_gated(self, key: Key, claim: ResourceClaim) -> bool:
        return has_only_gated(claim, [self._pods[key[0], name] for name in self._users[key]])

    def is_shared(self, key: Key) -> bool:
        """True if several pods name the claim, also such that have run."""
        return len(self.users(key)) > 1

    def users(self, key: Key) -> AbstractSet[str]:
        """Return the names of the pods that use a claim."""
        return self._users.get(key, frozenset())

    def uses(self, key: Key) -> Iterator[PodUse]:
        """Yield the pods that use a claim, by name."""
        for name in sorted(self.users(key)):
            yield self._pods[key[0], name]

    def is_pending_for_pod(self, claim: ResourceClaim) -> bool:
        """True if a claim that has no allocation is a pod's: one that uses it, or that it was made for."""
        return is_pending(claim) and self.standing(claim) in (Standing.POD, Standing.OWNED, Standing.GATED)

    def waiting(self) -> frozenset[Key]:
        """Return our claims that have no allocation and are not being deleted."""
        return frozenset(self._waiting)

    def is_waiting(self, key: Key) -> bool:
        """True if the claim is one of `waiting`."""
        return key in self._waiting

    def standings(self) -> dict[Standing, int]:
        """Return how many claims there are of each standing."""
        return dict(self._counts)

    def _update_standing(self, key: Key) -> None:
        before = self._standings.pop(key, None)
        if before is not None:
            self._counts[before] -= 1
        self._waiting.discard(key)
        claim = self._claims.get(key)
        if claim is None:
            return
        standing = self.standing(claim)
        self._standings[key] = standing
        self._counts[standing] += 1
        if standing is Standing.OURS and is_pending(claim):
            self._waiting.add(key)


def is_pending(claim: ResourceClaim) -> bool:
    """True if the claim has no allocation and may get one: a claim that is being deleted never does."""
    return claim.status.allocation is None and claim.metadata.deletion_timestamp is None


def is_released(claim: ResourceClaim) -> bool:
    """True if the claim is being deleted and unreserved, and the finalizer of an allocation holds it.

    Such a claim can never be used again, so it is deallocated, whoever allocated it. Source: the claim
    controller's third rule (kube-controller-manager, `syncClaim`).
    """
    metadata = claim.metadata
    return bool(
        metadata.deletion_timestamp and FINALIZER in metadata.finalizers and not claim.status.reserved_for
    )


def annotation(claim: ResourceClaim) -> str | None:
    """Return our annotation on the claim, or None if it has none."""
    return claim.metadata.annotations.get(PENDING_ANNOTATION)


def order(claim: ResourceClaim) -> tuple[str, str, str]:
    """Return what claims are sorted by: the oldest first, then by namespace and name."""
    metadata = claim.metadata
    return metadata.creation_timestamp or "", metadata.namespace, metadata.name


def text(key: Key) -> str:
    """Return a claim's key as people write it."""
    return "/".join(key)
