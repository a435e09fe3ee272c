"""Costs: how much an expression may cost, and how much a call has cost, in Kubernetes' units.

- `cost`: the most that an expression can cost, by the `sizes` of what it reads (`go_paths` are the ways to it) and by
  `call_estimates`
- `call_costs`: what one call has cost
"""
