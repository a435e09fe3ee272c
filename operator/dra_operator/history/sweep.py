"""Sweep: the devices of a record over time, as `top` sees them, in card-time.

In a gap what stayed is used, and what else a device was is unknown. Source: docs/history.md.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, Protocol

from dra_operator.history.holdings import Holding, find_idle, intervals
from dra_operator.history.layouts import LaidDevice, LaidSpan, Layout, Layouts, SetState, choose
from dra_operator.history.reader import Span
from dra_operator.history.timeline import History
from dra_operator.inventory import PoolKey
from dra_operator.questions.device_table import DeviceState

UNKNOWN: Final = "unknown"
STATES: Final = (*(each.value for each in DeviceState), UNKNOWN)
_NOTHING: Final = Layout({}, [], {}, None)
"""What a pool publishes before and after it does."""
Amount = Fraction | int
"""Of card-time: parts of a card by microseconds."""


class Sums(Protocol):
    """What takes in how much there was; `at` is a time of the period that it belongs to."""

    def add_state(self, at: int, state: str, amount: Amount, idle: Amount) -> None:
        """Add cards in a state; of what is held, `idle` had no pod that ran."""

    def add_share(self, at: int, holding: Holding, node: str, amount: Amount, idle: Amount) -> None:
        """Add what a claim had of published cards."""

    def add_unpublished(self, at: int, holding: Holding, amount: Amount) -> None:
        """Add what a claim had of devices that were not published."""


class Sweep:
    """Goes through a span of a record, pool by pool; what is cut by `every` microseconds is given in parts."""

    def __init__(self, reader: History, span: Span, sums: Sums, *, by_amount: str, every: int = 0) -> None:
        self._reader = reader
        self._span = span
        self._sums = sums
        self._by_amount = by_amount
        self._is_gap = False
        cuts = {*range(span.since, span.until, every or span.until), span.since, span.until}
        cuts |= {at for gap in reader.gaps for at in gap if span.since < at < span.until}
        self._cuts = sorted(cuts)

    def run(self, holdings: Mapping[PoolKey, Mapping[str, list[Holding]]]) -> None:
        """Give the sums all that was published, and what of it was held. Raises StoreError."""
        layouts = Layouts(self._reader, self._span, self._by_amount).read()
        for key in layouts.keys() | holdings.keys():
            self._run_pool(layouts.get(key, []), holdings.get(key, {}))

    def _run_pool(self, laid: Sequence[LaidSpan], holdings: Mapping[str, list[Holding]]) -> None:
        at, following = self._span.since, {name: _Following(each) for name, each in holdings.items()}
        for each in (*laid, LaidSpan(self._span.until, self._span.until, _NOTHING, "")):
            for span in self._cut(Span(at, each.since)):
                self._run_span(span, _NOTHING, "", following)
            for span in self._cut(Span(each.since, each.until)):
                self._run_span(span, each.layout, each.node, following)
            at = each.until

    def _cut(self, span: Span) -> Iterator[Span]:
        """Yield the parts of a span that gaps and periods cut it into."""
        at = span.since
        while at < span.until:
            end = min(self._cuts[bisect_right(self._cuts, at)], span.until)
            self._is_gap = bool(self._reader.gaps) and self._reader.find_gap(at) is not None
            yield Span(at, end)
            at = end

    def _run_span(self, span: Span, layout: Layout, node: str, following: Mapping[str, "_Following"]) -> None:
        """Give the sums what there was while one layout of a pool was published."""
        counted = list[Holding]()
        held = {name: found for name, each in following.items() if (found := each.find(span))}
        for name, found in held.items():
            device = layout.devices.get(name)
            if device is None:
                for since, until, here in intervals(found, *span):
                    for each in here:
                        self._sums.add_unpublished(since, each, Fraction(until - since, len(here)))
            elif device.parts:
                counted += found
        free: dict[str, int] = defaultdict(int)
        for device in layout.cards:
            if device.name in held:
                self._run_card(span, device, node, held[device.name])
            else:
                free[device.state.value] += span.until - span.since
        for state, amount in free.items():
            self._sums.add_state(span.since, UNKNOWN if self._is_gap else state, amount, 0)
        if layout.sets:
            self._run_sets(span, layout, node, counted)

    def _run_card(self, span: Span, device: LaidDevice, node: str, holdings: Sequence[Holding]) -> None:
        for since, until, here in intervals(holdings, *span):
            if here:
                self._add_held(Span(since, until), device, node, here, 1)
            else:
                state = UNKNOWN if self._is_gap else device.state.value
                self._sums.add_state(since, state, until - since, 0)

    def _run_sets(self, span: Span, layout: Layout, node: str, holdings: Sequence[Holding]) -> None:
        """Give the sums counter sets: each from one change of what holds it, or of the rest, to the next."""
        current = dict[str, tuple[int, SetState, list[Holding]]]()
        for since, _, here in intervals(holdings, *span):
            by_set: dict[str, list[Holding]] = defaultdict(list)
            for each in here:
                for name in layout.devices[each.device].parts:
                    by_set[name].append(each)
            names = frozenset([each.device for each in here])
            states = {name: layout.find_set(name, names) for name in layout.sets}
            for name, state in layout.join(states).items():
                after = state, by_set.get(name, [])
                if (before := current.get(name)) is not None:
                    if before[1:] == after:
                        continue
                    self._add_set(Span(before[0], since), layout, node, *before[1:])
                current[name] = since, *after
        for since, state, found in current.values():
            self._add_set(Span(since, span.until), layout, node, state, found)

    def _add_set(
        self, span: Span, layout: Layout, node: str, state: SetState, holdings: Sequence[Holding]
    ) -> None:
        by_device: dict[str, list[Holding]] = defaultdict(list)
        for each in holdings:
            by_device[each.device].append(each)
        for name, here in by_device.items():
            self._add_held(span, layout.devices[name], node, here, state.taken[name])
        if state.left:
            rest = UNKNOWN if self._is_gap else state.rest.value
            self._sums.add_state(span.since, rest, whole(state.left * (span.until - span.since)), 0)

    def _add_held(
        self, span: Span, device: LaidDevice, node: str, here: Sequence[Holding], part: Amount
    ) -> None:
        """Give the sums a device, or what it is of a counter set, that some claims hold."""
        length, node = span.until - span.since, node or device.node
        idle = 0 if self._is_gap else find_idle([each.claim for each in here], *span)
        state = _state_of(device, here)
        amounts = (length, idle) if part == 1 else (whole(part * length), whole(part * idle))
        self._sums.add_state(span.since, state.value, *amounts)
        if len(here) == 1 and not here[0].is_share:
            self._sums.add_share(span.since, here[0], node, *amounts)
            return
        for each in here:
            own = Fraction(part) / len(here)
            consumed = [name for name in each.consumed if device.capacity.get(name)]
            if each.is_share and consumed:
                name = choose(consumed, self._by_amount)
                own = part * min(Fraction(each.consumed[name], device.capacity[name]), Fraction(1))
            idle = 0 if self._is_gap else find_idle([each.claim], *span)
            self._sums.add_share(span.since, each, node, whole(own * length), whole(own * idle))


def whole(amount: Amount) -> Amount:
    """Return an amount as an integer, if it is one: that is added faster."""
    return amount.numerator if amount.denominator == 1 else amount


def _state_of(device: LaidDevice, here: Sequence[Holding]) -> DeviceState:
    """Return whether a device that is held has room for more shares."""
    if not device.is_shareable or any(not each.is_share for each in here):
        return DeviceState.USED
    amounts: dict[str, int] = defaultdict(int)
    for each in here:
        for name, amount in each.consumed.items():
            amounts[name] += amount
    is_full = any(0 < each <= amounts[name] for name, each in device.capacity.items())
    return DeviceState.USED if is_full else DeviceState.SHARED


class _Following:
    """Holdings of a device, of which those of later and later spans are asked for."""

    def __init__(self, holdings: list[Holding]) -> None:
        self._holdings = holdings
        self._first = 0

    def find(self, span: Span) -> list[Holding]:
        """Return those that there are in a span; the spans come in order."""
        found, holdings, is_first = [], self._holdings, True
        for index in range(self._first, len(holdings)):
            each = holdings[index]
            if each.since >= span.until:
                break
            if each.until <= span.since:
                self._first += is_first
                continue
            is_first = False
            found.append(each)
        return found
