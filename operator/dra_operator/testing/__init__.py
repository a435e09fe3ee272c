"""An in-memory API server, for the demo, tests and scale runs.

It answers as kube-apiserver 1.37 does, every gate of DRA on, for the kinds that the operator uses; tests/real compares
the two, request by request, and tests/testing holds it to recorded answers. It refuses in words of its own, and leaves
out: authentication and authorization, server-side apply, tables for kubectl, warnings, managedFields but for who
nominated a pod, bodies that are not JSON, deletion of collections and namespaces, garbage collection by owner, what the
structs declare of values, and what nodes must declare for the devices of a slice.

- A request: `server` listens, reads path, parameters and body, and answers; `errors` refuse, or
  come between, as tests have it.
- A write: `registry`, with `patches`, what Go's structs make of a body (`schema`), and `strategy` (defaults,
  generation, admission, what may not change).
- What is stored: `store`, with the history that watches read.
- What clients read: `lists` (by selectors), also watched.
- What there is, and is shown: `discovery`.
"""
