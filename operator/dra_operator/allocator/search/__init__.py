"""Search: what claims get on one node.

A `chain` of searches with equal answers is asked, the faster ones first; what one leaves undecided goes to the next:

- `eligible`: the candidates that can be had now, as bits
- `single_request`: one claim with one request, by counting
- `backtracking`: all that can be expressed as a `model` of ints, depth first; `bounds`: why no choice can work
- `hardest`: what `backtracking` does not decide soon, by the request with the least choice; it knows what is
  `remaining` of demand and supply, and looks ahead (`lookahead`)
- `exhaustive`: upstream's order, with its errors; on a `state` that can be undone
- `result_types`: what each of them answers
"""
