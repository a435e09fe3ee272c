"""The decision: a pure function of inventory, ledger and claims.

`allocator` joins the parts. Its steps, and where their rules are:

1. What does a claim ask for?
   - `asked`: the key under which equal claims share a plan
   - `plan`: requests, alternatives, amounts and constraints, checked once
2. Which devices could serve it, whoever uses them?
   - `candidates`: the answer by request and pool view, kept until the view changes
   - `selectors`: what the expressions of class and request answer together
   - `reads`, `kinds`: the parts of a device that an expression depends on, and the devices that are equal in them
   - `capacity`: what a share consumes, by the request policy of the device; `rules`: the same of ordinary amounts, made
     ready once; `amounts`: the same of a slice, kept
   - `derived`: attributes that a request computes
   - `room`: the one limit on all answers that are kept
3. Which nodes are asked? `walk`; of some it knows by `problems` that they have said no, and each `shortcut` leaves out
   others: `common` those that said no to a part of the claim, `openings` those that are kept for others, `scales` those
   with too little left, `either` those where both hold, each for some alternatives, `sieve` those with too few devices.
   `doubts`: where a request may meet an error
4. What has a node? `searches` of equal answers, the faster one first; what one leaves open goes to the next:
   - `eligible`: the candidates that can be had now, as bits; `groups` and `derived_groups`: those by attribute
   - `quick`: one claim with one request, by counting
   - `window`: all that fits on a `board`, depth first over ints; `bounds`: why no choice can work
   - `hardest`: what `window` does not decide soon. It looks ahead by `outlook`, of `wants` and of the `stock` that is
     left, with `guests` (room for shares), `packing` (counters) and `sums` (capacities)
   - `plain`: upstream's order, with its errors; on a `state` that can be undone, with `constraints` as stacks. By
     `prospects` it leaves what is hopeless
   - `found`: what each of them answers; `budget`: how long they may take
5. What comes of it? `decision`: the four outcomes; `result`: the status of the claim; `reasons`: the closed list
6. Why does a claim wait? `explanation` says so. The steps before know nothing of it, but two things are said in errors
   as well: `failures` of selectors, with the `comparison` that they fail in, and the `surplus` of slices of a pool

Beside these steps: `extended` makes the claims that stand for extended resources; `rehearsal` decides the small cluster
of `rehearsal_cluster` at the start. docs/engine.md says why the fast searches answer as the plain one does.
"""

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decision, Explanation, Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.searches import Searching
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
