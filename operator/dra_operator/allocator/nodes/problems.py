"""Search problems: which nodes have said no to which question.

When a device is taken, no node starts to fit that did not fit before. So a node that has said no to a search problem
stays out until something comes back there, and retrying a claim that fits nowhere costs next to nothing. What came back
is read from a log when the problem comes up again; nothing is kept up to date for problems that nobody asks about.
Source: docs/engine sections 1 and 4.
"""

from dataclasses import dataclass, field

from dra_operator.allocator.matching.room import drop_older_half
from dra_operator.ledger import Availability


@dataclass(slots=True)
class SearchProblem:
    """A search problem. The nodes in `maybe` may serve it or end it with an error; the others have said no."""

    position: int
    maybe: int


@dataclass(slots=True)
class SearchProblems:
    """The problems that were asked about, by signature. If there are too many, the oldest half is dropped."""

    availability: Availability
    maximum: int = 4096
    _known: dict[object, SearchProblem] = field(default_factory=dict)

    def get(self, signature: object) -> SearchProblem:
        """Return the problem with this signature, caught up with what came back since it was last asked about."""
        log = self.availability.log
        end = log.end
        problem = self._known.get(signature)
        if problem is None:
            if len(self._known) >= self.maximum:
                drop_older_half(self._known)
            problem = self._known[signature] = SearchProblem(end, -1)
        elif problem.position != end:
            came_back = log.since(problem.position)
            if came_back is None:
                problem.maybe = log.joined(problem.position, problem.maybe)
            else:
                problem.maybe |= came_back
            problem.position = end
        return problem

    def clear(self) -> None:
        """Forget all problems: equal signatures may now mean something else."""
        self._known.clear()
