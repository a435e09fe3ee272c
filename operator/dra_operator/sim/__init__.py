"""An in-memory API server, for the demo, tests and scale runs.

It answers as kube-apiserver 1.37 does, every gate of DRA on, for the kinds that the operator uses; tests/real compares
the two, request by request, and tests/sim holds it to recorded answers. What it leaves out: authentication and
authorization, server-side apply and managedFields, protobuf, garbage collection by owner, the check of CEL expressions,
some of the written rules about values (see `validation`), and what nodes must declare for the devices of a slice.

- A request: `server` listens, `handler` answers by `routes` and `parameters`; `bodies` are read, `errors` refuse in
  kube-apiserver's words; `faults` is what a test does to clients.
- A write: `registry`, with `patches` and `strategic`, what Go's structs make of a body (`schema`), `strategy`
  (defaults, generation, deletion), `admission`, `validation`, and what the structs say of values (`declared`, with
  `formats`). The tables of these structs are made by tests/sim/go_types.py and go_rules.py.
- What is stored: `store`, of `objects`, with the `history` that watches read; `views` of one object by version.
- What clients read: `lists` and `watch`, by `selectors`; `presentation`, as `tables` (`durations`) where kubectl asks.
- What there is: `resources`, told by `discovery` and `openapi`.
"""
