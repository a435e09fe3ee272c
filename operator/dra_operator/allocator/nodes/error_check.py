"""Error check: on which nodes a request cannot meet an error, so that they may be left out.

A request for ordinary amounts can meet three: a selector that fails, a capacity of which an ordinary amount is an
error, and a device with a broken node selector. Selectors are asked once for all slices that are alike in what they
read, and about all devices, used or not. That a node has no error holds until something comes back or changes there.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import CandidateKey
from dra_operator.allocator.matching.equivalence import FieldSet
from dra_operator.allocator.nodes.equivalence_cache import Feasibility
from dra_operator.allocator.nodes.filters import FilterContext
from dra_operator.inventory import NodeView, Slice

_MOST_KINDS = 64
"""If there are more kinds of slices, they are probably all different, and none is worth remembering."""


@dataclass(slots=True)
class ErrorFreeNodes:
    """The nodes on which some keys, whose amounts are ordinary, meet no error: those closed in all `answers`."""

    context: FilterContext
    keys: Sequence[CandidateKey]
    answers: Sequence[Feasibility]
    _reads: Sequence[FieldSet] = ()
    _failing: dict[object, bool] = field(default_factory=dict)

    @classmethod
    def build(cls, context: FilterContext, keys: Sequence[CandidateKey]) -> "ErrorFreeNodes":
        """Return what is known of the selectors of some keys."""
        contents = [key.content for key in keys]
        answers = [
            context.error_free.get((item.class_selectors, item.request_selectors)) for item in contents
        ]
        return cls(context, keys, answers)

    def among(self, nodes: int) -> int:
        """Return which of the nodes are known to have no error."""
        for answer in self.answers:
            nodes &= ~answer.open_nodes
        return nodes

    def verify(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view have no error, which is remembered; false if they have or may have one.

        Raises AbortedError.
        """
        for pool in view.pools:
            if not self.context.availability.states[pool.serial].free:
                continue
            if pool.selector_errors:
                return False
            for slice_ in pool.slices:
                if not slice_.is_ordinary or self._may_fail(slice_, budget):
                    return False
        for answer in self.answers:
            answer.open_nodes &= ~view.nodes
        return True

    def _may_fail(self, slice_: Slice, budget: Budget) -> bool:
        """True if a selector fails on a device of a slice, used or not, or if that was not found out."""
        if not self._reads:
            every = [
                reads
                for key in self.keys
                for reads in self.context.candidates.selection(key).all_field_sets()
            ]
            self._reads = tuple(dict.fromkeys(every))
        kind = tuple([reads.key(slice_) for reads in self._reads])
        found = self._failing.get(kind)
        if found is None:
            if len(self._failing) >= _MOST_KINDS:
                return True
            answers = (
                self.context.candidates.selection(key).answer(slice_, slice_.every, budget)
                for key in self.keys
            )
            found = self._failing[kind] = any(failed for _, _, failed in answers)
        return found
