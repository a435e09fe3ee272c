"""The search for one claim with one request, by counting.

It finds the first sequence in upstream's order: of any devices the lowest `n`; of devices that must match, the lowest
of the group with the lowest sequence; of devices that must differ, the lowest of each group; of all devices all or
none. It is undecided where that search could meet an error, or where devices cannot be judged one by one.
Source: docs/engine sections 6, 8 and 9, with the proof.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import MATCH
from dra_operator.allocator.matching.groups import Groups
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.result_types import UNDECIDED, Answer, Undecided
from dra_operator.inventory import NodeView, PoolView, Verdict, bits


@dataclass(frozen=True, slots=True)
class SingleRequestSearch:
    """The search for a single request, in any node."""

    eligibility: Eligibility

    def search(self, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget) -> Answer:
        """Return the devices for a claim with one request, None or UNDECIDED. Raises AbortedError."""
        plan = plans[0]
        if not view.countable:
            return UNDECIDED
        for alternative in plan.requests[0].alternatives:
            found = self._alternative(plan, alternative, view, budget)
            if found is UNDECIDED:
                return UNDECIDED
            if found is not None:
                return (((alternative, found),),)
        return None

    def _alternative(
        self, plan: ClaimPlan, alternative: Alternative, view: NodeView, budget: Budget
    ) -> list[tuple[PoolView, int]] | Undecided | None:
        count = alternative.count
        if count is None:
            return self._all(alternative, view, budget)
        constrained = alternative.constraints
        if view.has_large_pool and (soon := self._soon(plan, alternative, count, view, budget)) is not None:
            return soon
        if constrained and count > 1:
            return self._related(plan, alternative, count, view, budget)
        eligibility = self.eligibility
        key, states = alternative.key, eligibility.availability.states
        found: list[tuple[PoolView, int]] = []
        for start, pool in view.row:
            if pool.driver in key.refused:
                continue
            wanted = eligibility.candidates_of(alternative, pool, budget)
            if wanted is UNDECIDED:
                return UNDECIDED
            if not wanted:
                continue
            if constrained:
                attributes, _ = _rules(plan, alternative)
                groups = eligibility.candidates.groups.find(view, attributes)
                if groups.odd >> start & wanted:
                    return UNDECIDED
                wanted &= groups.members >> start
            counted = pool.counted
            if count > 1 and wanted & counted:
                return UNDECIDED
            if wanted & (states[pool.serial].charged | counted):
                wanted = eligibility.lowest(key, pool, wanted, count - len(found))
            while wanted:
                bit = wanted & -wanted
                wanted ^= bit
                found.append((pool, bit.bit_length() - 1))
                if len(found) == count:
                    return found
        return None

    def _all(
        self, alternative: Alternative, view: NodeView, budget: Budget
    ) -> list[tuple[PoolView, int]] | Undecided | None:
        eligibility = self.eligibility
        found: list[tuple[PoolView, int]] = []
        refused = False
        counted = 0
        for pool in view.pools:
            wanted = eligibility.candidates_of(alternative, pool, budget)
            # They are asked about in use or not.
            answers = eligibility.candidates.ask(alternative.key, pool, budget)
            if wanted is UNDECIDED or answers.errors or pool.verdict is not Verdict.COMPLETE:
                return UNDECIDED
            every = answers.selectable
            refused = refused or every != wanted or wanted != eligibility.judge(alternative.key, pool, wanted)
            counted |= every & pool.counted
            found += [(pool, position) for position in bits.each(every)]
        if len(found) > MAX_DEVICES:
            return UNDECIDED
        if refused or not found:
            return None
        return UNDECIDED if counted and len(found) > 1 else found

    def _related(
        self, plan: ClaimPlan, alternative: Alternative, count: int, view: NodeView, budget: Budget
    ) -> list[tuple[PoolView, int]] | Undecided | None:
        """Return the devices where all have to match in some attributes, or all to differ in one."""
        wanted = 0
        row: list[tuple[int, PoolView]] = []
        for start, pool in view.row:
            if pool.driver in alternative.key.refused:
                continue
            candidates = self.eligibility.candidates_of(alternative, pool, budget)
            if candidates is UNDECIDED or candidates & pool.counted:
                return UNDECIDED
            if candidates & self.eligibility.availability.states[pool.serial].charged:
                candidates = self.eligibility.judge(alternative.key, pool, candidates)
            if candidates:
                wanted |= candidates << start
                row.append((start, pool))
        if wanted.bit_count() < count:
            return None
        attributes, matching = _rules(plan, alternative)
        if not matching and len(attributes) > 1:
            return UNDECIDED
        if len(row) == len(attributes) == 1 and (own := row[0][1].groups(attributes[0])) is not None:
            # Mostly all candidates are of one slice, whose column tells which of them agree.
            ((start, pool),) = row
            wanted >>= start
            best = _first_alike(own, wanted, count) if matching else _first_of_each(own, wanted)
            return _lowest(((0, pool),), best, count) if best.bit_count() >= count else None
        groups = self.eligibility.candidates.groups.find(view, attributes)
        if groups.odd & wanted:
            return UNDECIDED
        if matching:
            best = _first_alike(groups.groups, wanted, count)
        elif groups.overlapping:
            wanted &= groups.members
            best = _first_apart(groups, wanted, count)
            if best.bit_count() < count and not _are_too_few(groups, wanted, count):
                return UNDECIDED
        else:
            best = _first_of_each(groups.groups, wanted)
        return _lowest(row, best, count) if best.bit_count() >= count else None

    def _soon(
        self, plan: ClaimPlan, alternative: Alternative, count: int, view: NodeView, budget: Budget
    ) -> list[tuple[PoolView, int]] | None:
        """Return the devices if those at the beginning of the row are enough, or None.

        Each is the lowest that goes with those before, so none behind the last one could come in its place.
        """
        constrained = alternative.constraints
        answers = alternative.key.answers
        if not constrained:
            for pool in view.pools:
                if pool.serial not in answers:
                    break
            else:
                # All answers are known already, so the whole row is fast.
                return None
        wanted = self.eligibility.beginning_of(alternative, view, budget)
        if wanted is UNDECIDED or wanted.bit_count() < count:
            return None
        if count > 1 and any(wanted >> start & pool.counted for start, pool in view.row):
            return None
        if constrained:
            attributes, matching = _rules(plan, alternative)
            groups = self.eligibility.candidates.groups.find(view, attributes)
            if groups.odd & wanted or (len(attributes) > 1 and not matching):
                return None
            wanted &= groups.members
            if not matching:
                wanted = _first_apart(groups, wanted, count)
            elif count > 1 and wanted:
                if groups.overlapping:
                    return None
                wanted &= groups.beside[bits.lowest(wanted)]
        return _lowest(view.row, wanted, count) if wanted.bit_count() >= count else None


def has_single_request(plans: Sequence[ClaimPlan]) -> bool:
    """True if the search for a single request can be asked about some claims."""
    return len(plans) == 1 and plans[0].quick


def _rules(plan: ClaimPlan, alternative: Alternative) -> tuple[tuple[str, ...], bool]:
    """Return the attributes of the constraints on an alternative, and whether all of them are to match."""
    attributes: tuple[str, ...] = ()
    matching = True
    for number in alternative.constraints:
        constraint = plan.constraints[number]
        attributes += (constraint.attribute,)
        matching = matching and constraint.kind == MATCH
    return attributes, matching


def _first_alike(groups: Sequence[int], wanted: int, count: int) -> int:
    """Return the devices of the group with the lowest sequence, among the groups that have enough."""
    best = 0
    for group in groups:
        fitting = group & wanted
        if fitting.bit_count() >= count:
            other = fitting ^ best
            if fitting & other & -other:
                best = fitting
    return best


def _first_apart(groups: Groups, wanted: int, count: int) -> int:
    """Return the lowest device, then each next one that shares no group with those before it."""
    beside = groups.beside
    found = 0
    while wanted and count:
        bit = wanted & -wanted
        found |= bit
        wanted &= ~beside[bit.bit_length() - 1]
        count -= 1
    return found


def _are_too_few(groups: Groups, wanted: int, count: int) -> bool:
    """True if fewer than `count` groups have all of the devices, so that `count` of them cannot differ."""
    for _ in range(count - 1):
        if not wanted:
            return True
        first = bits.lowest(wanted)
        near = [group & wanted for group in groups.groups if group >> first & 1]
        wanted &= ~max(near, key=int.bit_count)
    return not wanted


def _first_of_each(groups: Sequence[int], wanted: int) -> int:
    """Return the lowest device of each group."""
    found = 0
    for group in groups:
        fitting = group & wanted
        found |= fitting & -fitting
    return found


def _lowest(row: Sequence[tuple[int, PoolView]], wanted: int, count: int) -> list[tuple[PoolView, int]]:
    """Return the lowest of some devices of a row."""
    found: list[tuple[PoolView, int]] = []
    for start, pool in row:
        here = wanted >> start & bits.first(pool.size)
        while here:
            bit = here & -here
            here ^= bit
            found.append((pool, bit.bit_length() - 1))
            if len(found) == count:
                return found
    return found
