"""Live conformance: the same questions to Kubernetes' own code and to ours.

`generate` makes scenarios and expressions from seeds, `program` builds and asks the Go program of bench/upstream,
`judge` asks us and compares (`ranges` with upstream's arithmetic put in), `shrink` makes a difference small enough to
read, `run` does so for many questions in a row. `python -m conformance` joins them.
"""
