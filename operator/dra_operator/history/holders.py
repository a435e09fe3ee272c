"""Holders: which claims and pods held devices in a span of a record, one after the other. Source: docs/history.md."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.api.text import seconds_of
from dra_operator.api.types import ResourceClaim
from dra_operator.history.reader import Reader, Span, StateRow, time_text
from dra_operator.history.schema import HOLDS, MICRO
from dra_operator.questions.claims import device_path, is_pod, node_of_claim, results_of
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


_State = tuple[StateRow, ResourceClaim]


def find_past_holders(reader: Reader, span: Span, query: HolderQuery) -> PastHolders:
    """Return who held the devices of a query in a span; of the query driver, pool, device, node and namespace count."""
    found: dict[tuple[str, str], list[list[_State]]] = defaultdict(list)
    """By device and claim, each time that it had it, with its states then."""
    ends = {gap.until: gap.since for gap in reader.gaps}
    for row in reader.read_states(span, "ResourceClaim", flags=HOLDS):
        if query.namespace not in ("", row.namespace):
            continue
        (record,) = gather_stored([row.body]).records.values()
        claim: ResourceClaim = record.obj
        node = node_of_claim(claim)
        results = [each for each in results_of(claim) if not each.admin_access]
        asked = [each for each in results if query.is_about(each.driver, each.pool, each.device, node)]
        for device in dict.fromkeys(map(device_path, asked)):
            held = found[device, row.uid]
            last, before = held[-1][-1] if held else (None, None)
            # With the same allocation it has held it over the gap.
            is_same = before is not None and before.status.allocation == claim.status.allocation
            if last is not None and (
                last.until == row.since or (is_same and last.until == ends.get(row.since))
            ):
                held[-1].append((row, claim))
            else:
                held.append([(row, claim)])
    items = [_item(device, states) for (device, _), held in found.items() for states in held]
    items.sort(key=lambda item: (item.device, item.since, item.namespace, item.name))
    gaps = [each for each in reader.gaps if each.since < span.until and each.until > span.since]
    told = tuple([PastGap(*map(time_text, gap)) for gap in gaps])
    return PastHolders(time_text(span.since), time_text(span.until), tuple(items), told)


def _item(device: str, states: Sequence[_State]) -> PastHolder:
    (first, claim), (last, _) = states[0], states[-1]
    allocation, since = claim.status.allocation, first.since
    if first.found and allocation is not None and (told := seconds_of(allocation.allocation_timestamp)):
        since = round(told * MICRO)
    pods = dict.fromkeys(
        [each.name for _, claim in states for each in claim.status.reserved_for if is_pod(each)]
    )
    return PastHolder(
        first.namespace,
        first.name,
        device,
        node_of_claim(claim),
        tuple(pods),
        time_text(since),
        "" if last.is_open else time_text(last.until),
        (last.until - since) // MICRO,
        first.found,
    )
