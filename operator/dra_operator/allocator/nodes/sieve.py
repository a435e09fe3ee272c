"""The sieve: nodes with too few devices for a request are left out without a search.

After searches in vain, the next nodes often have too few devices to begin with, for example if a claim asks for a value
that only one device has. Counting the devices is cheaper than a search, and nothing is kept about the node but that it
said no.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.shortcut import Shortcut
from dra_operator.allocator.plan import Alternative
from dra_operator.inventory import NodeView


@dataclass(frozen=True, slots=True)
class Sieve(Shortcut):
    """Leaves out nodes with too few devices for each alternative of the first request."""

    candidates: Candidates
    alternatives: Sequence[Alternative]

    def finds_lack(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view have too few devices; false if not, or if a device may be an error.

        Raises AbortedError.
        """
        for item in self.alternatives:
            key, missing = item.key, item.count or 0
            for pool in view.pools:
                free = pool.free
                if not free or pool.driver in key.refused:
                    continue
                answers = key.answers.get(pool.serial)
                if answers is None or free & answers.unknown:
                    # If nobody else asks the same, the answers are not kept: that the node says no is enough.
                    selection = key.selection
                    if (
                        selection
                        and selection.is_alone
                        and pool.nodes == view.nodes
                        and selection.refuses(pool, free, budget)
                    ):
                        continue
                    # Answers about a pool that other nodes see as well are kept.
                    answers = self.candidates.find(key, pool, budget, free)
                if answers.errors & free:
                    return False
                missing -= (answers.mask & free).bit_count()
                if missing <= 0:
                    return False
        return True
