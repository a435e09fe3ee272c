"""Conformance: the same questions to Kubernetes' own code and to ours.

Live: `generate` makes scenarios and expressions from seeds, `program` builds and asks the Go program of bench/upstream,
`judge` asks us and compares (`ranges` with upstream's arithmetic put in), `shrink` makes a difference small enough to
read, `run` does so for many questions in a row, `live` is the command.

Recorded: `replay` decides `scenarios` again, `cel` evaluates `cases`; `files` says how such a comparison ends.
`python -m conformance` joins them.
"""
