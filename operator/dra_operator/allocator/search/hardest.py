"""The search that begins with the hardest request (dom/wdeg with restarts), for what backtracking does not decide soon.

It finds some solution or proves that there is none, and from it the first one in order: with all earlier picks fixed,
it tries the devices below the next pick of the solution at hand. Two kinds of picks need no try, as an equivalent one
has failed: interchangeable devices (symmetry), and states that failed before (nogoods).
Source: docs/engine sections 7 and 8; Boussemart et al., Boosting systematic search by weighting constraints (2004).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.search.lookahead import Lookahead
from dra_operator.allocator.search.model import SearchModel
from dra_operator.allocator.search.remaining import Option, RemainingDemands, RemainingSupply, SearchState
from dra_operator.inventory import bits

_PATIENCE = 64
"""How many tries a search may take before it begins again for the first time."""
_LOOKS_A_TRY = 8
"""So many demands looked at are as much work as a try."""


class _AgainError(Exception):
    """The search is to begin again."""


class DevicePick(NamedTuple):
    """A pick of a solution: request, place among its alternatives, and the device as a bit."""

    request: int
    place: int
    bit: int


@dataclass(slots=True)
class HardestFirst:
    """One search. `tries` counts the picks that led to no solution, including those of the backtracking search."""

    model: SearchModel
    budget: Budget
    tries: int
    _demands: RemainingDemands = field(init=False)
    _outlook: Lookahead = field(init=False)
    _until: int = 0
    _failed: set[object] = field(default_factory=set)

    def solve(self) -> list[DevicePick] | None:
        """Return the first solution in order, or None. Raises AbortedError."""
        supply = RemainingSupply(self.model)
        self._demands = RemainingDemands.build(self.model, supply)
        now = self._demands.first()
        if now is None:
            return None
        self._outlook = Lookahead(self.model, supply)
        solution = self._search(now)
        if solution is None:
            return None
        picks: list[DevicePick] = []
        for request in range(len(now.demands_left)):
            now, solution = self._settle_alternative(now, request, solution)
            while now.demands_left[request]:
                now, solution, pick = self._settle_device(now, request, solution)
                picks.append(pick)
        return picks

    def _search(self, now: SearchState) -> list[DevicePick] | None:
        """Return picks that serve all demands, or None if there are none.

        A search may have begun with the wrong device. After some tries it begins again, with more patience, and with
        what it has learnt: which requests are hard to serve, and which states fail.
        """
        patience = _PATIENCE
        while True:
            self._until = self.tries + patience
            try:
                return self._descend(now)
            except _AgainError:
                patience *= 2

    def _descend(self, now: SearchState) -> list[DevicePick] | None:
        self._check_work()
        narrowed = self._outlook.narrowed(now)
        if narrowed is None:
            return None
        now = narrowed
        request = self._hardest(now)
        if request is None:
            return []
        if self._outlook.is_hopeless(now):
            return None
        key = self._demands.key(now)
        if key in self._failed:
            return None
        for option in now.demands_left[request]:
            devices = option.devices
            while devices.bit_count() >= option.missing:
                bit = devices & -devices
                after = self._pick(now, option._replace(devices=devices), bit)
                rest = None if after is None else self._descend(after)
                if rest is not None:
                    rest.append(DevicePick(request, option.source.place, bit))
                    return rest
                self._count_try()
                devices ^= bit
                devices &= ~self._demands.equals(now, bit, devices)
        self._failed.add(key)
        return None

    def _check_work(self) -> None:
        """Raise AbortedError if there were too many tries, or as much work as that many tries.

        The work that even a search without a vain pick does, one look at all demands after each pick, is not counted.
        """
        looked = self._outlook.looked - len(self.model.demands) ** 2
        self.budget.check_tries(max(self.tries, looked // _LOOKS_A_TRY))

    def _count_try(self) -> None:
        self.tries += 1
        self._check_work()
        if self.tries >= self._until:
            raise _AgainError

    def _pick(self, now: SearchState, option: Option, bit: int) -> SearchState | None:
        self.budget.step()
        after = self._demands.pick(now, option, bit)
        if isinstance(after, int):
            self._outlook.blame[after] += 1
            return None
        return after

    def _hardest(self, now: SearchState) -> int | None:
        """Return the request with the least choice for how often it has failed, or None if nothing is wanted."""
        hardest, least = None, 0.0
        for request, demand in enumerate(now.demands_left):
            if demand:
                choice = sum([option.devices.bit_count() - option.missing + 1 for option in demand])
                weighed = choice / (1 + self._outlook.blame[request])
                if hardest is None or weighed < least:
                    hardest, least = request, weighed
        return hardest

    def _settle_alternative(
        self, now: SearchState, request: int, solution: list[DevicePick]
    ) -> tuple[SearchState, list[DevicePick]]:
        """Return the state with the first alternative of a request that has a solution, and that solution."""
        taken = next(pick.place for pick in solution if pick.request == request)
        for option in now.demands_left[request]:
            only = now._replace(
                demands_left=(*now.demands_left[:request], (option,), *now.demands_left[request + 1 :])
            )
            if option.source.place == taken:
                return only, solution
            if (other := self._search(only)) is not None:
                return only, other
        raise AssertionError("a solution takes one of the alternatives")

    def _settle_device(
        self, now: SearchState, request: int, solution: list[DevicePick]
    ) -> tuple[SearchState, list[DevicePick], DevicePick]:
        """Return what is left after the first device that a request can take, a solution of it, and the pick."""
        (option,) = now.demands_left[request]
        lowest = min(pick.bit for pick in solution if pick.request == request)
        devices = option.devices
        while devices:
            bit = devices & -devices
            after = self._pick(now, option._replace(devices=devices), bit)
            pick = DevicePick(request, option.source.place, bit)
            if after is not None:
                if bit == lowest:
                    rest: list[DevicePick] | None = [item for item in solution if item != pick]
                else:
                    taken = next(item for item in solution if (item.request, item.bit) == (request, lowest))
                    rest = self._mended(after, [item for item in solution if item != taken])
                    rest = self._search(after) if rest is None else rest
                if rest is not None:
                    return after, rest, pick
            devices ^= bit
            devices &= ~self._demands.equals(now, bit, devices)
        raise AssertionError("a solution takes one of the devices")

    def _mended(self, now: SearchState, picks: Sequence[DevicePick]) -> list[DevicePick] | None:
        """Return picks that serve all demands, close to the given ones, or None if none are found easily.

        This takes a fraction of the time of a search.
        """
        mended: list[DevicePick] = []
        for request, place, wanted in sorted(picks):
            option = next((item for item in now.demands_left[request] if item.source.place == place), None)
            if option is None:
                return None
            others = [1 << position for position in bits.each(option.devices & ~wanted)]
            for bit in [wanted, *others] if option.devices & wanted else others:
                after = self._demands.pick(now, option, bit)
                if not isinstance(after, int):
                    now = after
                    mended.append(DevicePick(request, place, bit))
                    break
            else:
                return None
        return mended
