"""Search problems: which nodes have said no to which question."""

from dataclasses import dataclass

from dra_operator.allocator.nodes.memory import Learnt
from dra_operator.ledger import Log


@dataclass(slots=True)
class SearchProblem(Learnt):
    """A search problem. The nodes in `maybe` may serve it or end it with an error; the others have said no."""

    maybe: int = -1

    def catch_up(self, log: Log) -> None:
        """Ask nodes again on which something came back."""
        came_back = log.since(self.position)
        if came_back is None:
            self.maybe = log.joined(self.position, self.maybe)
        else:
            self.maybe |= came_back
