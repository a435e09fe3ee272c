"""Decisions about gated pods in random worlds, compared with all nodes and devices tried one after the other.

- `world`: nodes, devices and one pod at random, as plain data and as objects on the wire
- `brute_force`: on which nodes the pod can run with all its claims, and whether an answer gives each what it asks for
- `judge`: what is decided, and what is wrong with it
"""
