"""Costs: what calls cost, in Kubernetes' units.

- `prices`: what a call has cost, and what it can cost at most; the rows of the library name them
- `sizes`: how large values can be, as far as is declared of a device, by `go_paths`, the ways to them
"""
