"""The decision: a pure function of inventory, ledger and claims."""

from dra_operator.allocator.allocator import AdminAccess, Allocator, Searching
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decision, Explanation, Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason
from dra_operator.inventory import Features

__all__ = [
    "AdminAccess",
    "Allocated",
    "Allocator",
    "Decision",
    "Explanation",
    "Failed",
    "Features",
    "Limits",
    "Reason",
    "Searching",
    "Unsatisfied",
]
