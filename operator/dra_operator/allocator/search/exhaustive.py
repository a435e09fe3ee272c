"""The exhaustive search: upstream's order, one device at a time, with all its errors. The oracle of all others.

Depth first over claims, requests, alternatives and devices; the first complete solution wins. An explicit stack of
generators, so Python's recursion limit does not bound the number of devices: each is one level of upstream's recursion,
and goes on each time the level below has failed.
Source: docs/dra-semantics 3.3 and 3.4.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.candidates import Answers
from dra_operator.allocator.matching.capacity import CapacityError
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, too_many
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.problem import Solution
from dra_operator.allocator.search.state import NodeState
from dra_operator.inventory import Verdict, bits
from dra_operator.inventory.pool import surplus_advice


class DeadEnd(Enum):
    """Why a level failed: no device, or more devices than a claim can have, which skips to the next alternative."""

    NO = "no"
    TOO_MANY = "too many"


@dataclass(frozen=True, slots=True)
class Descend:
    """The next level: a request of a claim, or with `pick` the next device of an alternative."""

    claim: int
    request: int
    alternative: int = -1
    count: int = 0
    start: tuple[int, int] = (0, 0)


Step: TypeAlias = Descend | DeadEnd
_Frame: TypeAlias = Generator[Step, DeadEnd, None]
"""A level of the search: yields the next step, and is sent how that ended; its own dead end is the last it yields."""


@dataclass(slots=True)
class ExpandedAlternative:
    """An alternative on one node: how many devices, and for All which ones, as (pool, position)."""

    alternative: Alternative
    answers: list[Answers | None]
    count: int
    every: tuple[tuple[int, int], ...] | None


@dataclass(slots=True)
class ExhaustiveSearch:
    """One search in one node. After success the picks are those of `state`."""

    state: NodeState
    budget: Budget
    chosen: list[dict[int, int]] = field(init=False)
    _choices: list[list[list[ExpandedAlternative]]] = field(init=False)

    def run(self) -> bool:
        """Search; return whether all claims fit. Raises FatalError or AbortedError."""
        if (broken := self.state.view.error) is not None:
            raise _selector_error(broken.slice, broken.why)
        self.chosen = [{} for _ in self.state.plans]
        self._choices = [self._expand_claim(number) for number in range(len(self.state.plans))]
        return self._solve()

    def found(self) -> Solution:
        """Return what a search that succeeded has found."""
        pools = self.state.view.pools
        return [
            [
                (
                    alternative,
                    [(pools[pick.pool], pick.position) for pick in taken if pick.alternative is alternative],
                )
                for alternative in self.chosen_alternatives(claim)
            ]
            for claim, taken in enumerate(self.state.picks)
        ]

    def chosen_alternatives(self, claim: int) -> list[Alternative]:
        """Return the alternative that was chosen for each request of a claim."""
        requests = self.state.plans[claim].requests
        return [request.alternatives[self.chosen[claim][number]] for number, request in enumerate(requests)]

    # --- what each request can choose from

    def _expand_claim(self, number: int) -> list[list[ExpandedAlternative]]:
        plan = self.state.plans[number]
        left = MAX_DEVICES
        choices: list[list[ExpandedAlternative]] = []
        try:
            for request in plan.requests:
                expanded = [self._expand(number, item) for item in request.alternatives]
                choices.append(expanded)
                least = min(choice.count for choice in expanded)
                if least > left:
                    raise too_many(request.name, least, MAX_DEVICES - left)
                left -= least
        except FatalError as error:
            error.claim = plan.key
            raise
        return choices

    def _expand(self, claim: int, alternative: Alternative) -> ExpandedAlternative:
        pools = self.state.view.pools
        if alternative.count is not None:
            return ExpandedAlternative(alternative, [None] * len(pools), alternative.count, None)
        for view in pools:
            if view.verdict is not Verdict.COMPLETE:
                path = "/".join(view.key)
                incomplete = view.verdict is Verdict.INCOMPLETE
                wrong = f"is currently {view.verdict.value}: {view.reason}"
                if view.has_surplus:
                    published = self.state.availability.views.inventory.pools[view.key]
                    wrong = f"has {view.reason}; {surplus_advice(published)}"
                raise FatalError(
                    f"request {alternative.name}: asks for all devices, but resource pool {path} {wrong}",
                    Reason.POOL_INCOMPLETE if incomplete else Reason.POOL_INVALID,
                    request=alternative.name,
                    subject=("ResourcePool", path),
                )
        choice = ExpandedAlternative(alternative, [None] * len(pools), 0, None)
        every: list[tuple[int, int]] = []
        for pool in range(len(pools)):
            answers = self.answers_of(choice, pool)
            if answers.errors:
                raise self.error_at(claim, alternative, pool, bits.lowest(answers.errors))
            every += ((pool, position) for position in bits.each(answers.selectable))
        choice.count = len(every)
        choice.every = tuple(every)
        return choice

    def answers_of(self, choice: ExpandedAlternative, pool: int) -> Answers:
        """Return which devices of a pool could serve an alternative."""
        found = choice.answers[pool]
        if found is None:
            view = self.state.view.pools[pool]
            found = choice.answers[pool] = self.state.candidates.ask(
                choice.alternative.key, view, self.budget
            )
        return found

    def error_at(self, claim: int, alternative: Alternative, pool: int, position: int) -> FatalError:
        """Return the error of a device that an attempt has reached."""
        view = self.state.view.pools[pool]
        slice_, index = view.locate(position)
        plan = self.state.plans[claim]
        candidates = self.state.candidates
        error = candidates.selector_error(
            alternative.key,
            slice_,
            index,
            claim=plan.title,
            request=alternative.name,
            class_name=alternative.device_class.metadata.name,
        )
        if error is None and (text := view.selector_errors.get(position)) is not None:
            error = _selector_error(slice_.name, text, alternative.name)
        if error is None:
            problem = candidates.consumed(alternative.key, slice_, index)
            assert isinstance(problem, CapacityError)
            error = FatalError(
                f"request {alternative.name}: checking capacity of device {slice_.path(index)}: {problem}",
                Reason.CAPACITY_REQUEST_INVALID,
                request=alternative.name,
            )
        error.claim = plan.key
        return error

    # --- the search

    def _solve(self) -> bool:
        frames: list[_Frame] = []
        step: Step = Descend(0, 0)
        while True:
            if isinstance(step, Descend):
                frame = self._open(step)
                if frame is None:
                    return True
                frames.append(frame)
                step = next(frame)
            else:
                frames.pop()
                if not frames:
                    return False
                step = frames[-1].send(step)

    def _open(self, step: Descend) -> _Frame | None:
        """Return the frame of a level, or None if there is nothing left to do."""
        plans = self.state.plans
        if step.claim == len(plans):
            return None
        if step.request == len(plans[step.claim].requests):
            return self._next_claim(step.claim)
        if step.alternative < 0:
            return self._each_alternative(step.claim, step.request)
        choice = self._choices[step.claim][step.request][step.alternative]
        return (self._each_device if choice.every is None else self._all_devices)(step, choice)

    @staticmethod
    def _next_claim(claim: int) -> _Frame:
        """Go on with the next claim: too many devices in a later claim are a plain no for the earlier ones."""
        yield Descend(claim + 1, 0)
        yield DeadEnd.NO

    def _each_alternative(self, claim: int, number: int) -> _Frame:
        """Try the alternatives of a request, in order."""
        request = self.state.plans[claim].requests[number]
        all_too_many = True
        for place in range(len(request.alternatives)):
            self.chosen[claim][number] = place
            failure = yield Descend(claim, number, place)
            if not request.prioritized:
                yield failure
            all_too_many = all_too_many and failure is DeadEnd.TOO_MANY
        yield DeadEnd.TOO_MANY if all_too_many else DeadEnd.NO

    def _each_device(self, step: Descend, choice: ExpandedAlternative) -> _Frame:
        """Try as the k-th device of a request for a number of them each that fits, in order, behind the one before."""
        state, claim, alternative = self.state, step.claim, choice.alternative
        if step.count == choice.count:
            yield (yield Descend(claim, step.request + 1))
        if len(state.picks[claim]) + choice.count - step.count > MAX_DEVICES:
            yield DeadEnd.TOO_MANY
        if not self._has_enough(step, choice):
            yield DeadEnd.NO
        first, start = step.start
        for pool in range(first, len(state.view.pools)):
            answers = self.answers_of(choice, pool)
            wanted = (answers.mask | answers.errors) & state.available(claim, alternative, pool)
            if pool == first:
                wanted &= -(1 << start)
            while wanted:
                self.budget.step()
                position = bits.lowest(wanted)
                wanted &= wanted - 1
                if answers.errors >> position & 1:
                    raise self.error_at(claim, alternative, pool, position)
                if (pick := state.pick(claim, alternative, pool, position)) is not None:
                    behind = (pool, position + 1)
                    failure = yield Descend(claim, step.request, step.alternative, step.count + 1, behind)
                    state.give_back(pick)
                    if failure is DeadEnd.TOO_MANY:
                        yield failure
        yield DeadEnd.NO

    def _has_enough(self, step: Descend, choice: ExpandedAlternative) -> bool:
        """False if there are too few candidates left, and none that could end the attempt with an error.

        Upstream would try all combinations of those there are before it says no.
        """
        state = self.state
        if choice.alternative.derived:
            return True
        first, start = step.start
        missing = choice.count - step.count
        for pool in range(first, len(state.view.pools)):
            answers = self.answers_of(choice, pool)
            available = state.available(step.claim, choice.alternative, pool)
            if pool == first:
                available &= -(1 << start)
            if answers.errors & available:
                return True
            missing -= (answers.mask & available).bit_count()
            if missing <= 0:
                return True
        return False

    def _all_devices(self, step: Descend, choice: ExpandedAlternative) -> _Frame:
        """Take the k-th device of a request for all devices: this one or none."""
        state, claim, every = self.state, step.claim, choice.every
        if not every:
            yield DeadEnd.NO
        assert every is not None
        if step.count == len(every):
            yield (yield Descend(claim, step.request + 1))
        if len(state.picks[claim]) + len(every) - step.count > MAX_DEVICES:
            yield DeadEnd.TOO_MANY
        self.budget.step()
        pool, position = every[step.count]
        pick = state.pick(claim, choice.alternative, pool, position, strict=True)
        if pick is None:
            yield DeadEnd.NO
        else:
            failure = yield Descend(claim, step.request, step.alternative, step.count + 1)
            state.give_back(pick)
            yield failure


def _selector_error(name: str, why: str, request: str | None = None) -> FatalError:
    """Return the error of a slice with a node selector that cannot be parsed."""
    return FatalError(
        f"ResourceSlice {name}: {why}",
        Reason.NODE_SELECTOR_INVALID,
        request=request,
        subject=("ResourceSlice", name),
    )
