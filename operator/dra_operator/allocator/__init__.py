"""The decision: a pure function of inventory, ledger and claims.

`allocator` joins the parts. Its steps, and where their rules are:

1. What does a claim ask for? `plan`: requests, alternatives, amounts and constraints, checked once
2. Which devices could serve it, whoever uses them? `matching`
3. Which nodes are asked? `nodes`
4. What has a node? `search`; it knows the `constraints`, and by the `budget` how long it may take
5. What comes of it? `decision`: who decides, and the four outcomes; `result`: the status of the claim; `reasons`: the
   closed list

Why a claim waits is found out by `dra_operator.explain`, of which nothing here knows.

Beside these steps: `extended` makes the claims that stand for extended resources; `self_check` decides a small
cluster at the start. docs/engine.md says why the search that counts answers as the exhaustive one does.
"""

from typing import TYPE_CHECKING

from dra_operator._lazy import lazy_names
from dra_operator.inventory import Features

if TYPE_CHECKING:
    from dra_operator.allocator.allocator import AdminAccess, Allocator
    from dra_operator.allocator.budget import Limits
    from dra_operator.allocator.decision import Allocated, Decider, Decision, Explanation, Failed, Unsatisfied
    from dra_operator.allocator.reasons import Reason
    from dra_operator.allocator.search.chain import SearchMode
else:
    # Who counts devices needs no search.
    __getattr__ = lazy_names(
        __name__,
        {
            "allocator": ("AdminAccess", "Allocator"),
            "budget": ("Limits",),
            "decision": ("Allocated", "Decider", "Decision", "Explanation", "Failed", "Unsatisfied"),
            "reasons": ("Reason",),
            "search.chain": ("SearchMode",),
        },
    )

__all__ = [
    "AdminAccess",
    "Allocated",
    "Allocator",
    "Decider",
    "Decision",
    "Explanation",
    "Failed",
    "Features",
    "Limits",
    "Reason",
    "SearchMode",
    "Unsatisfied",
]
