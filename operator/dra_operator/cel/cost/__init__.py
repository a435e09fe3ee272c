"""Cost: what an evaluation costs, in Kubernetes' units.

- `prices`: how large values can be, what a call has cost, and what it can cost at most; the rows of the library name
  prices
- `estimate`: the most that an expression can cost, before there is a device
"""
