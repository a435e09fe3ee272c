"""The dry run: what stands in for the writer and the recorder of Events where nothing is to be written.

A write is made to the claim in memory, as the API server would make it, so that it counts for what is decided next; an
Event is shown. What happens to the claim in the cluster counts from then on, and when somebody else allocates in a
pool, what was only assumed there is decided again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Body, Conflict, Gone, Unsent, Write, Written, allocation_of, steps
from dra_operator.controller.claims import Key
from dra_operator.controller.cycle import Item
from dra_operator.controller.event_dedup import EventRequest

REPORTED_UP_TO = "0"
"""The version up to which Events have been shown: whatever claims say already is shown once more."""

_CLAIM = KINDS["ResourceClaim"].kind
_Pool: TypeAlias = tuple[str, str]
"""Driver and name of a pool."""


@dataclass(slots=True)
class DryRun:
    """Takes the place of `cluster.writer.Writer` and `cluster.events.EventRecorder`; used on the event loop.

    `show` gets each Event that would be created, unless the last one of its object said the same.
    """

    busy = False

    show: Callable[[EventRequest], None]
    _shown: dict[tuple[str, str, str], EventRequest] = field(default_factory=dict)
    _put: Callable[[Item], None] = lambda _: None
    _stored: dict[Key, Body] = field(default_factory=dict)
    """The claims as they are in the cluster."""
    _assumed: dict[Key, Body] = field(default_factory=dict)
    """Those that would be different, as they would be."""

    def deliver_to(self, put: Callable[[Item], None]) -> None:
        """Deliver what would change, and the outcomes of writes, to `put`."""
        self._put = put

    def observe(self, delta: Delta) -> None:
        """Take in what happened in the cluster, before it is delivered."""
        if delta.body is None:
            self._shown.pop((delta.kind, delta.namespace, delta.name), None)
        if delta.kind != _CLAIM:
            return
        key = (delta.namespace, delta.name)
        self._assumed.pop(key, None)
        before, after = self._stored.pop(key, None), delta.body
        if after is None:
            return
        self._stored[key] = after
        pools = set(_pools(after))
        if pools and (before is None or not allocation_of(before)):
            for other in [key for key, body in self._assumed.items() if not pools.isdisjoint(_pools(body))]:
                del self._assumed[other]
                self._put(Delta(_CLAIM, *other, self._stored[other]))

    def submit(self, write: Write) -> None:
        """Make a write in memory; its outcome arrives later."""
        key = (write.namespace, write.name)
        if write.resource == "pods":
            # Only claims are kept: what follows a hand-over is not known anyway.
            self._put(Unsent(write))
            return
        body = self._assumed.get(key) or self._stored.get(key)
        if not steps(write):
            self._put(Unsent(write))
        elif body is None or body["metadata"]["uid"] != write.uid:
            self._put(Gone(write))
        elif body["metadata"]["resourceVersion"] != write.resource_version:
            self._put(Conflict(write, None, "the claim has changed meanwhile"))
        else:
            for step in steps(write):
                body = _merged(body, step.patch())
            self._assumed[key] = body
            is_gone = body["metadata"].get("deletionTimestamp") and not body["metadata"].get("finalizers")
            self._put(Delta(_CLAIM, *key, None if is_gone else body))
            self._put(Written(write, body))

    def record(self, event: EventRequest) -> None:
        """Show an Event that is news."""
        subject = event.subject
        about = (subject.kind, subject.namespace, subject.name)
        if self._shown.get(about) != event:
            self._shown[about] = event
            self.show(event)

    async def drain(self, _seconds: float) -> int:
        """Return how many writes were left unfinished: none, as none takes any time."""
        return 0


def _pools(body: Body) -> Iterator[_Pool]:
    """Yield the pools of which a claim holds devices."""
    for result in ((allocation_of(body) or {}).get("devices") or {}).get("results") or ():
        yield result["driver"], result["pool"]


def _merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> Body:
    """Return a document with a merge-patch applied. Source: RFC 7396."""
    merged = dict(document)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            below = merged.get(name)
            merged[name] = _merged(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged
