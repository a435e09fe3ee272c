"""The common parts of benchmarks on a real API server: a client, a watch, the objects, and the deciders.

`objects` makes the cluster and judges the result, `client` creates and watches as a person with kubectl
would, `deciders` starts the allocators, and `bare_client` is the simplest of them: it sends what it was given.
`timed` runs a command and says what it took, and `top_steps` does step by step what `kubectl dra top` does.
"""
