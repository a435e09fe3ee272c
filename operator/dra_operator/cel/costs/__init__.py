"""Costs: how much an expression may cost, and how much an evaluation has cost, in Kubernetes' units.

- `cost`: the most that an expression can cost, by the `sizes` of what it reads (`go_paths` are the ways to it) and by
  `call_estimates`; `quick_bound` sees at once that it is little, and `weight` how much is passed over
- `meter`: what an evaluation has cost so far, and when that is too much, by `call_costs`; `steps` is what calls take
"""
