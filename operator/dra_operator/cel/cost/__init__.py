"""Cost: what an evaluation costs, in Kubernetes' units.

- `prices`: what a call has cost, and what it can cost at most; the rows of the library name them
- `sizes`: how large values can be, as far as is declared of a device
- `estimate`: the most that an expression can cost, before there is a device
"""
