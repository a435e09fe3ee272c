"""Nodes: which of them are asked.

`iteration` goes over all nodes in order. By the `equivalence_cache` it knows of some that they have said no, and each
of the `filters` leaves out others:

- `subproblem_filter`: those that said no to a part of the claim
- `capacity_filter`: those with too little left, of all devices or of those that are selected

Where the `error_check` cannot exclude that a request meets an error, no node is left out.
"""
