"""Replay: what jobs of a record would have got, and when: a simulation by events with the allocator of the operator.

At each event all that waits is tried in its order, on the first node by name that fits, and later jobs may overtake.
Equal jobs are tried once, and only where something may fit now that did not before: a node that refused a job refuses
it until something comes back there. Source: docs/history.md, "Replay".
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush
from itertools import count

from dra_operator.allocator.decision import Allocated, Explanation, Failed
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.history.jobs import Job, Shape, SharedClaim
from dra_operator.history.reader import Span
from dra_operator.history.timeline import EVERYWHERE, Fit, History, Timeline
from dra_operator.pods.claims import MOST_CONSUMERS
from dra_operator.pods.explanation import LIMITS, NodeSet, PodExplanation, explain_no_node, explain_together


class Order(StrEnum):
    """In which order jobs are tried: as they came, or by priority first."""

    FIFO = "fifo"
    PRIORITY = "priority"


@dataclass(slots=True, eq=False)
class Run:
    """When and where a job ran, and what its own claims had, by which `number` it is known."""

    number: int
    job: Job
    started: int
    ended: int | None
    node: str
    allocations: tuple[AllocationResult, ...]

    def name_claims(self) -> Iterator[tuple[str, str, AllocationResult]]:
        """Yield what it had, under names that no other run has: jobs of one name may run at the same time."""
        for place, result in enumerate(self.allocations):
            name = f"{self.job.name}#{self.number}"
            yield self.job.namespace, f"{name}.{place}" if place else name, result


@dataclass(slots=True)
class _Shared:
    """What a shared claim has while pods run that name it, and the queues of jobs that do."""

    queues: "list[_Queue]" = field(default_factory=list)
    run: Run | None = None
    users: int = 0

    @property
    def allocation(self) -> AllocationResult | None:
        """What it has."""
        return None if self.run is None else self.run.allocations[0]


@dataclass(slots=True, eq=False)
class _Queue:
    """The waiting jobs of a shape, a heap by their order. `is_open`: it is not known which nodes refused it."""

    shape: Shape
    fit: Fit | None
    jobs: list[tuple[tuple[int, int], Job]] = field(default_factory=list)
    is_open: bool = True
    failed_in: tuple[int, int, int] | None = None
    """Versions of ledger and inventory, and the nodes, with which the last try ended in an error."""


@dataclass(frozen=True, slots=True)
class UnservedJobs:
    """Equal jobs that wait at the end: how many, the first of them, and why, by a reason of docs/reasons.md."""

    jobs: int
    first: str
    reason: str
    message: str


class Replay:
    """Runs jobs, sorted by arrival, on a timeline."""

    def __init__(self, history: History, span: Span, jobs: Iterable[Job], order: Order = Order.FIFO) -> None:
        self.timeline = Timeline(history, span)
        self.runs: list[Run] = []
        self.shared_runs: list[Run] = []
        """From when until when shared claims had devices, each with the job that got them."""
        self._span = span
        self._order = order
        self._jobs = deque(jobs)
        self._numbers = count()
        self._ends: list[tuple[int, int, Run]] = []
        self._queues: dict[Shape, _Queue] = {}
        self._waiting: dict[_Queue, None] = {}
        self._shared: dict[SharedClaim, _Shared] = {}

    def run(self) -> list[Run]:
        """Return the runs in the order of their beginning; jobs without one waited to the end."""
        self.timeline.advance(self._span.since)
        self._keep_held()
        while (at := self._next_at()) < self._span.until:
            while self._ends and self._ends[0][0] <= at:
                self._end(heappop(self._ends)[2])
            self.timeline.advance(at)
            while self._jobs and self._jobs[0].arrival <= at:
                self._enqueue(self._jobs.popleft())
            self._try_all(at)
            self.timeline.forget_changes()
        return self.runs

    def find_unserved(self, most: int) -> Iterator[UnservedJobs]:
        """Yield what waits after a run and why, so many of different shapes, what most jobs have first."""
        for queue in sorted(self._waiting, key=lambda queue: -len(queue.jobs))[:most]:
            job, found = queue.jobs[0][1], self._explain(queue)
            yield UnservedJobs(len(queue.jobs), f"{job.namespace}/{job.name}", found.reason, found.message)

    def _explain(self, queue: _Queue) -> Explanation | PodExplanation:
        state, shape, names = self.timeline.state, queue.shape, None
        if queue.fit is not None:
            filters = queue.fit.filters
            obstacles = {name: filters.find_obstacle(entry) for name, entry in state.pods.nodes.items()}
            suitable = tuple([name for name in self.timeline.names if obstacles.get(name) is None])
            # All that can be used are the same as none named.
            names = None if len(suitable) == len(obstacles) else suitable
            if not suitable:
                return explain_no_node({name: each for name, each in obstacles.items() if each is not None})
        nodes = NodeSet(state.explainers[shape.decider], shape.decider, LIMITS, names)
        asked = [each for each in shape.claims if not self._is_there(each)]
        claims = {
            str(number): each.claim if isinstance(each, SharedClaim) else each
            for number, each in enumerate(asked, 1)
        }
        alone = {name: nodes.decide([claim]) for name, claim in claims.items()}
        for name, decision in alone.items():
            if not isinstance(decision, Allocated):
                return nodes.explain(claims[name], decision)
        return explain_together(claims, alone, nodes)

    def _next_at(self) -> int:
        times = [self._ends[0][0]] if self._ends else []
        times += [self._jobs[0].arrival] if self._jobs else []
        times += [] if self.timeline.next_at is None else [self.timeline.next_at]
        return min(times, default=self._span.until)

    def _keep_held(self) -> None:
        """Leave what ran at the beginning where it was, as far as its devices are there."""
        timeline, others = self.timeline, deque[Job]()
        for job in self._jobs:
            is_whole = job.held and len(job.held) == len(job.shape.claims)
            is_there = not job.node or job.node in timeline.names
            if is_whole and is_there and all(map(timeline.has_devices, job.held)):
                self._start(job, self._queue_of(job.shape), self._span.since, job.node, job.held)
            else:
                others.append(job)
        self._jobs = others

    def _queue_of(self, shape: Shape) -> _Queue:
        if shape not in self._queues:
            fit = None if shape.requirements is None else self.timeline.find_fit(shape.requirements)
            queue = self._queues[shape] = _Queue(shape, fit)
            for claim in shape.shared:
                self._shared.setdefault(claim, _Shared()).queues.append(queue)
        return self._queues[shape]

    def _enqueue(self, job: Job) -> None:
        queue = self._queue_of(job.shape)
        rank = -job.priority if self._order is Order.PRIORITY else 0, next(self._numbers)
        heappush(queue.jobs, (rank, job))
        if queue not in self._waiting:
            self._waiting[queue] = None
            queue.is_open = True

    # --- what waits

    def _try_all(self, at: int) -> None:
        """Try all that waits once, in its order, where it may fit by now."""
        queues = (
            self._waiting if self.timeline.has_changed else [each for each in self._waiting if each.is_open]
        )
        order = [
            (queue.jobs[0][0], next(self._numbers), queue) for queue in queues if self._find_nodes(queue)
        ]
        heapify(order)
        while order:
            rank, _, queue = heappop(order)
            if not queue.jobs or queue.jobs[0][0] != rank:
                continue
            self._try(queue, at)
            if not queue.jobs:
                del self._waiting[queue]
            elif queue.jobs[0][0] != rank:
                heappush(order, (queue.jobs[0][0], next(self._numbers), queue))

    def _find_nodes(self, queue: _Queue) -> int:
        """Return the nodes on which jobs of a queue may fit."""
        timeline, fit = self.timeline, queue.fit
        if queue.is_open:
            found = EVERYWHERE
        elif fit is None:
            found = timeline.touched
        else:
            found = timeline.touched | fit.reopened
        if not found:
            return 0
        found = found & timeline.everything if fit is None else timeline.suitable(fit, found)
        for claim in queue.shape.shared:
            shared = self._shared[claim]
            if shared.users >= MOST_CONSUMERS:
                return 0
            if shared.allocation is not None:
                found &= timeline.usable(shared.allocation)
        return found

    def _try(self, queue: _Queue, at: int) -> None:
        """Start the first job of a queue if it fits."""
        nodes = self._find_nodes(queue)
        is_open, queue.is_open = queue.is_open, False
        shape, timeline = queue.shape, self.timeline
        state = timeline.state.ledger.version, timeline.state.inventory.version, nodes
        if not nodes or state == queue.failed_in:
            queue.is_open = bool(nodes)
            return
        asked = [each for each in shape.claims if not self._is_there(each)]
        results: tuple[AllocationResult, ...] = ()
        if asked:
            allocator = timeline.state.allocators[shape.decider]
            claims = [each.claim if isinstance(each, SharedClaim) else each for each in asked]
            if shape.requirements is None:
                decision = allocator.allocate(claims, nodes, decider=shape.decider)
            else:
                decision = allocator.allocate_for_pod(claims, ~nodes, decider=shape.decider)
            if not isinstance(decision, Allocated):
                # An error may come before a node that fits, and be gone at any event.
                queue.is_open = isinstance(decision, Failed)
                queue.failed_in = state if queue.is_open else None
                return
            node, results = decision.node, decision.results
        else:
            node = timeline.names[(nodes & -nodes).bit_length() - 1]
        queue.is_open = is_open
        _, job = heappop(queue.jobs)
        own: list[AllocationResult] = []
        for each, result in zip(asked, results, strict=True):
            if isinstance(each, SharedClaim):
                run = self._shared[each].run = Run(next(self._numbers), job, at, None, node, (result,))
                self.shared_runs.append(run)
                self._assume(run)
            else:
                own.append(result)
        self._start(job, queue, at, node, tuple(own))

    def _is_there(self, claim: ResourceClaim | SharedClaim) -> bool:
        """Return whether a claim has devices already, as others use it."""
        return isinstance(claim, SharedClaim) and self._shared[claim].allocation is not None

    def _start(
        self, job: Job, queue: _Queue, at: int, node: str, allocations: tuple[AllocationResult, ...]
    ) -> None:
        ended = None if job.duration is None else at + job.duration
        run = Run(next(self._numbers), job, at, ended, node, allocations)
        self._assume(run)
        for claim in queue.shape.shared:
            self._shared[claim].users += 1
        if (use := queue.shape.use) is not None:
            self.timeline.change_use(node, use, 1)
        self.runs.append(run)
        if ended is not None:
            heappush(self._ends, (ended, next(self._numbers), run))

    def _end(self, run: Run) -> None:
        """Take back what a job had, and what it shared if it was the last one."""
        shape = run.job.shape
        self._withdraw(run)
        if shape.use is not None:
            self.timeline.change_use(run.node, shape.use, -1)
        for claim in shape.shared:
            shared = self._shared[claim]
            shared.users -= 1
            if not shared.users and shared.run is not None:
                self._withdraw(shared.run)
                shared.run.ended, shared.run = run.ended, None
            if not shared.users or shared.users == MOST_CONSUMERS - 1:
                for queue in shared.queues:
                    queue.is_open = True

    def _assume(self, run: Run) -> None:
        for namespace, name, result in run.name_claims():
            self.timeline.state.ledger.assume(namespace, name, result)

    def _withdraw(self, run: Run) -> None:
        for namespace, name, result in run.name_claims():
            self.timeline.state.ledger.withdraw(namespace, name)
            self.timeline.give_back(result)
