"""Timeline: a cluster as it was at a time that moves on, or as it would have been with other objects in it.

It has nodes, devices, classes and pods without claims; what claims hold comes from whoever decides them. Each change
says on which nodes something may fit now that did not before. Source: docs/history.md, "Replay".
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, groupby
from typing import Any, Final, Protocol

from dra_operator.api.convert import Body
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import AllocationResult
from dra_operator.history.reader import Moment, Span, StateRow, build_state
from dra_operator.history.schema import POD_SHAPE, POD_SUM, SERVER
from dra_operator.inventory import PoolKey
from dra_operator.pods.claims import can_use
from dra_operator.pods.node_fit import NodeFit, PodRequirements, PodUse
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.state import ClusterState, with_enough

_KINDS: Final = (POD_SHAPE, "DeviceClass", "Namespace", "Node", "DeviceTaintRule", "ResourceSlice", POD_SUM)
"""What is taken in, in this order where it begins at once, as some depends on others."""
EVERYWHERE: Final = -1
_CORDONED: Final = "cordoned"


class History(Protocol):
    """What happened in a span, as a record has it (`reader.Reader`), or as files say."""

    span: Span
    gaps: list[Span]

    def find_gap(self, at: int) -> Span | None:
        """Return the gap that a time is in, or None."""

    def read_states(self, span: Span, *kinds: str) -> Iterator[StateRow]:
        """Yield what objects were in a span, in the order of their beginning."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is otherwise than it was: objects that are there from the beginning to the end, and those that never are.

    An object takes the place of the one of its kind and name, and slices that of all slices of their pool. With a
    node go its slices; `removed` are kinds and names.
    """

    added: tuple[Body, ...] = ()
    removed: frozenset[tuple[str, str]] = frozenset()


class ChangedHistory:
    """A history in which some objects are others; in a gap of the record the cluster is as it was before."""

    def __init__(self, history: History, changes: Changes) -> None:
        self.span = history.span
        self.gaps: list[Span] = []
        self.changes = changes
        self._history = history
        self._bridges = dict(history.gaps)
        self._names = {(each["kind"], each["metadata"]["name"]) for each in changes.added} | changes.removed
        self._pools = {pool_of(each) for each in changes.added if each["kind"] == "ResourceSlice"}

    def find_gap(self, at: int) -> None:
        """Return None."""

    def read_states(self, span: Span, *kinds: str) -> Iterator[StateRow]:
        """Yield what there is, in the order of the beginning."""
        for body in self.changes.added:
            if body["kind"] in kinds:
                name, uid = body["metadata"]["name"], body["metadata"].get("uid") or "added"
                yield StateRow(
                    body["kind"], "", name, uid, span.since, span.until, body, found=False, is_open=True
                )
        for row in self._history.read_states(span, *kinds):
            is_slice = row.kind == "ResourceSlice"
            if (row.kind, row.name) in self._names or (is_slice and pool_of(row.body) in self._pools):
                continue
            if is_slice and ("Node", row.body["spec"].get("nodeName")) in self.changes.removed:
                continue
            yield replace(row, until=self._bridges[row.until]) if row.until in self._bridges else row


def pool_of(body: Body) -> PoolKey:
    """Return the pool of a slice."""
    return body["spec"]["driver"], body["spec"]["pool"]["name"]


@dataclass(slots=True, eq=False)
class Fit:
    """Which nodes suit pods with some requirements, as sets.

    `stale` are to be looked at again; `reopened` did not suit, and may now.
    """

    filters: NodeFit
    unsuitable: int = 0
    stale: int = EVERYWHERE
    reopened: int = 0


class Timeline:
    """The cluster at `at`; sets of nodes are numbers, a bit a node, in the order of their names."""

    def __init__(self, history: History, span: Span) -> None:
        self.at = span.since
        rules = history.read_states(span, "DeviceTaintRule")
        version = next((row.body["spec"]["version"] for row in history.read_states(span, SERVER)), "")
        # The rules say whether anything is owned, which a state is told when it is made.
        self.state: ClusterState = build_state(
            Moment(span.since, tuple(row.body for row in rules), {}, version)
        )
        for name in [*self.state.inventory.rules]:
            self.state.inventory.remove("DeviceTaintRule", name)
        self.names: list[str] = []
        self.everything = 0
        """All nodes."""
        self.touched = 0
        """Where devices came back, or may be others, since `forget_changes`."""
        self._bits: dict[str, int] = {}
        self._fits: dict[PodRequirements, Fit] = {}
        self._reopened: list[Fit] = []
        self._uses: dict[str, PodUse] = {}
        self._pool_nodes: dict[PoolKey, int] = {}
        self._events = read_events(history, span, *_KINDS)
        self._next = next(self._events, None)

    @property
    def next_at(self) -> int | None:
        """When the next change is; None if there is none."""
        return None if self._next is None else self._next[0]

    def advance(self, at: int) -> None:
        """Take in all that changes up to a time, which is part of it."""
        has_come = False
        sums = Counter[tuple[str, str]]()
        self.at = at
        while self._next is not None and self._next[0] <= at:
            _, row, begins = self._next
            self._next = next(self._events, None)
            if row.kind == POD_SUM:
                # One ends where the next begins, and most of both is the same.
                node = row.name.partition("/")[0]
                for shape, number in row.body["spec"].items():
                    sums[node, shape] += number if begins else -number
            else:
                self._apply(row, begins=begins)
                has_come |= row.kind != POD_SHAPE
        for (node, shape), number in sums.items():
            if number:
                self.change_use(node, self._uses[shape], number)
        inventory = self.state.inventory
        if has_come and inventory.settlement is not None:
            inventory.settle(inventory.rules.keys(), inventory.pools.keys())
            self.touched = EVERYWHERE
        if has_come and inventory.nodes.keys() != self._bits.keys():
            self.names = sorted(inventory.nodes)
            self._bits = {name: 1 << position for position, name in enumerate(self.names)}
            self.everything = (1 << len(self.names)) - 1
            self._start_again()

    def _apply(self, row: StateRow, *, begins: bool) -> None:
        if row.kind == POD_SHAPE:
            metadata = {"name": row.name, "namespace": "default"}
            body = {"kind": "Pod", **row.body["spec"], "metadata": metadata}
            self._uses[row.name] = self.state.pods.read_use(body)
            return
        inventory, pods = self.state.inventory, self.state.pods
        key = pool_of(row.body) if row.kind == "ResourceSlice" else ("", "")
        self.touched |= self._see(key)
        if begins:
            inventory.put(read_object(row.body))
        else:
            inventory.remove(row.kind, row.name)
        if row.kind == "ResourceSlice":
            self._pool_nodes.pop(key, None)
            self.touched |= self._see(key)
            return
        if begins and row.kind in ("Node", "DeviceClass"):
            pods.put(row.kind, with_enough(row.body) if row.kind == "Node" else row.body)
        elif row.kind in ("Node", "DeviceClass"):
            pods.remove(row.kind, "", row.name)
        if row.kind != "Node":
            self._start_again()
            return
        self._pool_nodes.clear()
        bit = self._bits.get(row.name, 0)
        self.touched |= bit
        for fit in self._fits.values():
            self._reopen(fit, bit)

    def _reopen(self, fit: Fit, nodes: int) -> None:
        fit.stale |= nodes
        fit.reopened |= nodes
        self._reopened.append(fit)

    def _start_again(self) -> None:
        """Let all nodes be asked anew."""
        self._pool_nodes.clear()
        self.touched = EVERYWHERE
        for requirements, fit in self._fits.items():
            fit.filters = self.state.pods.fit(requirements)
            fit.unsuitable = 0
            self._reopen(fit, EVERYWHERE)

    @property
    def has_changed(self) -> bool:
        """Whether anything may fit that did not when `forget_changes` was called."""
        return bool(self.touched or self._reopened)

    def forget_changes(self) -> None:
        """Let what changed until now be known."""
        self.touched = 0
        for fit in self._reopened:
            fit.reopened = 0
        self._reopened.clear()

    # --- nodes that suit pods

    def find_fit(self, requirements: PodRequirements) -> Fit:
        """Return what is known of some requirements, from now on."""
        if requirements not in self._fits:
            self._fits[requirements] = Fit(self.state.pods.fit(requirements))
        return self._fits[requirements]

    def suitable(self, fit: Fit, among: int) -> int:
        """Return the nodes among some that suit."""
        among &= self.everything
        stale = fit.stale & among
        fit.stale &= ~stale
        while stale:
            bit = stale & -stale
            name = self.names[bit.bit_length() - 1]
            is_ready = self.state.inventory.nodes[name].unusable in (None, _CORDONED)
            if is_ready and fit.filters.find_obstacle(self.state.pods.nodes[name]) is None:
                fit.unsuitable &= ~bit
            else:
                fit.unsuitable |= bit
            stale ^= bit
        return among & ~fit.unsuitable

    def change_use(self, node: str, use: PodUse, number: int) -> None:
        """Let so many pods be on a node, or go if it is negative."""
        self.state.pods.add_use(node, use, number)
        bit = self._bits.get(node, 0)
        for fit in self._fits.values():
            if number > 0:
                fit.stale |= bit & ~fit.unsuitable
            elif fit.unsuitable & bit:
                self._reopen(fit, bit)

    # --- devices

    def give_back(self, allocation: AllocationResult) -> None:
        """Say that the devices of an allocation came back, to the nodes that see their pools."""
        for result in allocation.devices.results:
            self.touched |= self._see((result.driver, result.pool))

    def _see(self, key: PoolKey) -> int:
        """Return the nodes that may see devices of a pool."""
        if key not in self._pool_nodes:
            pool = self.state.inventory.pools.get(key)
            found = 0
            if pool is not None:
                for name in pool.local:
                    found |= self._bits.get(name, 0)
                found = EVERYWHERE if pool.shared else found
            self._pool_nodes[key] = found
        return self._pool_nodes[key]

    def set_of(self, node: str) -> int:
        """Return the set of one node; nothing if it is not there."""
        return self._bits.get(node, 0)

    def usable(self, allocation: AllocationResult) -> int:
        """Return the nodes on which pods can use an allocation."""
        pinned = pinned_to(allocation.node_selector)
        names = self.names if pinned is None else [pinned] if pinned in self._bits else []
        records, found = self.state.inventory.nodes, 0
        for name in names:
            node = records[name]
            if can_use(allocation, node):
                found |= self._bits[name]
        return found

    def has_devices(self, allocation: AllocationResult) -> bool:
        """Return whether all devices of an allocation are published."""
        pools = self.state.inventory.pools
        return all(
            (pool := pools.get((each.driver, each.pool))) is not None
            and any(each.device in slice_.indexes for slice_ in pool.newest())
            for each in allocation.devices.results
        )


def read_events(history: History, span: Span, *kinds: str) -> Iterator[tuple[int, StateRow, bool]]:
    """Yield what begins (true) and ends in a span, in the order of time: ends first, then what begins by kind."""
    ends: list[tuple[int, int, StateRow]] = []
    numbers = count()
    rows = groupby(history.read_states(span, *kinds), key=lambda row: max(row.since, span.since))
    for since, group in rows:
        yield from _end_until(since, ends)
        for row in sorted(group, key=lambda row: kinds.index(row.kind)):
            yield since, row, True
            if row.until < span.until:
                heappush(ends, (row.until, next(numbers), row))
    yield from _end_until(span.until, ends)


def _end_until(at: int, ends: list[tuple[int, int, StateRow]]) -> Iterator[tuple[int, StateRow, bool]]:
    while ends and ends[0][0] <= at:
        ended, _, row = heappop(ends)
        yield ended, row, False


def read_object(body: Body) -> Any:
    """Return the object of a body as an API server sends it."""
    (record,) = gather_stored([body]).records.values()
    return record.obj
