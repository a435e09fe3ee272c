"""Search: what claims get on one node.

`chain` asks one after the other, all with equal answers:

- `check`: the first picks in order, where none has to be taken back
- `hardest`: the request with the least choice first, with forward checking and nogoods
- `exhaustive`: upstream's order, with its errors; on a `state` that can be undone

The first two count: what is `eligible`, judged by itself, makes a `problem` of ints, whose `domains` each pick narrows.
`result_types` has what each of them answers.
"""
