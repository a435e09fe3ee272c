"""The sieve: nodes that have too few devices for a request are left out without a search.

Where a search found nothing on some nodes, the next ones often have too few devices to begin with, as where a claim
asks for one device by a value that no two have. To count them takes less than to search, and nothing is kept of a node
but that it said no.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import Candidates
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.shortcut import Shortcut
from dra_operator.inventory import NodeView


@dataclass(frozen=True, slots=True)
class Sieve(Shortcut):
    """Leaves out nodes that have too few devices for the first request of some claims, whichever alternative it takes.

    Where there are none for it, a search begins with counting.
    """

    candidates: Candidates
    alternatives: Sequence[Alternative]

    def finds_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """True if the nodes of a view have too few devices; None if not, or if one may be an error.

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
                    # What nobody looks for is not kept either: that the node says no to the problem is enough.
                    selection = key.selection
                    if (
                        selection
                        and selection.is_alone
                        and pool.nodes == view.nodes
                        and selection.refuses(pool, free, budget)
                    ):
                        continue
                    # What other nodes see as well is asked about once, and kept.
                    answers = self.candidates.find(key, pool, budget, free)
                if answers.errors & free:
                    return None
                missing -= (answers.mask & free).bit_count()
                if missing <= 0:
                    return None
        return True
