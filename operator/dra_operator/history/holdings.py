"""Holdings: which claim had which device from when until when, and when a pod of it ran, out of a record.

Only what a claim held and when pods ran is read, each body once. Source: docs/history.md.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dra_operator.api.convert import Body
from dra_operator.api.names import GROUP, RESERVATION_RESOURCE
from dra_operator.api.quantity import parse_quantity
from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import HOLDS, OBJECT, RUNS, STATE, unpack
from dra_operator.inventory import PoolKey

_POD_GROUPS: Final = "scheduling.k8s.io"


@dataclass(slots=True, eq=False)
class HoldingClaim:
    """A claim with devices; `runs` are the spans in which a pod ran that it was reserved for, apart and in order.

    `pod` is the uid of the last pod that it was reserved for, or that owns it.
    """

    namespace: str
    name: str
    uid: str
    pod: str = ""
    runs: list[Span] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Holding:
    """A device that a claim had; of a share `consumed` are the amounts, in nano-units."""

    since: int
    until: int
    claim: HoldingClaim
    device: str
    device_class: str
    is_share: bool
    consumed: Mapping[str, int]


def find_idle(claims: Iterable[HoldingClaim], since: int, until: int) -> int:
    """Return for how long, within a span, no pod of any of some claims ran."""
    found, end = until - since, since
    runs = [run for claim in claims for run in claim.runs if run[0] < until and run[1] > since]
    for run in sorted(runs) if len(runs) > 1 else runs:
        begin, last = max(run[0], end), min(run[1], until)
        if last > begin:
            found -= last - begin
            end = last
    return found


_NO_AMOUNTS: Final[Mapping[str, int]] = {}


def read_holdings(reader: Reader, span: Span) -> dict[PoolKey, dict[str, list[Holding]]]:
    """Return what claims held in a span, by pool and device, in the order of their beginning. Raises StoreError."""
    runs, contents = _PodRuns(reader, span), reader.read_contents(span, "ResourceClaim")
    known: dict[int, Mapping[str, str]] = {}
    found: dict[PoolKey, dict[str, list[Holding]]] = defaultdict(lambda: defaultdict(list))
    columns = STATE.c.object, STATE.c.since, STATE.c.until, STATE.c.content, STATE.c.own
    names = OBJECT.c.namespace, OBJECT.c.name, OBJECT.c.uid
    query = reader.select(STATE, span, *columns, *names).where(OBJECT.c.kind == "ResourceClaim")
    query = query.where(STATE.c.flags.bitwise_and(HOLDS) != 0).order_by(STATE.c.object, STATE.c.since)
    before: tuple[int, int | None, Any] = (0, 0, None)
    claim, held = HoldingClaim("", "", ""), list[Holding]()
    for number, since, until, content, own, namespace, name, uid in reader.rows(query):
        body, end = unpack(own), reader.span.until if until is None else until
        status = body["status"]
        results = status["allocation"].get("devices", {}).get("results") or ()
        if number != before[0]:
            owners = body["metadata"].get("ownerReferences") or ()
            pod = next((each["uid"] for each in owners if each.get("kind") == "Pod"), "")
            claim = HoldingClaim(namespace, name, uid, pod)
        begin, end = max(since, span.since), min(end, span.until)
        if begin >= end:
            continue
        if (number, since, results) == before:
            # Something else of it has changed.
            for each in held:
                each.until = end
        else:
            if (classes := known.get(content)) is None:
                classes = known[content] = _classes_of(contents[content])
            held = []
            for result in results:
                if result.get("adminAccess"):
                    continue
                holding = _build_holding(result, claim, begin, end, classes)
                held.append(holding)
                found[result["driver"], result["pool"]][holding.device].append(holding)
        runs.add(claim, status.get("reservedFor") or (), Span(begin, end))
        before = number, until, results
    for devices in found.values():
        for holdings in devices.values():
            holdings.sort(key=lambda each: each.since)
    return found


def _build_holding(
    result: Body, claim: HoldingClaim, since: int, until: int, classes: Mapping[str, str]
) -> Holding:
    share, consumed = result.get("shareID"), result.get("consumedCapacity")
    amounts = {name: parse_quantity(str(each)).nano for name, each in consumed.items()} if consumed else None
    device_class = classes.get(result["request"], "")
    return Holding(since, until, claim, result["device"], device_class, bool(share), amounts or _NO_AMOUNTS)


def _classes_of(content: Body) -> dict[str, str]:
    """Return the class of each request of a claim, and of each alternative as `request/alternative`."""
    found = {}
    for request in content["spec"].get("devices", {}).get("requests") or ():
        exactly, alternatives = request.get("exactly") or request, request.get("firstAvailable") or ()
        found[request["name"]] = exactly.get("deviceClassName", "")
        for each in alternatives:
            found[f"{request['name']}/{each['name']}"] = each.get("deviceClassName", "")
    return found


def first_class(content: Body) -> str:
    """Return the first class that a claim names, or nothing."""
    return next((each for each in _classes_of(content).values() if each), "")


class _PodRuns:
    """When pods ran, by their uid, and members of groups, by namespace and name of the group."""

    def __init__(self, reader: Reader, span: Span) -> None:
        self._of_pod: dict[str, list[Span]] = defaultdict(list)
        self._of_group: dict[tuple[str, str], list[Span]] = defaultdict(list)
        columns = STATE.c.since, STATE.c.until, STATE.c.content, OBJECT.c.uid, OBJECT.c.namespace
        query = reader.select(STATE, span, *columns).where(OBJECT.c.kind == "Pod")
        query = query.where(STATE.c.flags.bitwise_and(RUNS) != 0).order_by(STATE.c.since)
        groups = {
            number: ((content.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
            for number, content in reader.read_contents(span, "Pod").items()
        }
        for since, until, content, uid, namespace in reader.rows(query):
            run = Span(since, reader.span.until if until is None else until)
            self._of_pod[uid].append(run)
            if (group := groups[content]) is not None:
                self._of_group[namespace, group].append(run)

    def add(self, claim: HoldingClaim, entries: Iterable[Body], span: Span) -> None:
        """Add when the consumers ran that a claim is reserved for in a span."""
        for entry in entries:
            for run in self._find(claim, entry, span):
                begin, end = max(run.since, span.since), min(run.until, span.until)
                if begin < end:
                    _add_run(claim.runs, begin, end)

    def _find(self, claim: HoldingClaim, entry: Body, span: Span) -> Iterable[Span]:
        group, resource = entry.get("apiGroup") or "", entry.get("resource")
        if (group, resource) == ("", "pods"):
            claim.pod = entry["uid"]
            return self._of_pod.get(entry["uid"], ())
        if (group, resource) == (_POD_GROUPS, "podgroups"):
            return self._of_group.get((claim.namespace, entry["name"]), ())
        # Of other consumers nobody knows whether they do anything; a reservation waits for pods.
        return () if (group, resource) == (GROUP, RESERVATION_RESOURCE) else (span,)


def _add_run(runs: list[Span], since: int, until: int) -> None:
    """Add a span to some, which stay apart and in order."""
    if not runs or since > runs[-1].until:
        runs.append(Span(since, until))
        return
    at = bisect_left(runs, since, key=lambda run: run.until)
    while at < len(runs) and runs[at].since <= until:
        run = runs.pop(at)
        since, until = min(since, run.since), max(until, run.until)
    runs.insert(at, Span(since, until))


def intervals(
    holdings: Iterable[Holding], since: int, until: int
) -> Iterator[tuple[int, int, list[Holding]]]:
    """Yield the parts of a span in which the same holdings are there, with these."""
    edges = [(max(each.since, since), True, each) for each in holdings]
    edges += [(each.until, False, each) for _, _, each in edges if each.until < until]
    edges.sort(key=lambda edge: edge[:2])
    here: dict[Holding, None] = {}
    for at, begins, holding in edges:
        if at > since:
            yield since, at, [*here]
            since = at
        if begins:
            here[holding] = None
        else:
            here.pop(holding, None)
    if until > since:
        yield since, until, [*here]
