"""Live conformance: the same questions to Kubernetes' own code and to ours.

`generate` makes scenarios and expressions from seeds, `program` builds and asks the Go program of bench/upstream,
`ours` asks us, `judge` compares, `shrink` makes a difference small enough to read. `python -m conformance` joins
them.
"""
