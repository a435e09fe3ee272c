"""Selectors that fail on some devices, of a claim that is allocated all the same: the search did not reach those.

kube-scheduler looks at all nodes at once and refuses the claim from the start; here it waits once the devices are in
use that come before those. So it is told early. What is known already costs nothing; of the rest few are evaluated.
Source: docs/differences.md, `selector-error-elsewhere`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.candidates import Candidates, KeyContent
from dra_operator.allocator.matching.failures import in_class, in_request, partly_failing
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.explain.pools import PublishedSlices
from dra_operator.explain.relax import Kept
from dra_operator.inventory import Slice, bits

_MOST_EVALUATIONS: Final = 1000
_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Failing:
    """An expression by its number among all of class and request, and the devices it was asked about and fails on.

    `is_all` is false if not all devices were looked at.
    """

    number: int
    slice_: Slice
    index: int
    asked: int = 0
    failed: int = 0
    is_all: bool = True


class _FewEvaluations(Budget):
    """A budget that also ends after some evaluations of selectors; those of one slice are all made."""

    __slots__ = ("_left",)

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(Limits(None, _SECONDS), clock)
        self._left = _MOST_EVALUATIONS

    def count_evaluations(self, times: int) -> None:
        """Count evaluations of selectors."""
        self._left -= times

    def check(self) -> None:
        """Raise AbortedError if there were too many evaluations, or the time is used up."""
        if self._left < 0:
            raise AbortedError(f"{_MOST_EVALUATIONS} devices were looked at")
        self.check_time()


@dataclass(slots=True)
class FailingSelectors:
    """Finds such selectors."""

    published: PublishedSlices
    candidates: Candidates
    _known: Kept = field(default_factory=Kept)

    def find(self, plan: ClaimPlan, clock: Callable[[], float]) -> list[str]:
        """Return a sentence for each selector of a claim that fails on devices; views must be up to date."""
        return list(dict.fromkeys(self._sentences(plan, clock)))

    def _sentences(self, plan: ClaimPlan, clock: Callable[[], float]) -> Iterator[str]:
        version = self.published.inventory.version
        for item in [item for request in plan.requests for item in request.alternatives]:
            content = item.key.content
            of_class, of_request = content.class_selectors, content.request_selectors
            known = self._known.find(version, (of_class, of_request), partial(self._find, content, clock))
            for found in known:
                source, number = in_class(item.device_class.metadata.name, item.name), found.number
                if number >= len(of_class):
                    source, number = in_request(plan.title, item.name), number - len(of_class)
                yield partly_failing(
                    self.candidates.selectors.get((*of_class, *of_request)[found.number]),
                    source,
                    number,
                    found.slice_,
                    found.index,
                    failed=found.failed,
                    asked=found.asked if found.is_all else None,
                )

    def _find(self, content: KeyContent, clock: Callable[[], float]) -> Sequence[_Failing]:
        """Ask all expressions together, as the search did, and where they fail one after the other."""
        selectors = self.candidates.selectors
        budget = selectors.budget = _FewEvaluations(clock)
        of_class, of_request = content.class_selectors, content.request_selectors
        together = selectors.joined(of_class, of_request)
        slices = self._known.find(self.published.inventory.version, "slices", self._alike)
        failing: list[tuple[Slice, int]] = []
        is_all = True
        try:
            for slice_, times in slices:
                if together.answer(slice_, slice_.every, budget)[2]:
                    failing.append((slice_, times))
                budget.check()
        except AbortedError:
            is_all = False
        if not failing:
            return ()
        return self._ask_each((*of_class, *of_request), slices if is_all else failing, clock, is_all=is_all)

    def _alike(self) -> Sequence[tuple[Slice, int]]:
        """Return the first of slices that are alike in all that selectors read, and how many each stands for."""
        found: dict[object, list[Slice]] = {}
        for slice_ in self.published:
            # Devices that cannot be read are not in columns.
            key = slice_.serial if slice_.unreadable else (slice_.schema, slice_.serials)
            found.setdefault(key, []).append(slice_)
        return [(alike[0], len(alike)) for alike in found.values()]

    def _ask_each(
        self,
        expressions: Sequence[str],
        slices: Sequence[tuple[Slice, int]],
        clock: Callable[[], float],
        *,
        is_all: bool,
    ) -> Sequence[_Failing]:
        """Return those of some selectors that fail; each is asked about the devices that those before it select."""
        budget = _FewEvaluations(clock)
        selectors = [self.candidates.selectors.get(expression) for expression in expressions]
        found: dict[int, _Failing] = {}
        asked = [0] * len(selectors)
        try:
            for slice_, times in slices:
                left = slice_.every
                for number, selector in enumerate(selectors):
                    selected, failed = selector.ask(slice_, left, budget)
                    asked[number] += left.bit_count() * times
                    if failed:
                        first = found.get(number) or _Failing(number, slice_, bits.lowest(failed))
                        found[number] = replace(first, failed=first.failed + failed.bit_count() * times)
                    left = selected
                budget.check()
        except AbortedError:
            is_all = False
        return [replace(item, asked=asked[number], is_all=is_all) for number, item in sorted(found.items())]
