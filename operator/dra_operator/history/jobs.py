"""Jobs: pods with their claims, and claims that no pod uses, as a record has them: when each came, and for how long.

A job comes when the last foreign gate of its pod goes, and lasts as recorded. Source: docs/history.md, "Replay".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Final

import orjson

from dra_operator.allocator.decision import Decider
from dra_operator.allocator.extended import classes_by_resource, extended_resources, special_claim
from dra_operator.api.convert import Body
from dra_operator.api.core import Metadata, Pod
from dra_operator.api.names import ENDED_PHASES, GATE, SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.text import seconds_of
from dra_operator.api.types import AllocationResult, DeviceClass, ResourceClaim
from dra_operator.history.reader import Span, StateRow
from dra_operator.history.schema import MICRO
from dra_operator.history.timeline import ChangedHistory, History
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import PodRequirements, PodUse, read_requirements
from dra_operator.questions.answers import find_unchecked
from dra_operator.questions.contents import gather_stored

NOBODY: Final = "(none)"
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

    @property
    def shared(self) -> Iterator[SharedClaim]:
        """Those of its claims that it shares."""
        return (each for each in self.claims if isinstance(each, SharedClaim))


@dataclass(slots=True, eq=False)
class Job:
    """A pod with its claims, or a claim.

    Times are in microseconds; `started` is when it did by the record, and a duration of None does not end. What it
    `held` at the beginning of the span on its recorded `node` it has from there on, a result for each claim of its own.
    """

    name: str
    namespace: str
    device_class: str
    shape: Shape
    arrival: int
    started: int | None
    duration: int | None
    priority: int = 0
    node: str = ""
    held: tuple[AllocationResult, ...] = ()
    is_old: bool = False
    """Whether it ran already when the span began."""


@dataclass(slots=True)
class Jobs:
    """All jobs of a span, by arrival; `counts` are of what is known of them that is not decided, by line."""

    items: list[Job] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, eq=False)
class Seen:
    """What the states of a pod or claim came to; `body` is the first, `status` the last; `over` is when it ended."""

    body: Body
    status: Body
    arrival: int | None = None
    started: int | None = None
    over: int | None = None
    gone: int | None = None
    node: str = ""
    allocation: Body | None = None

    @property
    def ended(self) -> int | None:
        """When it had devices no more; None: it still has."""
        return self.gone if self.over is None else self.over


class _ShapeIndex:
    """Makes shapes, equal ones once."""

    def __init__(self, templates: Mapping[tuple[str, str], Body], classes: Mapping[str, DeviceClass]) -> None:
        self._templates = templates
        self._classes = classes_by_resource(classes.values())
        self._known: dict[object, Shape] = {}
        self._pods: dict[bytes, tuple[PodRequirements, PodUse, Decider]] = {}
        self._uses = ClusterPods()

    def find(self, pod: Body | None, claims: Iterable[tuple[str, Body | SharedClaim]]) -> Shape:
        """Return the shape of a pod with claims, each with the name of its template, or of a claim alone."""
        asked: list[Body | SharedClaim] = []
        parts: list[object] = []
        for template, claim in claims:
            if isinstance(claim, SharedClaim):
                asked.append(claim)
                parts.append(claim)
                continue
            namespace = claim["metadata"]["namespace"]
            changed = self._templates.get((namespace, template))
            body = claim if changed is None else {**claim, "spec": changed["spec"]["spec"]}
            text = orjson.dumps(body["spec"], default=orjson.Fragment, option=orjson.OPT_SORT_KEYS)
            asked.append(body)
            # Who may ask for admin access is a matter of the namespace.
            parts.append((text, namespace if _ADMIN in text else "", is_special(claim)))
        asks, use, decider = (None, None, Decider.OPERATOR) if pod is None else self._read_pod(pod)
        has_special = any(not isinstance(each, SharedClaim) and is_special(each) for each in asked)
        extended = () if pod is None or has_special else self._read_extended(pod)
        key = tuple(parts), asks, use, decider, extended
        if key not in self._known:
            own = [each if isinstance(each, SharedClaim) else read_claim(each) for each in asked]
            self._known[key] = Shape((*own, *extended), asks, use, decider)
        return self._known[key]

    def _read_pod(self, body: Body) -> tuple[PodRequirements, PodUse, Decider]:
        spec = {
            name: each for name, each in body["spec"].items() if name not in ("nodeName", "resourceClaims")
        }
        text = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        if text not in self._pods:
            asked = {**body, "spec": spec}
            gates = {gate.get("name") for gate in spec.get("schedulingGates") or ()}
            decider = Decider.OPERATOR if GATE in gates else Decider.KUBE_SCHEDULER
            # Volumes are not recorded.
            requirements = replace(read_requirements(asked), volume_claims=())
            self._pods[text] = requirements, self._uses.read_use(asked), decider
        return self._pods[text]

    def _read_extended(self, body: Body) -> tuple[ResourceClaim, ...]:
        """Return the claim for extended resources of a pod for which none was made yet."""
        (record,) = gather_stored([body]).records.values()
        pod: Pod = record.obj
        found = special_claim(pod, self._classes, {}) if extended_resources(pod) else None
        return () if found is None else (found,)


def is_special(body: Body) -> bool:
    """Return whether a claim was made for extended resources of a pod."""
    return (body["metadata"].get("annotations") or {}).get(SPECIAL_CLAIM_ANNOTATION) == "true"


def read_claim(body: Body) -> ResourceClaim:
    """Return a claim as it was before it had devices."""
    (record,) = gather_stored([{**body, "status": {}}]).records.values()
    claim: ResourceClaim = record.obj
    metadata = claim.metadata
    kept = {key: each for key, each in metadata.annotations.items() if key == SPECIAL_CLAIM_ANNOTATION}
    return ResourceClaim(
        Metadata(name=metadata.name, namespace=metadata.namespace, annotations=kept), claim.spec
    )


def read_jobs(history: ChangedHistory, span: Span) -> Jobs:
    """Return the jobs of a span, of which templates may be others than recorded."""
    templates = {
        (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in history.changes.added
        if each["kind"] == "ResourceClaimTemplate"
    }
    classes = gather_stored(row.body for row in history.read_states(span, "DeviceClass")).of_kind(
        "DeviceClass"
    )
    by_name = {record.obj.metadata.name: record.obj for record in classes}
    shapes = _ShapeIndex(templates, by_name)
    return _Builder(span, read_seen(history, span), shapes, history.changes.removed).build()


def read_seen(history: History, span: Span) -> tuple[dict[str, Seen], dict[str, Seen]]:
    """Return what became of each pod and each claim, by uid."""
    pods: dict[str, Seen] = {}
    claims: dict[str, Seen] = {}
    for row in history.read_states(span, "Pod", "ResourceClaim"):
        table = pods if row.kind == "Pod" else claims
        status, since = row.body.get("status") or {}, row.since
        if (seen := table.get(row.uid)) is None:
            seen = table[row.uid] = Seen(row.body, status)
            created = seconds_of(row.body["metadata"].get("creationTimestamp"))
            since = round(created * MICRO) if row.found and created is not None else since
        seen.status, seen.gone = status, None if row.is_open or row.until >= span.until else row.until
        (_see_pod if row.kind == "Pod" else _see_claim)(seen, row, since)
    return pods, claims


def _see_pod(seen: Seen, row: StateRow, since: int) -> None:
    spec = row.body["spec"]
    if seen.arrival is None and not any(
        each.get("name") != GATE for each in spec.get("schedulingGates") or ()
    ):
        seen.arrival = since
    if seen.started is None and spec.get("nodeName"):
        seen.started, seen.node = row.since, spec["nodeName"]
    if seen.over is None and seen.status.get("phase") in ENDED_PHASES:
        seen.over = row.since


def _see_claim(seen: Seen, row: StateRow, since: int) -> None:
    seen.arrival = since if seen.arrival is None else seen.arrival
    allocation = seen.status.get("allocation")
    if allocation and seen.started is None:
        seen.started, seen.allocation = row.since, allocation
    elif seen.started is not None and seen.over is None and not allocation:
        seen.over = row.since


def index_claims(claims: Iterable[Seen]) -> Mapping[tuple[str, str], Seen]:
    """Return claims by namespace and name; of several that were there one after the other, the last one."""
    found = {}
    for each in claims:
        found[each.body["metadata"]["namespace"], each.body["metadata"]["name"]] = each
    return found


def find_claims(pod: Seen, claims: Mapping[tuple[str, str], Seen]) -> list[tuple[str, Seen]]:
    """Return the claims of a pod in the order of its entries, each once, with the template of which it was made."""
    namespace, made = pod.body["metadata"]["namespace"], pod.status.get("resourceClaimStatuses") or ()
    names = {each["name"]: each.get("resourceClaimName") for each in made}
    entries = pod.body["spec"].get("resourceClaims") or ()
    found = {
        each.get("resourceClaimName") or names.get(each["name"]): each.get("resourceClaimTemplateName", "")
        for each in entries
    }
    if extended := pod.status.get("extendedResourceClaimStatus"):
        found[extended["resourceClaimName"]] = ""
    return [
        (template, claims[namespace, name])
        for name, template in found.items()
        if name and (namespace, name) in claims
    ]


class _Builder:
    """Makes jobs of what was seen."""

    def __init__(
        self,
        span: Span,
        seen: tuple[dict[str, Seen], dict[str, Seen]],
        shapes: _ShapeIndex,
        removed: frozenset[tuple[str, str]],
    ) -> None:
        self._span = span
        self._pods, self._claims = seen
        self._shapes = shapes
        self._removed = removed
        self._by_name = index_claims(self._claims.values())
        self._users: Counter[int] = Counter()
        """How many pods name a claim, by its id here."""
        self._shared: dict[int, SharedClaim] = {}
        self._medians: dict[object, list[int]] = defaultdict(list)
        self._owners: dict[Job, tuple[object, ...]] = {}

    def build(self) -> Jobs:
        """Return the jobs, those that never ran with a median."""
        jobs = Jobs()
        named = [(each, find_claims(each, self._by_name)) for each in self._pods.values()]
        self._users.update(id(claim) for _, found in named for _, claim in found)
        used = set(self._users)
        for seen, found in named:
            self._add(jobs, seen, found)
        for seen in self._claims.values():
            if id(seen) not in used:
                self._add(jobs, seen, [("", seen)])
        self._fill(jobs)
        jobs.items.sort(key=lambda job: (job.arrival, job.namespace, job.name))
        return jobs

    def _add(self, jobs: Jobs, seen: Seen, claims: list[tuple[str, Seen]]) -> None:
        metadata, is_pod = seen.body["metadata"], seen.body["kind"] == "Pod"
        if seen.arrival is None or (seen.ended or self._span.until) <= self._span.since:
            jobs.counts["waited for a gate of somebody else all the while"] += seen.arrival is None
            return
        if ("Namespace", metadata["namespace"]) in self._removed or (
            seen.body["kind"],
            metadata["name"],
        ) in self._removed:
            return
        if is_pod:
            entries = seen.body["spec"].get("resourceClaims") or ()
            if len(claims) < len(entries):
                jobs.counts["had no claim made, and are left out"] += 1
                return
            jobs.counts.update(_find_left_out(seen.body))
        own = [each for _, each in claims if self._users[id(each)] <= 1]
        asked = [
            (name, each.body if self._users[id(each)] <= 1 else self._share(each)) for name, each in claims
        ]
        shape = self._shapes.find(seen.body if is_pod else None, asked)
        job = Job(
            metadata["name"],
            metadata["namespace"],
            class_of_claim(claims[0][1].body) if claims else NOBODY,
            shape,
            max(seen.arrival, self._span.since),
            seen.started,
            None
            if seen.started is None or seen.ended is None
            else max(seen.ended - max(seen.started, self._span.since), 1),
            seen.body["spec"].get("priority") or 0 if is_pod else 0,
            seen.node,
        )
        if seen.started is not None and seen.started <= self._span.since:
            job.arrival, job.is_old = self._span.since, True
            job.held = tuple(map(read_allocation, own))
        self._owners[job] = (metadata["namespace"], *_owner_of(metadata), is_pod)
        jobs.items.append(job)

    def _share(self, seen: Seen) -> SharedClaim:
        if id(seen) not in self._shared:
            self._shared[id(seen)] = SharedClaim(read_claim(seen.body))
        return self._shared[id(seen)]

    def _fill(self, jobs: Jobs) -> None:
        """Let what never ran last as long as the median of its owner, else of its namespace and class, else of all."""
        durations: dict[object, list[int]] = defaultdict(list)
        for job in jobs.items:
            if job.duration is not None:
                for key in (self._owners[job], (job.namespace, job.device_class), None):
                    durations[key].append(job.duration)
        for job in jobs.items:
            if job.started is None:
                keys = self._owners[job], (job.namespace, job.device_class), None
                known = next((durations[key] for key in keys if key in durations), None)
                job.duration = None if known is None else median_low(known)
                jobs.counts[
                    "never ran, and last as long as the median of their owner, or namespace and class"
                ] += 1


def _owner_of(metadata: Body) -> tuple[str, str]:
    owners = metadata.get("ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller")), None)
    return ("", metadata["name"]) if owner is None else (owner["kind"], owner["name"])


def read_allocation(seen: Seen) -> AllocationResult:
    """Return what a claim got."""
    body = {**seen.body, "status": {"allocation": seen.allocation or {}}}
    (record,) = gather_stored([body]).records.values()
    found: AllocationResult = record.obj.status.allocation
    return found


def _find_left_out(body: Body) -> Iterator[str]:
    """Yield what of a pod is not simulated."""
    yield from find_unchecked([body])
    if body["spec"].get("schedulingGroup"):
        yield "are of a group, and start one by one"


def class_of_claim(body: Body) -> str:
    """Return the class of the first request of a claim."""
    for request in body["spec"].get("devices", {}).get("requests", ()):
        for each in (request.get("exactly"), request, *(request.get("firstAvailable") or ())):
            if each and each.get("deviceClassName"):
                return str(each["deviceClassName"])
    return NOBODY
