"""Holders: which claims and pods held devices in a span of a record, one after the other. Source: docs/history.md."""

from dataclasses import dataclass, replace

from dra_operator.api.types import ResourceClaim
from dra_operator.history.reader import Reader, Span, time_text
from dra_operator.history.schema import MICRO
from dra_operator.questions.claims import is_pod, node_of_claim, results_of
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.device_table import HolderQuery


@dataclass(frozen=True, slots=True)
class PastHolder:
    """A claim held a device; `until` is empty if it still does, or did when the record ended.

    `was_there`: it was held already when the record, or the end of a gap, found it; `since` is when it was allocated if
    the claim says so. `pods` are those that it was reserved for meanwhile.
    """

    namespace: str
    name: str
    device: str
    node: str
    pods: tuple[str, ...]
    since: str
    until: str
    seconds: int
    was_there: bool


@dataclass(frozen=True, slots=True)
class PastGap:
    """When nothing was recorded."""

    since: str
    until: str


@dataclass(frozen=True, slots=True)
class PastHolders:
    """Who held devices in a span, by device and time, and the gaps in which that is not known."""

    since: str
    until: str
    items: tuple[PastHolder, ...]
    gaps: tuple[PastGap, ...] = ()


@dataclass(slots=True)
class _Hold:
    """A device of a claim from one time to another; None: still."""

    claim: ResourceClaim
    node: str
    since: int
    until: int
    is_open: bool
    found: bool
    pods: dict[str, None]


def find_past_holders(reader: Reader, span: Span, query: HolderQuery) -> PastHolders:
    """Return who held the devices of a query in a span; of the query driver, pool, device, node and namespace count."""
    holds: dict[tuple[str, str], list[_Hold]] = {}
    ends = {gap.until: gap.since for gap in reader.gaps}
    for row in reader.read_states(span, "ResourceClaim"):
        (record,) = gather_stored([row.body]).records.values()
        claim: ResourceClaim = record.obj
        node, pods = node_of_claim(claim), [each.name for each in claim.status.reserved_for if is_pod(each)]
        if query.namespace not in ("", row.namespace):
            continue
        for result in results_of(claim):
            if result.admin_access or not query.is_about(result.driver, result.pool, result.device, node):
                continue
            device = f"{result.driver}/{result.pool}/{result.device}"
            before = holds.setdefault((device, row.uid), [])
            last = before[-1] if before else None
            # With the same allocation it has held it over the gap.
            is_same = last is not None and last.claim.status.allocation == claim.status.allocation
            if last is not None and (
                last.until == row.since or (is_same and last.until == ends.get(row.since))
            ):
                last.until, last.is_open = row.until, row.is_open
                last.pods.update(dict.fromkeys(pods))
            else:
                hold = _Hold(claim, node, row.since, row.until, row.is_open, row.found, dict.fromkeys(pods))
                before.append(hold)
    items = [_item(device, hold) for (device, _), found in holds.items() for hold in found]
    items.sort(key=lambda item: (item.device, item.since, item.namespace, item.name))
    gaps = [
        PastGap(*map(time_text, gap))
        for gap in reader.gaps
        if gap.since < span.until and gap.until > span.since
    ]
    return PastHolders(time_text(span.since), time_text(span.until), tuple(items), tuple(gaps))


def _item(device: str, hold: _Hold) -> PastHolder:
    metadata, allocation = hold.claim.metadata, hold.claim.status.allocation
    item = PastHolder(
        metadata.namespace,
        metadata.name,
        device,
        hold.node,
        tuple(hold.pods),
        time_text(hold.since),
        "" if hold.is_open else time_text(hold.until),
        (hold.until - hold.since) // MICRO,
        hold.found,
    )
    told = allocation.allocation_timestamp if allocation is not None and hold.found else None
    return replace(item, since=told) if told else item
