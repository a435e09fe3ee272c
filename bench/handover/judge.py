"""An independent judge of hand-overs, by the watches of claims and pods.

It shares no code with the operator. Versions of objects are those of one etcd, so states of claims and pods can be
compared by them.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coexistence.observer import Objects, Observer
from live.objects import Body, allocation_of

from dra_operator.api.names import GANG_ANNOTATION, GANG_SIZE_ANNOTATION, GATE
from handover.fleet import Fleet


@dataclass(slots=True)
class _History:
    """The node of a claim's allocation after each of its versions; empty if it had none."""

    versions: list[int] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)

    def add(self, version: int, node: str) -> None:
        if not self.nodes or self.nodes[-1] != node:
            self.versions.append(version)
            self.nodes.append(node)

    def at(self, version: int) -> str:
        """Return the node at a version of etcd."""
        position = bisect_right(self.versions, version)
        return self.nodes[position - 1] if position else ""


@dataclass(frozen=True, slots=True)
class _Moment:
    """Something about a pod that is to be compared with its claims: at which version, and the node that it has."""

    pod: str
    version: int
    node: str
    claims: tuple[str, ...]


class ReportingObjects(Objects):
    """Objects of one kind, each event of which is reported as well."""

    def __init__(self, report: Callable[[str, Body], None]) -> None:
        super().__init__()
        self._report = report

    def apply(self, kind: str, body: Body) -> None:
        """Take in one event."""
        self._report(kind, body)
        super().apply(kind, body)


class Judge:
    """Collects what pods and claims went through. It must be made before `observer` begins to watch.

    Claims and pods are known by their names, which no two of a run share.
    """

    def __init__(self, fleet: Fleet, observer: Observer) -> None:
        self._fleet = fleet
        self._observer = observer
        self._claims: defaultdict[str, _History] = defaultdict(_History)
        self._gated: set[str] = set()
        self._gang_claims: defaultdict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
        """By gang, the claims of each of its pods that was seen."""
        self._begun: dict[str, tuple[int, int]] = {}
        """By gang, the version at which the first gate came off, and its size."""
        self._bound: set[str] = set()
        self._let_go: list[_Moment] = []
        self._bindings: list[_Moment] = []
        self.let_go = 0
        observer.claims = ReportingObjects(self._apply_claim)
        observer.pods = ReportingObjects(self._apply_pod)

    def _apply_claim(self, kind: str, body: Body) -> None:
        metadata, allocation = body["metadata"], allocation_of(body)
        node = "" if kind == "DELETED" or allocation is None else allocation["devices"]["results"][0]["pool"]
        self._claims[metadata["name"]].add(int(metadata["resourceVersion"]), node)

    def _apply_pod(self, kind: str, body: Body) -> None:
        name, version = body["metadata"]["name"], int(body["metadata"]["resourceVersion"])
        if kind == "DELETED":
            return
        names = tuple(
            each["resourceClaimName"]
            for each in (body.get("status") or {}).get("resourceClaimStatuses") or ()
            if each.get("resourceClaimName")
        )
        gang = (body["metadata"].get("annotations") or {}).get(GANG_ANNOTATION, "")
        if gang:
            self._gang_claims[gang][name] = names
        is_gated = any(gate["name"] == GATE for gate in body["spec"].get("schedulingGates") or ())
        if is_gated:
            self._gated.add(name)
        elif name in self._gated:
            self._gated.discard(name)
            self.let_go += 1
            self._let_go.append(_Moment(name, version, "", names))
            if gang:
                size = int(body["metadata"]["annotations"][GANG_SIZE_ANNOTATION])
                self._begun.setdefault(gang, (version, size))
        node = body["spec"].get("nodeName")
        if node and name not in self._bound:
            self._bound.add(name)
            self._bindings.append(_Moment(name, version, node, names))

    def faults(self) -> Iterator[str]:
        """Yield what has been wrong so far; both watches must have come as far as each other."""
        for violation in self._observer.reader.violations:
            yield str(violation)
        for moment in self._let_go:
            lacking = [name for name in moment.claims if not self._claims[name].at(moment.version)]
            if lacking or not moment.claims:
                yield f"{moment.pod} was let go at version {moment.version} without {', '.join(lacking) or 'claims'}"
        for gang, (version, size) in self._begun.items():
            claims = self._gang_claims[gang]
            lacking = [
                claim for each in claims.values() for claim in each if not self._claims[claim].at(version)
            ]
            if lacking or len(claims) < size:
                lost = ", ".join(lacking) or "all its pods"
                yield f"the first gate of {gang} came off at version {version} without {lost}"
        for moment in self._bindings:
            at = {name: self._claims[name].at(moment.version) for name in moment.claims}
            if any(node != moment.node for node in at.values()):
                yield f"{moment.pod} was bound to {moment.node} at version {moment.version}, its claims to {at}"

    def free(self) -> dict[str, tuple[int, int]]:
        """Return how many owned and other devices are free on each node."""
        room = self._fleet.owned, self._fleet.devices - self._fleet.owned
        found = {f"node-{index:03}": [*room] for index in range(self._fleet.nodes)}
        for body in self._observer.claims.by_name.values():
            for result in (allocation_of(body) or {}).get("devices", {}).get("results", ()):
                is_owned = int(result["device"].removeprefix("gpu-")) < self._fleet.owned
                found[result["pool"]][0 if is_owned else 1] -= 1
        return {name: (owned, others) for name, (owned, others) in found.items()}

    def held_by_nobody(self) -> Iterator[str]:
        """Yield the claims that are allocated, and reserved for no pod."""
        for name, body in self._observer.claims.by_name.items():
            if allocation_of(body) and not body["status"].get("reservedFor"):
                yield name
