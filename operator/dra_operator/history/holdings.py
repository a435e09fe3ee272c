"""Holdings: which claim had which device from when until when, and when a pod of it ran, out of a record.

Only what a claim held and when pods ran is read, each body once. Source: docs/history.md.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from dra_operator.api.convert import Body
from dra_operator.api.names import GROUP, RESERVATION_RESOURCE
from dra_operator.api.quantity import parse_quantity
from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import HOLDS
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
    """What a claim had of a pool: devices, or a share of one, of which `consumed` are the amounts, in nano-units."""

    since: int
    until: int
    claim: HoldingClaim
    devices: Sequence[str]
    device_class: str
    is_share: bool
    consumed: Mapping[str, int]


def find_idle(claims: Sequence[HoldingClaim], since: int, until: int) -> int:
    """Return for how long, within a span, no pod of any of some claims ran."""
    found, end = until - since, since
    runs = claims[0].runs if len(claims) == 1 else sorted([run for claim in claims for run in claim.runs])
    for begin, last in runs:
        if last > end and begin < until:
            stop = min(last, until)
            found -= stop - max(begin, end)
            end = stop
    return found


def read_holdings(reader: Reader, span: Span) -> dict[PoolKey, list[Holding]]:
    """Return what claims held in a span, by pool, in the order of their beginning. Raises StoreError."""
    runs = _PodRuns(reader, span)
    found: dict[PoolKey, list[Holding]] = defaultdict(list)
    claim, before, results, held = HoldingClaim("", "", ""), 0, list[Body](), list[Holding]()
    for row in reader.read_states(span, "ResourceClaim", flags=HOLDS, by_object=True):
        since, until = max(row.since, span.since), min(row.until, span.until)
        if since >= until:
            continue
        stored, last = row.stored, results
        status = stored["status"]
        results = status["allocation"].get("devices", {}).get("results") or []
        if row.uid != claim.uid:
            owners = stored["metadata"].get("ownerReferences") or ()
            pods = [each["uid"] for each in owners if each.get("kind") == "Pod"]
            claim, before = HoldingClaim(row.namespace, row.name, row.uid, *pods[:1]), 0
        if before == row.since and results == last:
            # Something else of it has changed.
            for holding in held:
                holding.until = until
        else:
            by_pool = _make_holdings(since, until, claim, _classes_of(row.content), results)
            held = [holding for _, holding in by_pool]
            for pool, holding in by_pool:
                found[pool].append(holding)
        before = row.until
        runs.add(claim, status.get("reservedFor") or (), since, until)
    for holdings in found.values():
        holdings.sort(key=lambda holding: holding.since)
    return found


def _make_holdings(
    since: int, until: int, claim: HoldingClaim, classes: Mapping[str, str], results: Iterable[Body]
) -> list[tuple[PoolKey, Holding]]:
    """Return what results give a claim, by pool: shares one by one, other devices of a class together."""
    found = list[tuple[PoolKey, Holding]]()
    whole: dict[tuple[PoolKey, str], list[str]] = {}
    for each in results:
        if each.get("adminAccess"):
            continue
        key = pool, device_class = (each["driver"], each["pool"]), classes.get(each["request"], "")
        device = each["device"]
        if each.get("shareID"):
            amounts = _read_amounts(each.get("consumedCapacity") or {})
            found.append((pool, Holding(since, until, claim, [device], device_class, True, amounts)))
        elif key in whole:
            whole[key].append(device)
        else:
            whole[key] = [device]
            found.append((pool, Holding(since, until, claim, whole[key], device_class, False, {})))
    return found


def _read_amounts(consumed: Body) -> dict[str, int]:
    return {name: parse_quantity(str(each)).nano for name, each in consumed.items()}


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
        for uid, namespace, since, until, content in reader.read_runs(span):
            run = Span(since, until)
            self._of_pod[uid].append(run)
            if group := ((content.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName"):
                self._of_group[namespace, group].append(run)

    def add(self, claim: HoldingClaim, entries: Iterable[Body], since: int, until: int) -> None:
        """Add when the consumers ran that a claim is reserved for in a span."""
        for entry in entries:
            for run in self._find(claim, entry, since, until):
                begin, end = max(run.since, since), min(run.until, until)
                if begin < end:
                    _add_run(claim.runs, begin, end)

    def _find(self, claim: HoldingClaim, entry: Body, since: int, until: int) -> Iterable[Span]:
        group, resource = entry.get("apiGroup") or "", entry.get("resource")
        if (group, resource) == ("", "pods"):
            claim.pod = entry["uid"]
            return self._of_pod.get(entry["uid"], ())
        if (group, resource) == (_POD_GROUPS, "podgroups"):
            return self._of_group.get((claim.namespace, entry["name"]), ())
        # Of other consumers nobody knows whether they do anything; a reservation waits for pods.
        return () if (group, resource) == (GROUP, RESERVATION_RESOURCE) else (Span(since, until),)


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


class _Lasting(Protocol):
    @property
    def since(self) -> int: ...

    @property
    def until(self) -> int: ...


_Item = TypeVar("_Item", bound=_Lasting)


def intervals(items: Iterable[_Item], since: int, until: int) -> Iterator[tuple[int, int, list[_Item]]]:
    """Yield the parts of a span in which the same things are there, with these."""
    edges = [(max(each.since, since), True, each) for each in items]
    edges += [(each.until, False, each) for _, _, each in edges if each.until < until]
    edges.sort(key=lambda edge: edge[:2])
    here: dict[_Item, None] = {}
    for at, begins, item in edges:
        if at > since:
            yield since, at, list(here)
            since = at
        if begins:
            here[item] = None
        else:
            here.pop(item, None)
    if until > since:
        yield since, until, list(here)
