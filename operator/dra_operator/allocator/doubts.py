"""Doubts: on which nodes a request may meet an error.

To leave a node out is right only if nothing there could end the attempt with an error. A request for ordinary amounts
meets three: a selector that fails, capacity of which an ordinary amount is an error, and a device with a node selector
that nobody can parse. Whether a selector fails on a slice is found out once for each kind of slice that it tells apart,
whoever uses the devices; and that there is no error on a node holds until something comes back or changes there.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import CandidateKey, Candidates
from dra_operator.allocator.problems import SearchProblem, SearchProblems
from dra_operator.allocator.reads import Reads
from dra_operator.inventory import NodeView, Slice
from dra_operator.ledger import Availability

_MOST_KINDS = 64
"""If slices differ that much in what selectors read, the next ones will differ as well."""


@dataclass(slots=True)
class Doubts:
    """What is known of errors, by the selectors of class and request."""

    availability: Availability
    candidates: Candidates
    _problems: SearchProblems = field(init=False)

    def __post_init__(self) -> None:
        self._problems = SearchProblems(self.availability)

    def of(self, keys: Sequence[CandidateKey]) -> "Doubt":
        """Return the doubt about some keys, of which all amounts are ordinary."""
        problems = [
            self._problems.get((content.class_selectors, content.request_selectors))
            for content in [key.content for key in keys]
        ]
        return Doubt(self.candidates, keys, problems)


@dataclass(slots=True)
class Doubt:
    """The doubt about some keys: the nodes that are open in one of `problems`."""

    candidates: Candidates
    keys: Sequence[CandidateKey]
    problems: Sequence[SearchProblem]
    _reads: Sequence[Reads] = ()
    _failing: dict[object, bool] = field(default_factory=dict)

    def free_of(self, nodes: int) -> int:
        """Return those of some nodes on which it is known that there is no error."""
        for problem in self.problems:
            nodes &= ~problem.maybe
        return nodes

    def settle(self, view: NodeView, budget: Budget) -> bool:
        """True if there is no error on the nodes of a view, which is taken note of; false also if that is open.

        Raises AbortedError.
        """
        for pool in view.pools:
            if not pool.free:
                continue
            if pool.selector_errors:
                return False
            for content in pool.slices:
                if not content.is_ordinary or self._may_fail(content, budget):
                    return False
        for problem in self.problems:
            problem.maybe &= ~view.nodes
        return True

    def _may_fail(self, content: Slice, budget: Budget) -> bool:
        """True if a selector fails on a device of a slice, whoever uses it, or if that was not found out."""
        if not self._reads:
            every = [reads for key in self.keys for reads in self.candidates.selection(key).all_reads()]
            self._reads = tuple(dict.fromkeys(every))
        kind = tuple([reads.key(content) for reads in self._reads])
        found = self._failing.get(kind)
        if found is None:
            if len(self._failing) >= _MOST_KINDS:
                return True
            answers = (
                self.candidates.selection(key).answer(content, content.every, budget) for key in self.keys
            )
            found = self._failing[kind] = any(failed for _, _, failed in answers)
        return found
