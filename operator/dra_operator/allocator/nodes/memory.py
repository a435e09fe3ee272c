"""Memory: which nodes have said no to which question (an equivalence cache).

When a device is taken, no node starts to fit that did not fit before. So a no holds until something comes back on that
node, and retrying a claim that fits nowhere costs next to nothing. What came back is read from a log when the same is
asked again; nothing is kept up to date for questions that nobody asks. Source: docs/engine sections 1 and 4.
"""

from dataclasses import dataclass, field

from dra_operator.allocator.matching.equivalence import drop_older_half
from dra_operator.ledger import Log


@dataclass(slots=True)
class SearchProblem:
    """A search problem. The nodes in `maybe` may serve it or end it with an error; the others have said no.

    `position` is where the log was read last.
    """

    position: int
    maybe: int = -1

    def catch_up(self, log: Log) -> None:
        """Ask nodes again on which something came back."""
        came_back = log.since(self.position)
        if came_back is None:
            self.maybe = log.joined(self.position, self.maybe)
        else:
            self.maybe |= came_back


@dataclass(slots=True)
class Memory:
    """Search problems by what is asked. If they are too many, those not asked for longest are forgotten."""

    log: Log
    maximum: int = 4096
    _known: dict[object, SearchProblem] = field(default_factory=dict)

    def get(self, question: object) -> SearchProblem:
        """Return the problem of a question, caught up with the log."""
        log, known = self.log, self._known
        end = log.end
        found = known.pop(question, None)
        if found is None:
            if len(known) >= self.maximum:
                drop_older_half(known)
            found = SearchProblem(end)
        elif found.position != end:
            found.catch_up(log)
            found.position = end
        known[question] = found
        return found
