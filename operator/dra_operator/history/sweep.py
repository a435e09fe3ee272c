"""Sweep: the devices of a record over time, as `top` sees them, in card-time.

In a gap what stayed is used, and what else a device was is unknown. Source: docs/history.md.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, Generic, TypeVar

from dra_operator.history.holdings import Holding, HoldingClaim, find_idle, intervals
from dra_operator.history.layouts import LaidDevice, LaidSpan, Layout, Layouts, SetState, choose
from dra_operator.history.reader import Span
from dra_operator.history.schema import MICRO
from dra_operator.history.timeline import History
from dra_operator.inventory import PoolKey
from dra_operator.questions.device_table import DeviceState

UNKNOWN: Final = "unknown"
STATES: Final = (*(each.value for each in DeviceState), UNKNOWN)
IDLE: Final = "idle"
"""What is held, and no pod that ran used it."""
HOUR: Final = 3600 * MICRO
_USED: Final = DeviceState.USED.value
_NOTHING: Final = Layout({}, {}, frozenset(), {}, None)
"""What a pool publishes before and after it does."""
_Size = Fraction | int
_Times = tuple[int, int]
_What = TypeVar("_What", Layout, LaidDevice | None)
_Held = TypeVar("_Held")
_Row = TypeVar("_Row")


@dataclass(slots=True, eq=False)
class _Piece(Generic[_What]):
    """What a pool, or a device of it, is from a time to another, all in the period of `at`, and in a gap or in none."""

    since: int
    until: int
    what: _What
    node: str
    at: int
    is_gap: bool
    held: int = 0
    idle: int = 0


_SetSpan = tuple[_Times, _Piece[Layout], Mapping[str, Sequence[Holding]], str, SetState]


class Sweep(Generic[_Row]):
    """Goes through a span of a record, pool by pool, and sums up, by periods of `every` microseconds, or all at once.

    `states` are numerators of the card-time of a period, state and denominator. `shares` are what was held, what of it
    was idle, and what was held and not published, in this order, by period, row, class and denominator; `row_of` names
    the row of a claim, a class, and a node, which is empty for what is not published.
    """

    def __init__(
        self,
        reader: History,
        span: Span,
        *,
        by_amount: str,
        row_of: Callable[[HoldingClaim, str, str], _Row],
        every: int = 0,
    ) -> None:
        self.states: dict[tuple[int, str, int], int] = defaultdict(int)
        self.shares: dict[tuple[int, _Row, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._row_of = row_of
        self._reader = reader
        self._span = span
        self._by_amount = by_amount
        self._periods = [*range(span.since, span.until, every or span.until)]
        gaps = {at for gap in reader.gaps for at in gap if span.since < at < span.until}
        self._cuts = sorted({*self._periods, *gaps, *span})

    def run(self, holdings: Mapping[PoolKey, Sequence[Holding]]) -> None:
        """Sum up all that was published, and what of it was held. Raises StoreError."""
        layouts = Layouts(self._reader, self._span, self._by_amount).read()
        for key in layouts.keys() | holdings.keys():
            parts, held = [*self._cut(layouts.get(key, []))], holdings.get(key, ())
            if _is_plain(parts, held):
                self._run_plain(parts, held)
            else:
                self._run_pool(parts, held)

    def hours(self) -> Mapping[tuple[int, str], Fraction]:
        """Return the card-hours of all states, and of what was idle, by the beginnings of periods."""
        found: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
        for (at, state, denominator), amount in self.states.items():
            found[at, state] += Fraction(amount, denominator * HOUR)
        return found

    def _run_plain(self, parts: Sequence[_Piece[Layout]], holdings: Iterable[Holding]) -> None:
        """Sum up cards of a node that claims have alone, which is what most pools are."""
        taken = {id(part): dict.fromkeys(part.what.states, 0) for part in parts}
        for part, span, holding in _split(parts, [(each.since, each.until, each) for each in holdings]):
            length, devices, states = span[1] - span[0], part.what.devices, taken[id(part)]
            number = 0
            for name in holding.devices:
                if (device := devices.get(name)) is not None:
                    states[device.state] += length
                    number += 1
            if number:
                idle = 0 if part.is_gap else find_idle([holding.claim], *span)
                part.idle += number * idle
                share = self._share(part, holding, part.node)
                share[0] += number * length
                share[1] += number * idle
            if number < len(holding.devices):
                self._share(part, holding, "")[2] += (len(holding.devices) - number) * length
        for part in parts:
            length = part.until - part.since
            for state, number in part.what.states.items():
                held = taken[id(part)][state]
                self.states[part.at, _USED, 1] += held
                self._add_rest(part, state, number * length - held, 1)
            self.states[part.at, IDLE, 1] += part.idle

    def _run_pool(self, parts: Sequence[_Piece[Layout]], holdings: Sequence[Holding]) -> None:
        by_device: dict[str, list[Holding]] = defaultdict(list)
        for holding in holdings:
            for name in holding.devices:
                by_device[name].append(holding)
        pieces: dict[str, list[_Piece[LaidDevice | None]]] = defaultdict(list)
        for part in parts:
            for name in part.what.cards | by_device.keys():
                device = part.what.devices.get(name)
                pieces[name].append(_Piece(part.since, part.until, device, part.node, part.at, part.is_gap))
        for name, each in pieces.items():
            self._run_device(each, by_device.get(name, ()))
        if any(part.what.sets for part in parts):
            self._run_sets(parts, holdings)

    def _cut(self, laid: Sequence[LaidSpan]) -> Iterator[_Piece[Layout]]:
        """Yield what a pool publishes, also where that is nothing, in the parts that gaps and periods make."""
        since, end = self._span
        for each in (*laid, LaidSpan(end, end, _NOTHING, "")):
            for until, layout, node in ((each.since, _NOTHING, ""), each[1:]):
                while since < until:
                    following = min(self._cuts[bisect_right(self._cuts, since)], until)
                    at = self._periods[bisect_right(self._periods, since) - 1]
                    is_gap = self._reader.find_gap(since) is not None
                    yield _Piece(since, following, layout, node, at, is_gap)
                    since = following

    def _run_device(self, parts: Sequence[_Piece[LaidDevice | None]], holdings: Sequence[Holding]) -> None:
        """Sum up a device that is a card, and what is held of one that is not published."""
        if all(each.until <= following.since for each, following in pairwise(holdings)):
            held = [(each.since, each.until, [each]) for each in holdings]
        else:
            held = [each for each in intervals(holdings, *self._span) if each[2]]
        for part, span, here in _split(parts, held):
            if part.what is None:
                for each in here:
                    self._share(part, each, "", len(here))[2] += span[1] - span[0]
            elif not part.what.parts:
                part.held += span[1] - span[0]
                self._add_held(span, part, part.what, here, 1)
        for part in parts:
            length = part.until - part.since - part.held
            if length and part.what is not None and not part.what.parts:
                self._add_rest(part, part.what.state, length, 1)

    def _run_sets(self, parts: Sequence[_Piece[Layout]], holdings: Sequence[Holding]) -> None:
        """Sum up counter sets, each for itself, unless devices draw on several, or one is overdrawn."""
        layouts = {id(part.what): part.what for part in parts}.values()
        names = {name for layout in layouts for name in layout.sets}
        sets_of: dict[str, set[str]] = defaultdict(set)
        for name in {name for each in holdings for name in each.devices}:
            for layout in layouts:
                sets_of[name] |= layout.devices[name].parts.keys() if name in layout.devices else set()
        by_set: dict[str, list[Holding]] = defaultdict(list)
        for holding in holdings:
            for name in set().union(*[sets_of[each] for each in holding.devices]):
                by_set[name].append(holding)
        found = [each for name in names for each in self._follow(parts, by_set[name], (name,))]
        if any(len(each) > 1 for each in sets_of.values()) or any(each[-1].is_overdrawn for each in found):
            found = [*self._follow(parts, holdings, names)]
        for span, part, here, name, state in found:
            self._add_set(span, part, here, name, state)

    def _follow(
        self, parts: Sequence[_Piece[Layout]], holdings: Sequence[Holding], names: Iterable[str]
    ) -> Iterator[_SetSpan]:
        """Yield the states of counter sets, each time that something on them changes, with who holds devices then."""
        for part, span, found in _split(parts, intervals(holdings, *self._span)):
            devices, here = part.what.devices, defaultdict[str, list[Holding]](list)
            for holding in found:
                for name in holding.devices:
                    if name in devices and devices[name].parts:
                        here[name].append(holding)
            for name, state in part.what.find_sets(names, frozenset(here)).items():
                yield span, part, here, name, state

    def _add_set(
        self,
        span: _Times,
        part: _Piece[Layout],
        holders: Mapping[str, Sequence[Holding]],
        name: str,
        state: SetState,
    ) -> None:
        for device, here in holders.items():
            if name in part.what.devices[device].parts:
                self._add_held(span, part, part.what.devices[device], here, state.taken[device])
        if state.left:
            self._add_rest(part, state.rest, span[1] - span[0], state.left)

    def _share(self, part: _Piece[_What], holding: Holding, node: str, denominator: int = 1) -> list[int]:
        row = self._row_of(holding.claim, holding.device_class, node)
        return self.shares[part.at, row, holding.device_class, denominator]

    def _add_rest(self, part: _Piece[_What], state: DeviceState, length: int, size: _Size) -> None:
        """Sum up what nobody holds."""
        name = UNKNOWN if part.is_gap else state.value
        self.states[part.at, name, size.denominator] += size.numerator * length

    def _add_held(
        self, span: _Times, part: _Piece[_What], device: LaidDevice, here: Sequence[Holding], size: _Size
    ) -> None:
        """Sum up a device that some claims hold; its size is what it is of a card."""
        node, length = part.node or device.node, span[1] - span[0]
        idle = 0 if part.is_gap else find_idle([each.claim for each in here], *span)
        self.states[part.at, _state_of(device, here), size.denominator] += size.numerator * length
        self.states[part.at, IDLE, size.denominator] += size.numerator * idle
        for each in here:
            own = size if len(here) == 1 else Fraction(size) / len(here)
            consumed = [name for name in each.consumed if device.capacity.get(name)]
            if each.is_share and consumed:
                name = choose(consumed, self._by_amount)
                own = size * min(Fraction(each.consumed[name], device.capacity[name]), Fraction(1))
            if len(here) > 1 and not part.is_gap:
                idle = find_idle([each.claim], *span)
            share = self._share(part, each, node, own.denominator)
            share[0] += own.numerator * length
            share[1] += own.numerator * idle


def _is_plain(parts: Iterable[_Piece[Layout]], holdings: Iterable[Holding]) -> bool:
    """Return whether a pool is cards of one node, each of which at most one claim has at a time."""
    until: dict[str, int] = {}
    for holding in holdings:
        since, end = holding.since, holding.until
        for name in holding.devices:
            if holding.is_share or until.get(name, 0) > since:
                return False
            until[name] = end
    return all(not part.what.sets and (part.node or not part.what.devices) for part in parts)


def _split(
    parts: Sequence[_Piece[_What]], spans: Iterable[tuple[int, int, _Held]]
) -> Iterator[tuple[_Piece[_What], _Times, _Held]]:
    """Yield parts, which are in order and have no holes, with what of spans lies in them."""
    number = 0
    for since, until, here in spans:
        while parts[number].until <= since:
            number += 1
        at, place = since, number
        while at < until:
            part = parts[place]
            end = min(part.until, until)
            yield part, (at, end), here
            at, place = end, place + 1


def _state_of(device: LaidDevice, here: Sequence[Holding]) -> str:
    """Return whether a device that is held has room for more shares."""
    if not device.is_shareable or any(not each.is_share for each in here):
        return _USED
    amounts: dict[str, int] = defaultdict(int)
    for each in here:
        for name, amount in each.consumed.items():
            amounts[name] += amount
    is_full = any(0 < each <= amounts[name] for name, each in device.capacity.items())
    return _USED if is_full else DeviceState.SHARED.value
