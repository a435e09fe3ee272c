"""In-flight writes: which claims have a write under way, and what must wait for its answer.

A write is conditional on the resourceVersion it was decided on. Two at once for one claim would make the second fail,
so an allocation that is decided meanwhile is queued until the answer tells the new version.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dra_operator.cluster.rule_writer import RuleWrite
from dra_operator.cluster.writes import AllocateWrite, Write
from dra_operator.controller.claims import Key
from dra_operator.controller.event_dedup import EventRequest

Effect: TypeAlias = Write | RuleWrite | EventRequest
"""What a cycle wants done on the event loop."""


@dataclass(slots=True)
class _InFlight:
    write: Write
    queued: AllocateWrite | None = None


class InFlightWrites:
    """Writes that were sent and not answered, one for each claim. `send` gets those that may go out."""

    def __init__(self, send: Callable[[Write], None]) -> None:
        self.nodes: dict[Key, str] = {}
        """The node each allocation that is sent was decided for."""
        self._send = send
        self._writes: dict[Key, _InFlight] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def __contains__(self, key: Key) -> bool:
        return key in self._writes

    def is_allocating(self, key: Key) -> bool:
        """True if an allocation of the claim is sent or queued."""
        found = self._writes.get(key)
        return found is not None and (isinstance(found.write, AllocateWrite) or found.queued is not None)

    def submit(self, write: Write) -> None:
        """Send a write if the claim has none in flight; else queue an allocation, and drop anything else."""
        key = (write.namespace, write.name)
        found = self._writes.get(key)
        if found is None:
            self._writes[key] = _InFlight(write)
            self._send(write)
        elif isinstance(write, AllocateWrite):
            found.queued = write

    def finish(self, write: Write) -> tuple[bool, AllocateWrite | None]:
        """Take in the answer to a write; return whether it was waited for, and the allocation queued behind it."""
        key = (write.namespace, write.name)
        found = self._writes.get(key)
        if found is None or found.write is not write:
            return False, None
        del self._writes[key]
        return True, found.queued


def text(key: Key) -> str:
    """Return a claim's key as people write it."""
    return "/".join(key)
