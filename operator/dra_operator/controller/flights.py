"""Flights: which claims have a write on its way, and what must wait for it.

A write is conditional on the resourceVersion it was decided on. Two at once for one claim would make the
second fail, so a claim has one write on its way; a decision made meanwhile is held here until the answer
tells the new version.
"""

from dataclasses import dataclass

from dra_operator.cluster.writes import AllocateWrite, Write
from dra_operator.controller.claims import Key


@dataclass(slots=True)
class _Flight:
    write: Write
    held: AllocateWrite | None = None


class Flights:
    """Writes on their way, one for each claim."""

    def __init__(self) -> None:
        self._flights: dict[Key, _Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, key: Key) -> bool:
        return key in self._flights

    def allocating(self, key: Key) -> bool:
        """True if an allocation of the claim is on its way or held."""
        flight = self._flights.get(key)
        return flight is not None and (isinstance(flight.write, AllocateWrite) or flight.held is not None)

    def start(self, write: Write) -> bool:
        """Note that a write is needed; return whether it may go out now. An allocation that may not is held."""
        key = (write.namespace, write.name)
        flight = self._flights.get(key)
        if flight is None:
            self._flights[key] = _Flight(write)
            return True
        if isinstance(write, AllocateWrite):
            flight.held = write
        return False

    def finish(self, write: Write) -> tuple[bool, AllocateWrite | None]:
        """Note the answer to a write; return whether it was waited for, and the allocation held for it."""
        key = (write.namespace, write.name)
        flight = self._flights.get(key)
        if flight is None or flight.write is not write:
            return False, None
        del self._flights[key]
        return True, flight.held
