"""An in-memory API server, for the demo, tests and scale runs.

It answers as kube-apiserver 1.36 does for the kinds that the operator uses; tests/real compares the two, request by
request, and tests/sim holds it to recorded answers. What it leaves out: authentication and authorization, server-side
apply and managedFields, protobuf, garbage collection by owner, the check of CEL expressions, and the fields that came
with Kubernetes 1.37.
"""
