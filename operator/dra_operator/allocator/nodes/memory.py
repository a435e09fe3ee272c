"""Memory: what was learnt about nodes, by what was asked.

When a device is taken, no node starts to fit that did not fit before. So what was learnt of a node that has too little
holds until something comes back there, and retrying a claim that fits nowhere costs next to nothing. What came back is
read from a log when the same is asked again; nothing is kept up to date for questions that nobody asks.
Source: docs/engine sections 1 and 4.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dra_operator.allocator.matching.room import drop_older_half
from dra_operator.ledger import Log


@dataclass(slots=True)
class Learnt:
    """What was learnt from one question; at first, nothing. `position` is where the log was read last."""

    position: int

    def catch_up(self, log: Log) -> None:
        """Forget what may no longer hold, by what is in the log from the position on."""
        raise NotImplementedError


_Learnt = TypeVar("_Learnt", bound=Learnt)


@dataclass(slots=True)
class Memory(Generic[_Learnt]):
    """What was learnt from some questions. If they are too many, those not asked for longest are forgotten."""

    log: Log
    new: Callable[[int], _Learnt]
    maximum: int = 4096
    _known: dict[object, _Learnt] = field(default_factory=dict)

    def of(self, question: object) -> _Learnt:
        """Return what was learnt from a question and still holds."""
        log, known = self.log, self._known
        end = log.end
        found = known.pop(question, None)
        if found is None:
            if len(known) >= self.maximum:
                drop_older_half(known)
            found = self.new(end)
        elif found.position != end:
            found.catch_up(log)
            found.position = end
        known[question] = found
        return found
