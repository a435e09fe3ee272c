"""Sweep: the devices of a record over time, as `top` sees them, in card-time.

In a gap what stayed is used, and what else a device was is unknown. Source: docs/history.md.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_NOTHING: Final = Layout({}, frozenset(), {}, None)
"""What a pool publishes before and after it does."""
_Size = Fraction | int
_Times = tuple[int, int]
_What = TypeVar("_What", Layout, LaidDevice | None)


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


class Sweep:
    """Goes through a span of a record, pool by pool, and sums up, by periods of `every` microseconds, or all at once.

    `states` are numerators of the card-time of a period, state and denominator. `shares` are what claims held, what of
    it was idle, and what they held that was not published, in this order.
    """

    def __init__(self, reader: History, span: Span, *, by_amount: str, every: int = 0) -> None:
        self.states: dict[tuple[int, str, int], int] = defaultdict(int)
        self.shares: dict[tuple[int, HoldingClaim, str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._alone: dict[tuple[_Times, int, bool, HoldingClaim, str, str, int], int] = defaultdict(int)
        """Numerators of what claims have alone of a pool."""
        self._reader = reader
        self._span = span
        self._by_amount = by_amount
        self._periods = [*range(span.since, span.until, every or span.until)]
        gaps = {at for gap in reader.gaps for at in gap if span.since < at < span.until}
        self._cuts = sorted({*self._periods, *gaps, *span})

    def run(self, holdings: Mapping[PoolKey, Mapping[str, list[Holding]]]) -> None:
        """Sum up all that was published, and what of it was held. Raises StoreError."""
        layouts = Layouts(self._reader, self._span, self._by_amount).read()
        for key in layouts.keys() | holdings.keys():
            self._run_pool(layouts.get(key, []), holdings.get(key, {}))
            self._add_alone()

    def hours(self) -> Mapping[tuple[int, str], Fraction]:
        """Return the card-hours of all states, and of what was idle, by the beginnings of periods."""
        found: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
        for (at, state, denominator), amount in self.states.items():
            found[at, state] += Fraction(amount, denominator * HOUR)
        return found

    def _run_pool(self, laid: Sequence[LaidSpan], holdings: Mapping[str, list[Holding]]) -> None:
        parts = [*self._cut(laid)]
        devices: dict[str, list[_Piece[LaidDevice | None]]] = defaultdict(list)
        for part in parts:
            for name in part.what.cards | holdings.keys():
                device, before = part.what.devices.get(name), devices[name]
                last = before[-1] if before else None
                if (
                    last is not None
                    and last.what is device
                    and last.until == part.since
                    and (last.node, last.at, last.is_gap) == (part.node, part.at, part.is_gap)
                ):
                    last.until = part.until
                else:
                    before.append(_Piece(part.since, part.until, device, part.node, part.at, part.is_gap))
        for name, each in devices.items():
            self._run_device(each, holdings.get(name, ()))
        if any(part.what.sets for part in parts):
            self._run_sets(parts, [each for held in holdings.values() for each in held])

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
                    share = self.shares[part.at, each.claim, each.device_class, "", len(here)]
                    share[2] += span[1] - span[0]
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
        for name in {each.device for each in holdings}:
            for layout in layouts:
                sets_of[name] |= layout.devices[name].parts.keys() if name in layout.devices else set()
        is_joint = any(len(sets_of[each.device]) > 1 for each in holdings)
        for groups in ([names],) if is_joint else ([{name} for name in names], [names]):
            found = [
                each
                for group in groups
                for each in self._follow(
                    parts, [each for each in holdings if sets_of[each.device] & group], group
                )
            ]
            if len(groups) == 1 or not any(each[-1].is_overdrawn for each in found):
                break
        for span, part, here, name, state in found:
            self._add_set(span, part, here, name, state)

    def _follow(
        self, parts: Sequence[_Piece[Layout]], holdings: Sequence[Holding], names: Iterable[str]
    ) -> Iterator[tuple[_Times, _Piece[Layout], list[Holding], str, SetState]]:
        """Yield the states of counter sets, each time that something on them changes, with what is held by then."""
        for part, span, found in _split(parts, intervals(holdings, *self._span)):
            devices = part.what.devices
            here = [each for each in found if each.device in devices and devices[each.device].parts]
            states = part.what.find_sets(names, frozenset([each.device for each in here]))
            for name, state in states.items():
                yield span, part, here, name, state

    def _add_set(
        self, span: _Times, part: _Piece[Layout], holdings: Iterable[Holding], name: str, state: SetState
    ) -> None:
        by_device: dict[str, list[Holding]] = defaultdict(list)
        for each in holdings:
            if name in part.what.devices[each.device].parts:
                by_device[each.device].append(each)
        for device, here in by_device.items():
            self._add_held(span, part, part.what.devices[device], here, state.taken[device])
        if state.left:
            self._add_rest(part, state.rest, span[1] - span[0], state.left)

    def _add_rest(self, part: _Piece[_What], state: DeviceState, length: int, size: _Size) -> None:
        """Sum up what nobody holds."""
        name = UNKNOWN if part.is_gap else state.value
        self.states[part.at, name, size.denominator] += size.numerator * length

    def _add_held(
        self, span: _Times, part: _Piece[_What], device: LaidDevice, here: Sequence[Holding], size: _Size
    ) -> None:
        """Sum up a device that some claims hold; its size is what it is of a card."""
        first, node = here[0], part.node or device.node
        if len(here) == 1 and not first.is_share:
            key = span, part.at, part.is_gap, first.claim, first.device_class, node, size.denominator
            self._alone[key] += size.numerator
            return
        idle = 0 if part.is_gap else find_idle([each.claim for each in here], *span)
        for state, length in ((_state_of(device, here), span[1] - span[0]), (IDLE, idle)):
            self.states[part.at, state, size.denominator] += size.numerator * length
        for each in here:
            own = Fraction(size) / len(here)
            consumed = [name for name in each.consumed if device.capacity.get(name)]
            if each.is_share and consumed:
                name = choose(consumed, self._by_amount)
                own = size * min(Fraction(each.consumed[name], device.capacity[name]), Fraction(1))
            idle = 0 if part.is_gap else find_idle([each.claim], *span)
            share = self.shares[part.at, each.claim, each.device_class, node, own.denominator]
            share[0] += own.numerator * (span[1] - span[0])
            share[1] += own.numerator * idle

    def _add_alone(self) -> None:
        """Sum up what claims have alone: all that one has at the same time at once, as that is most."""
        for (span, at, is_gap, claim, device_class, node, denominator), number in self._alone.items():
            length = number * (span[1] - span[0])
            idle = 0 if is_gap else number * find_idle([claim], *span)
            self.states[at, _USED, denominator] += length
            self.states[at, IDLE, denominator] += idle
            share = self.shares[at, claim, device_class, node, denominator]
            share[0] += length
            share[1] += idle
        self._alone.clear()


def _split(
    parts: Sequence[_Piece[_What]], spans: Iterable[tuple[int, int, list[Holding]]]
) -> Iterator[tuple[_Piece[_What], _Times, list[Holding]]]:
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
