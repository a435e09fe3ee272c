"""The bridge as a process between a plugin, a fake kubelet and the in-memory API server, under random histories.

`plugin` is a device plugin whose devices change, `kubelet` are the kubelet's sockets, `world` starts all of it,
`killed` starts an agent that ends at a write, and `run` draws the steps and says what is wrong. `python -m bridgefuzz`
runs as many histories as one likes, `tests/bridge/test_histories.py` a few. `real` does the like on a real node.
"""
