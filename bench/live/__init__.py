"""What the benchmarks on a real API server have in common: a client, a watch, the objects, and who decides.

`objects` makes the cluster and judges what became of it, `client` creates and watches as a person at kubectl
would, `deciders` starts whoever allocates, and `bare_client` is the least of them: it sends what it was given.
"""
