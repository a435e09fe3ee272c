"""Search: what claims get on one node.

`searches` of equal answers are asked, the faster ones first; what one leaves open goes to the next:

- `eligible`: the candidates that can be had now, as bits; `derived_groups`: those by attributes that are computed
- `quick`: one claim with one request, by counting
- `window`: all that fits on a `board`, depth first over ints; `bounds`: why no choice can work
- `hardest`: what `window` does not decide soon. It looks ahead by `outlook`, of `wants` and of the `stock` that is
  left, with `guests` (room for shares), `packing` (counters) and `sums` (capacities)
- `plain`: upstream's order, with its errors; on a `state` that can be undone. By `prospects` it leaves what is hopeless
- `found`: what each of them answers
"""
