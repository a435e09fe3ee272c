"""A fuzzer for the allocator, step by step: the fast searches against the exhaustive one, and memory against none.

Two allocators follow one inventory and one ledger, one with the exhaustive search only. Whatever happens between
the claims, both decide the same, errors and their texts included. What the two share, inventory, ledger and the views
derived from them, is held against a third allocator that was built this moment from the objects alone. Memory that is
stale shows only on a second asking, so each claim is asked for again after each event. Most worlds are wide: twelve
nodes with little left, and several claims in each step that differ only in what they tolerate, how much they ask for or
which device they name; what one of them leaves behind lets the next pass over nodes.

`python -m stepfuzz` looks for exceptions from that for as long as one likes, `tests/allocator/search/test_chain.py` for
a moment.
"""

from stepfuzz.world import World

__all__ = ["World"]
