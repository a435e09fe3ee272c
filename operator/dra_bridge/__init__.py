"""dra-bridge: existing device plugins as DRA drivers, unchanged; docs/bridge.md.

An agent of one node. To plugins it is the kubelet's device manager, to the kubelet a DRA driver for each resource name.
"""
