"""Selectors that fail on some devices, of a claim that is allocated all the same: the search did not reach those.

kube-scheduler looks at all nodes at once and refuses the claim from the start; here it waits once the devices are in
use that come before those. So it is told early. What is known already costs nothing; of the rest few are evaluated.
Source: docs/differences.md, `selector-error-elsewhere`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.explanation.answer_cache import AnswerCache
from dra_operator.allocator.explanation.pool_records import PublishedSlices
from dra_operator.allocator.matching.candidates import Candidates, KeyContent
from dra_operator.allocator.matching.failures import Whereabouts, in_class, in_request, partly_failing
from dra_operator.allocator.matching.selectors import SelectorAnswers
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.inventory import Slice, bits

_MOST_EVALUATIONS: Final = 1000
_SECONDS: Final = 0.5
_MOST_KNOWN: Final = 1024

_Expressions = tuple[tuple[str, ...], tuple[str, ...]]
"""Those of a class, and those of a request."""

_Alike = tuple[Slice, int]
"""A slice, and how many look like it to every selector."""


@dataclass(frozen=True, slots=True)
class _Failing:
    """An expression by its number among all of class and request, and the devices it was asked about and fails on.

    `is_all` is false if not all devices were looked at.
    """

    number: int
    asked: int
    failed: int
    slice_: Slice
    index: int
    is_all: bool


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
    _known: AnswerCache[tuple[_Failing, ...]] = field(init=False)
    _slices: AnswerCache[list[_Alike]] = field(init=False)

    def __post_init__(self) -> None:
        self._known = AnswerCache(_MOST_KNOWN, self._version)
        self._slices = AnswerCache(1, self._version)

    def _version(self) -> object:
        return self.published.inventory.version

    def find(self, plan: ClaimPlan, clock: Callable[[], float]) -> list[str]:
        """Return a sentence for each selector of a claim that fails on devices; views must be up to date."""
        return list(dict.fromkeys(self._sentences(plan, clock)))

    def _sentences(self, plan: ClaimPlan, clock: Callable[[], float]) -> Iterator[str]:
        for request in plan.requests:
            for item in request.alternatives:
                content = item.key.content
                sources = _sources(
                    content,
                    in_class(item.device_class.metadata.name, item.name),
                    in_request(plan.title, item.name),
                )
                for found in self._failing(content, clock):
                    source, number = sources[found.number]
                    selector = self.candidates.selectors.get(item.key.expressions[found.number])
                    asked = found.asked if found.is_all else None
                    yield partly_failing(
                        selector, source, number, found.slice_, found.index, failed=found.failed, asked=asked
                    )

    def _failing(self, content: KeyContent, clock: Callable[[], float]) -> tuple[_Failing, ...]:
        expressions = content.class_selectors, content.request_selectors
        return self._known.find(expressions, lambda: tuple(self._find(expressions, clock)))

    def _find(self, expressions: _Expressions, clock: Callable[[], float]) -> list[_Failing]:
        """Ask all expressions together, as the search did, and if they fail, one after the other."""
        selectors = self.candidates.selectors
        budget = selectors.budget = _FewEvaluations(clock)
        together = selectors.joined(*expressions)
        slices = self._slices.find("alike", lambda: _alike(self.published))
        failing, is_all = list[_Alike](), True
        try:
            for slice_, times in slices:
                if together.answer(slice_, slice_.every, budget)[2]:
                    failing.append((slice_, times))
                budget.check()
        except AbortedError:
            is_all = False
        if not failing:
            return []
        each = [selectors.get(expression) for expression in (*expressions[0], *expressions[1])]
        found = _ask_each(each, slices if is_all else failing, _FewEvaluations(clock))
        return found if is_all else [replace(item, is_all=False) for item in found]


def _alike(slices: Iterable[Slice]) -> list[_Alike]:
    """Return the first of slices that are alike in all that selectors read, and how many each stands for."""
    found: dict[object, list[Slice]] = {}
    for slice_ in slices:
        # Devices that cannot be read are not in columns.
        key = slice_.serial if slice_.unreadable else (slice_.schema, slice_.serials)
        found.setdefault(key, []).append(slice_)
    return [(alike[0], len(alike)) for alike in found.values()]


def _ask_each(
    selectors: Sequence[SelectorAnswers], slices: Sequence[_Alike], budget: _FewEvaluations
) -> list[_Failing]:
    """Return those of some selectors that fail; each is asked about the devices that those before it select."""
    found: dict[int, _Failing] = {}
    asked, is_all = [0] * len(selectors), True
    try:
        for slice_, times in slices:
            left = slice_.every
            for number, selector in enumerate(selectors):
                selected, failed = selector.ask(slice_, left, budget)
                asked[number] += left.bit_count() * times
                if failed:
                    first = found.get(number) or _Failing(number, 0, 0, slice_, bits.lowest(failed), True)
                    found[number] = replace(first, failed=first.failed + failed.bit_count() * times)
                left = selected
            budget.check()
    except AbortedError:
        is_all = False
    return [replace(item, asked=asked[number], is_all=is_all) for number, item in sorted(found.items())]


def _sources(
    content: KeyContent, of_class: Whereabouts, of_request: Whereabouts
) -> list[tuple[Whereabouts, int]]:
    """Return where each expression stands, and its number there."""
    return [
        *((of_class, number) for number in range(len(content.class_selectors))),
        *((of_request, number) for number in range(len(content.request_selectors))),
    ]
