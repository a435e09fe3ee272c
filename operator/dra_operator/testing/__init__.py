"""An in-memory API server, for the demo, tests and scale runs.

It answers as kube-apiserver 1.37 does, every gate of DRA on, for the kinds that the operator uses; tests/real compares
the two, request by request, and tests/testing holds it to recorded answers. What it leaves out: authentication and
authorization, server-side apply, tables for kubectl, managedFields but for who nominated a pod, protobuf, garbage
collection by owner, the check of CEL expressions, some of the written rules about values (see `validation`), and what
nodes must declare for the devices of a slice.

- A request: `server` listens, `requests` reads path, parameters and body, `handler` answers, `errors` refuse in
  kube-apiserver's words; an `interceptor` may come between, as tests have it.
- A write: `registry`, with `patches`, what Go's structs make of a body (`schema`), `strategy` (defaults, generation,
  deletion, admission) and `validation`, whose table is made by tests/testing/go_rules.py.
- What is stored: `store`, with the history that watches read.
- What clients read: `lists` and `watch`, by `selectors`.
- What there is: `resources`, shown by `discovery`.
"""
