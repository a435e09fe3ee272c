"""An in-memory API server, for the demo, tests and scale runs.

It answers as kube-apiserver does for the kinds that the operator uses; a conformance test compares the two.
"""
