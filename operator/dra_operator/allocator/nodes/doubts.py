"""Doubts: on which nodes a request may meet an error.

A node may be left out only if nothing there could end the attempt with an error. A request for ordinary amounts can
meet three errors: a selector that fails, a capacity of which an ordinary amount is an error, and a device with a node
selector that cannot be parsed. Whether a selector fails on a slice is found out once for all slices that are alike in
what it reads, and of all their devices, used or not. That a node has no error holds until something comes back or
changes there.
Source: docs/engine section 5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import CandidateKey, Candidates
from dra_operator.allocator.matching.equivalence import FieldSet
from dra_operator.allocator.nodes.memory import Memory, SearchProblem
from dra_operator.inventory import NodeView, Slice
from dra_operator.ledger import PoolState

_MOST_KINDS = 64
"""If there are more kinds of slices, they are probably all different, and none is worth remembering."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """Which nodes have no errors, by the selectors of class and request."""

    states: Mapping[int, PoolState]
    candidates: Candidates
    memory: Memory

    def of(self, keys: Sequence[CandidateKey]) -> "Doubt":
        """Return the doubt about some keys. Their amounts must be ordinary."""
        problems = [
            self.memory.get((slice_.class_selectors, slice_.request_selectors))
            for slice_ in [key.content for key in keys]
        ]
        return Doubt(self.states, self.candidates, keys, problems)


@dataclass(slots=True)
class Doubt:
    """The doubt about some keys. A node that is out of all `problems` has no error."""

    states: Mapping[int, PoolState]
    candidates: Candidates
    keys: Sequence[CandidateKey]
    problems: Sequence[SearchProblem]
    _reads: Sequence[FieldSet] = ()
    _failing: dict[object, bool] = field(default_factory=dict)

    def free_of(self, nodes: int) -> int:
        """Return which of the nodes are known to have no error."""
        for problem in self.problems:
            nodes &= ~problem.maybe
        return nodes

    def settle(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view have no error, which is remembered; false if they have or may have one.

        Raises AbortedError.
        """
        for pool in view.pools:
            if not self.states[pool.serial].free:
                continue
            if pool.selector_errors:
                return False
            for slice_ in pool.slices:
                if not slice_.is_ordinary or self._may_fail(slice_, budget):
                    return False
        for problem in self.problems:
            problem.maybe &= ~view.nodes
        return True

    def _may_fail(self, slice_: Slice, budget: Budget) -> bool:
        """True if a selector fails on a device of a slice, used or not, or if that was not found out."""
        if not self._reads:
            every = [reads for key in self.keys for reads in self.candidates.selection(key).all_field_sets()]
            self._reads = tuple(dict.fromkeys(every))
        kind = tuple([reads.key(slice_) for reads in self._reads])
        found = self._failing.get(kind)
        if found is None:
            if len(self._failing) >= _MOST_KINDS:
                return True
            answers = (
                self.candidates.selection(key).answer(slice_, slice_.every, budget) for key in self.keys
            )
            found = self._failing[kind] = any(failed for _, _, failed in answers)
        return found
