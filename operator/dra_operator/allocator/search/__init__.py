"""Search: what claims get on one node.

`chain` asks one after the other, all with equal answers, after a check of the first picks in order:

- the request with the least choice first, with forward checking and nogoods
- `exhaustive`: upstream's order, with its errors, on a state that can be undone

The check and the first count: devices judged by themselves make a `problem` of ints, whose `domains` each pick narrows.
"""
