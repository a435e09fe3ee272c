"""Jobs: pods with their claims, and claims that no pod uses, as a record has them: when each came, and for how long.

A job comes when the last foreign gate of its pod goes, and lasts as recorded. Source: docs/history.md, "Replay".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Final

import orjson

from dra_operator.allocator.decision import Decider
from dra_operator.allocator.extended import classes_by_resource, extended_resources, special_claim
from dra_operator.api.convert import Body
from dra_operator.api.core import Metadata
from dra_operator.api.names import ENDED_PHASES, GATE, SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.text import seconds_of
from dra_operator.api.types import AllocationResult, DeviceClass, ResourceClaim
from dra_operator.history.holdings import first_class
from dra_operator.history.reader import Span, StateRow
from dra_operator.history.report import NOBODY
from dra_operator.history.schema import MICRO
from dra_operator.history.timeline import ChangedHistory, History, read_object
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import PodRequirements, PodUse, read_requirements
from dra_operator.questions.answers import find_unchecked

_OF_CLAIMS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus")
_ADMIN: Final = b'"adminAccess":true'


@dataclass(frozen=True, slots=True, eq=False)
class SharedClaim:
    """A claim that several pods name: it has devices while one of them runs."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What jobs ask for that get the same answer: claims, their own and shared ones, and what of a node.

    Without requirements it is a claim that no pod uses.
    """

    claims: tuple[ResourceClaim | SharedClaim, ...]
    requirements: PodRequirements | None = None
    use: PodUse | None = None
    decider: Decider = Decider.OPERATOR
    shared: tuple[SharedClaim, ...] = ()
    """Those of its claims that others name, too."""


@dataclass(slots=True, eq=False)
class Job:
    """A pod with its claims, or a claim.

    Times are in microseconds; `started` is when it did by the record, and a duration of None does not end. If it ran
    already when the span began, it is old: what it `held` on its `node` it has from there on, a result for each claim.
    """

    name: str
    namespace: str
    device_class: str
    shape: Shape
    arrival: int
    started: int | None
    duration: int | None
    priority: int
    node: str
    held: tuple[AllocationResult, ...]
    is_old: bool


@dataclass(slots=True)
class Jobs:
    """All jobs of a span, by arrival; `counts` are of what is known of them that is not decided, by line."""

    items: list[Job] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


# --- lifetimes


@dataclass(slots=True, eq=False)
class Lifetime:
    """What the states of a pod or claim came to: `body` is the first without its status, as a month has many.

    `status` is what the last one says of the claims of a pod.

    It started with a node, or devices, and `ended` when it had these no more; None: it still has. `claims` are those of
    a pod in the order of its entries, each with the template of which it was made; a claim that none names has itself.
    """

    body: Body
    status: Body = field(default_factory=dict)
    arrival: int | None = None
    started: int | None = None
    ended: int | None = None
    is_over: bool = False
    node: str = ""
    allocation: Body | None = None
    claims: list[tuple[str, "Lifetime"]] = field(default_factory=list)
    users: int = 0
    """How many pods name a claim."""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod."""
        return bool(self.body["kind"] == "Pod")

    @property
    def decider(self) -> Decider:
        """Who decides for it: kube-scheduler for a pod without the gate of the operator."""
        gates = {gate.get("name") for gate in self.body["spec"].get("schedulingGates") or ()}
        return Decider.KUBE_SCHEDULER if self.is_pod and GATE not in gates else Decider.OPERATOR


def read_lifetimes(history: History, span: Span) -> list[Lifetime]:
    """Return what became of each pod, with its claims, and of each claim that no pod names."""
    tables: dict[str, dict[str, Lifetime]] = {"Pod": {}, "ResourceClaim": {}}
    for row in history.read_states(span, *tables):
        table, since = tables[row.kind], row.since
        if (seen := table.get(row.uid)) is None:
            body = {name: each for name, each in row.body.items() if name != "status"}
            seen = table[row.uid] = Lifetime(body)
            created = seconds_of(row.body["metadata"].get("creationTimestamp"))
            since = round(created * MICRO) if row.found and created is not None else since
        _add(seen, row, since, None if row.until >= span.until else row.until)
    pods, claims = tables["Pod"].values(), tables["ResourceClaim"].values()
    # Of several of one name, which were there one after the other, the last one.
    by_name = {(each.body["metadata"]["namespace"], each.body["metadata"]["name"]): each for each in claims}
    for pod in pods:
        pod.claims = _find_claims(pod, by_name)
        for _, claim in pod.claims:
            claim.users += 1
    alone = [claim for claim in claims if not claim.users]
    for claim in alone:
        claim.claims = [("", claim)]
    return [*pods, *alone]


def _add(seen: Lifetime, row: StateRow, since: int, until: int | None) -> None:
    """Add a state of a pod or claim."""
    spec, status = row.body["spec"], row.body.get("status") or {}
    seen.status = {name: status[name] for name in _OF_CLAIMS if name in status}
    if seen.is_over:
        return
    allocation, gates = status.get("allocation"), spec.get("schedulingGates") or ()
    if seen.arrival is None and all(each.get("name") == GATE for each in gates):
        seen.arrival = since
    if seen.started is None and (spec.get("nodeName") or allocation):
        seen.started, seen.node, seen.allocation = row.since, spec.get("nodeName") or "", allocation
    is_returned = row.kind == "ResourceClaim" and seen.started is not None and not allocation
    seen.is_over = is_returned or status.get("phase") in ENDED_PHASES
    seen.ended = row.since if seen.is_over else until


def _find_claims(pod: Lifetime, claims: Mapping[tuple[str, str], Lifetime]) -> list[tuple[str, Lifetime]]:
    """Return the claims of a pod in the order of its entries, each once, with the template of which it was made."""
    namespace, made = pod.body["metadata"]["namespace"], pod.status.get("resourceClaimStatuses") or ()
    names = {each["name"]: each.get("resourceClaimName") for each in made}
    found = {
        each.get("resourceClaimName") or names.get(each["name"]): each.get("resourceClaimTemplateName", "")
        for each in pod.body["spec"].get("resourceClaims") or ()
    }
    if extended := pod.status.get("extendedResourceClaimStatus"):
        found[extended["resourceClaimName"]] = ""
    return [
        (template, claims[namespace, name])
        for name, template in found.items()
        if name and (namespace, name) in claims
    ]


def read_allocation(seen: Lifetime) -> AllocationResult:
    """Return what a claim got."""
    claim = read_object({**seen.body, "status": {"allocation": seen.allocation or {}}})
    found: AllocationResult = claim.status.allocation
    return found


def read_claim(body: Body) -> ResourceClaim:
    """Return a claim as it was before it had devices."""
    claim: ResourceClaim = read_object({**body, "status": {}})
    metadata = claim.metadata
    kept = {key: each for key, each in metadata.annotations.items() if key == SPECIAL_CLAIM_ANNOTATION}
    return ResourceClaim(
        Metadata(name=metadata.name, namespace=metadata.namespace, annotations=kept), claim.spec
    )


# --- jobs


def read_jobs(history: ChangedHistory, span: Span) -> Jobs:
    """Return the jobs of a span, of which templates may be others than recorded."""
    jobs, removed = Jobs(), history.changes.removed
    classes = [read_object(row.body) for row in history.read_states(span, "DeviceClass")]
    shapes = Shapes(history.changes.added, {each.metadata.name: each for each in classes}.values())
    durations: dict[object, list[int]] = defaultdict(list)
    unknown: list[tuple[Job, Sequence[object]]] = []
    for seen in read_lifetimes(history, span):
        metadata = seen.body["metadata"]
        is_removed = ("Namespace", metadata["namespace"]) in removed
        if is_removed or not _has_come(seen, span, jobs.counts):
            continue
        job = _build_job(seen, span, shapes)
        jobs.items.append(job)
        # A job that never ran lasts as long as the median of its owner, else of its namespace and class, else of all.
        keys: Sequence[object] = (
            (metadata["namespace"], *_owner_of(metadata), seen.is_pod),
            (job.namespace, job.device_class),
            None,
        )
        if job.started is None:
            unknown.append((job, keys))
        elif job.duration is not None:
            for key in keys:
                durations[key].append(job.duration)
    for job, keys in unknown:
        known = next((durations[key] for key in keys if key in durations), None)
        job.duration = None if known is None else median_low(known)
    jobs.counts["never ran, and last as long as the median of their owner, or namespace and class"] = len(
        unknown
    )
    jobs.items.sort(key=lambda job: (job.arrival, job.namespace, job.name))
    return jobs


def _has_come(seen: Lifetime, span: Span, counts: Counter[str]) -> bool:
    """Return whether a pod or claim is a job of a span, and count what is not simulated."""
    if seen.arrival is None:
        counts["waited for a gate of somebody else all the while"] += 1
        return False
    if seen.ended is not None and seen.ended <= span.since:
        return False
    if len(seen.claims) < len(seen.body["spec"].get("resourceClaims") or ()):
        counts["had no claim made, and are left out"] += 1
        return False
    counts.update(find_unchecked([seen.body]))
    counts["are of a group, and start one by one"] += bool(seen.body["spec"].get("schedulingGroup"))
    return True


def _build_job(seen: Lifetime, span: Span, shapes: "Shapes") -> Job:
    metadata, started, duration = seen.body["metadata"], seen.started, None
    is_old = started is not None and started <= span.since
    if started is not None and seen.ended is not None:
        duration = max(seen.ended - max(started, span.since), 1)
    own = [claim for _, claim in seen.claims if claim.users <= 1] if is_old else []
    return Job(
        metadata["name"],
        metadata["namespace"],
        (first_class(seen.claims[0][1].body) if seen.claims else "") or NOBODY,
        shapes.find(seen),
        span.since if is_old else max(seen.arrival or 0, span.since),
        started,
        duration,
        seen.body["spec"].get("priority") or 0,
        seen.node,
        tuple(map(read_allocation, own)),
        is_old,
    )


def _owner_of(metadata: Body) -> tuple[str, str]:
    owners = metadata.get("ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller")), None)
    return ("", metadata["name"]) if owner is None else (owner["kind"], owner["name"])


_Asks = tuple[PodRequirements, PodUse, Decider, ResourceClaim | None]


class Shapes:
    """Makes shapes, equal ones once; templates that were added take the place of those of their name."""

    def __init__(self, added: Iterable[Body], classes: Iterable[DeviceClass]) -> None:
        self._templates = {
            (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["spec"]["spec"]
            for each in added
            if each["kind"] == "ResourceClaimTemplate"
        }
        self._classes = classes_by_resource(classes)
        self._claims: dict[object, ResourceClaim] = {}
        self._shared: dict[Lifetime, SharedClaim] = {}
        self._pods: dict[bytes, _Asks] = {}
        self._known: dict[object, Shape] = {}
        self._uses = ClusterPods()

    def find(self, seen: Lifetime) -> Shape:
        """Return the shape of a pod with its claims, or of a claim alone."""
        claims = [self._find_claim(template, claim) for template, claim in seen.claims]
        asks = self._read_pod(seen) if seen.is_pod else None
        # Equal claims are one object.
        key = tuple(map(id, claims)), asks
        if key not in self._known:
            self._known[key] = Shape(tuple(claims)) if asks is None else _build_shape(claims, asks)
        return self._known[key]

    def _find_claim(self, template: str, seen: Lifetime) -> ResourceClaim | SharedClaim:
        if seen.users > 1:
            if seen not in self._shared:
                self._shared[seen] = SharedClaim(read_claim(seen.body))
            return self._shared[seen]
        metadata = seen.body["metadata"]
        spec = self._templates.get((metadata["namespace"], template), seen.body["spec"])
        text = orjson.dumps(spec, default=orjson.Fragment, option=orjson.OPT_SORT_KEYS)
        # Who may ask for admin access is a matter of the namespace.
        namespace = metadata["namespace"] if _ADMIN in text else ""
        key = text, namespace, SPECIAL_CLAIM_ANNOTATION in (metadata.get("annotations") or {})
        if key not in self._claims:
            self._claims[key] = read_claim({**seen.body, "spec": spec})
        return self._claims[key]

    def _read_pod(self, seen: Lifetime) -> _Asks:
        """Return what a pod asks of a node, and the claim for extended resources that it would need."""
        left_out = ("nodeName", "resourceClaims")
        spec = {name: each for name, each in seen.body["spec"].items() if name not in left_out}
        text = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        if text not in self._pods:
            body = {**seen.body, "spec": spec}
            # Volumes are not recorded.
            requirements = replace(read_requirements(body), volume_claims=())
            pod = read_object(body)
            extended = special_claim(pod, self._classes, {}) if extended_resources(pod) else None
            self._pods[text] = requirements, self._uses.read_use(body), seen.decider, extended
        return self._pods[text]


def _build_shape(claims: list[ResourceClaim | SharedClaim], asks: _Asks) -> Shape:
    requirements, use, decider, extended = asks
    is_made = any(
        isinstance(each, ResourceClaim) and SPECIAL_CLAIM_ANNOTATION in each.metadata.annotations
        for each in claims
    )
    made = [] if extended is None or is_made else [extended]
    shared = tuple(each for each in claims if isinstance(each, SharedClaim))
    return Shape((*claims, *made), requirements, use, decider, shared)
