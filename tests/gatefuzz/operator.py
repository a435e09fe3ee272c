"""An operator without a network: its cycle, what it has been told, and its writes, each patch of which is a step."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Decider
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stale, Stored, Write, WriteOutcome
from dra_operator.controller.claims import ClaimScope, pod_use
from dra_operator.controller.cycle import SchedulingCycle
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.metrics import Metrics
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger
from gatefuzz.server import ConflictError, Key, Server

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class PendingWrite:
    """A write under way: the patches that are left, and the version that the next one is conditional on."""

    write: Write
    version: str
    left: list[Any]
    sender: "Operator"

    @property
    def key(self) -> Key:
        """The object that is written."""
        kind = "Pod" if self.write.resource == "pods" else "ResourceClaim"
        return kind, *self.write.key

    def step(self, server: Server) -> WriteOutcome | None:
        """Send the next patch; return what came of the write, None while patches are left."""
        patch = self.left.pop(0).body
        try:
            body = server.patch(self.key, self.write.uid, self.version, patch)
        except ConflictError as conflict:
            return Stale(self.write, conflict.body, "the object has been modified")
        self.version = body["metadata"]["resourceVersion"]
        return None if self.left else Stored(self.write, body)


@dataclass(eq=False)
class Operator:
    """One process. It lists what is stored when it is made, and is told of changes as `tell` says."""

    server: Server
    clock: Callable[[], float]
    number: int
    pending: list[PendingWrite] = field(default_factory=list)
    told: set[tuple[str, str]] = field(default_factory=set)
    """Name and reason of each Event."""
    messages: set[tuple[str, str]] = field(default_factory=set)
    """Name and message of each Event."""
    is_killed: bool = False

    def __post_init__(self) -> None:
        self._told = len(self.server.events)
        self._version = self.server.version
        self._known: dict[Key, int] = {}
        self._items: list[Any] = []
        self.metrics = Metrics()
        inventory, ledger = Inventory(), Ledger()
        began = self.clock()
        allocator = self.allocator = Allocator(
            inventory, ledger, clock=self.clock, share_ids=lambda: "", decider=Decider.OPERATOR
        )
        self.cycle = SchedulingCycle(
            inventory,
            ledger,
            allocator,
            explainer=Explainer(allocator),
            metrics=self.metrics,
            event_refresh=1200,
            clock=self.clock,
            wall=lambda: START + timedelta(seconds=self.clock() - began),
            has_told=lambda version: int(version) <= self._version,
            scope=ClaimScope.GATED,
        )
        for key, body in self.server.objects.items():
            self._take_in(Delta(*key, copy.deepcopy(body)), int(body["metadata"]["resourceVersion"]))

    def tell(self, count: int) -> None:
        """Let the watches bring some changes."""
        for version, delta in self.server.events[self._told : self._told + count]:
            self._take_in(delta, version)
            self._told += 1
            self._version = version

    @property
    def is_behind(self) -> bool:
        """Whether there is something to tell."""
        return self._told < len(self.server.events)

    def observe(self, item: Any) -> None:
        """Have something taken in by the next cycle."""
        self._items.append(item)

    def run(self) -> None:
        """Run a cycle."""
        items, self._items = self._items, []
        out: list[Any] = []
        self.cycle.run(items, out.extend, lambda: False)
        for effect in out:
            if isinstance(effect, EventRequest):
                self.told.add((effect.subject.name, effect.reason))
                self.messages.add((effect.subject.name, effect.message))
                continue
            left = list(effect.patches)
            if left:
                self.pending.append(PendingWrite(effect, effect.version, left, self))
            else:
                self._items.append(Stale(effect, None, "nothing was sent"))

    def send_one(self, chance: Random) -> None:
        """Let a patch of some write reach the API server."""
        if self.pending:
            pending = chance.choice(self.pending)
            if (outcome := pending.step(self.server)) is not None:
                self.pending.remove(pending)
                self.answer(outcome)

    def answer(self, outcome: WriteOutcome) -> None:
        """Take in the answer to a write, with the state that it brought."""
        body = outcome.body if isinstance(outcome, Stored | Stale) else None
        if body is not None:
            metadata = body["metadata"]
            delta = Delta(body["kind"], metadata.get("namespace", ""), metadata["name"], body)
            self._take_in(delta, int(metadata["resourceVersion"]))
        self._items.append(outcome)

    def metrics_of_errors(self) -> list[tuple[str, float]]:
        """Return the defects that were met, by place."""
        return [
            (str(sample.labels), sample.value)
            for family in self.metrics.errors.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.value
        ]

    def _take_in(self, delta: Delta, version: int) -> None:
        """Take in a change that is newer than what is known, as the reflector does."""
        key = delta.kind, delta.namespace, delta.name
        if version <= self._known.get(key, -1):
            return
        self._known[key] = version
        self._items.append(delta)
        if delta.kind == "Pod":
            gone = {
                "metadata": {"namespace": delta.namespace, "name": delta.name, "deletionTimestamp": "now"}
            }
            self._items.append(pod_use(delta.body or gone))
