"""The kubelet's gRPC protocols, generated; `tests/bridge_stubs.py` compiles them anew."""
