"""Equivalence cache: which nodes have said no to which search problem.

Taking devices never makes a node fit that did not fit before, so a no holds until something comes back on that node.
What came back is read from a log when the same is asked again; nothing is kept up to date for what nobody asks.
Source: docs/engine sections 1 and 4.
"""

from dataclasses import dataclass, field

from dra_operator.allocator.matching.equivalence import drop_older_half
from dra_operator.ledger import Log


@dataclass(slots=True)
class Feasibility:
    """What is known of a search problem: `open_nodes` may serve it or end it with an error, the others have said no.

    `position` is where the log was read last.
    """

    position: int
    open_nodes: int = -1

    def catch_up(self, log: Log) -> None:
        """Open nodes again on which something came back."""
        came_back = log.since(self.position)
        if came_back is None:
            self.open_nodes = log.joined(self.position, self.open_nodes)
        else:
            self.open_nodes |= came_back


@dataclass(slots=True)
class EquivalenceCache:
    """Search problems by what is asked. If they are too many, those not asked for longest are forgotten."""

    log: Log
    maximum: int = 4096
    _known: dict[object, Feasibility] = field(default_factory=dict)

    def get(self, problem: object) -> Feasibility:
        """Return what is known of a problem, caught up with the log."""
        log, known = self.log, self._known
        end = log.end
        found = known.pop(problem, None)
        if found is None:
            if len(known) >= self.maximum:
                drop_older_half(known)
            found = Feasibility(end)
        elif found.position != end:
            found.catch_up(log)
            found.position = end
        known[problem] = found
        return found
