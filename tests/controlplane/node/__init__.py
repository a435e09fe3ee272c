"""A real Kubernetes node on loopback: kubelet, containerd and runc in namespaces of their own.

This folder is two things at once, as the one above: a Go module (`go.mod`) with the container runtime, the
program `guest/` that the tests' pods run and `unconfined/` that starts runc, and the Python package that starts and
stops nodes. `machine` says what a machine can run, `programs` gets the programs, `cluster_node` is the node, `cgroups`,
`init.sh`, `configuration` and `images` are what it is made of. `recording` is the container runtime where real
containers cannot run, `driver` is a DRA driver in Python, `bridge_agent` the bridge on a node, `protocols` are the
kubelet's gRPC protocols, `pod_scene` is what tests do with all that.
"""
