"""Advice: what a person is told about an expression that does not compile, or fails.

`wording` says Kubernetes' message in other words, and where; `syntax` are the common ones, with what was meant.
`diagnostics` adds what the device at hand has.
"""
