"""The common parts of programs that judge how gated pods are handed over to kube-scheduler, on a real API server.

`fleet` makes nodes, half of whose devices are the operator's, and pods. `judge` reads the watches of claims and pods
and says at any time what was wrong. `stage` starts kube-scheduler and operators.
"""
