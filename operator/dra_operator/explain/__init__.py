"""Why claims wait: a client of the allocator, which asks it smaller questions. The allocator knows nothing of it.

- `explainer`: what is taken away from a claim, in which order; what others call, and what is kept
- `relax`: the smaller questions: fewer requests, constraints or devices, no uses and no taints
- `stages`: how many devices fail at which stage, of the slices that count
- `sentence`: counts and claims in words, and what was probably meant; `comparison`: what a selector compared
"""

from dra_operator.explain.explainer import Explainer, explain_aborted
from dra_operator.explain.stages import CLASS, TITLES, DeviceCounts, Refusals, SliceDevices

__all__ = ["CLASS", "TITLES", "DeviceCounts", "Explainer", "Refusals", "SliceDevices", "explain_aborted"]
