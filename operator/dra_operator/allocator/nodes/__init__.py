"""Nodes: which of them are asked.

`iteration` goes over all nodes in order, but for those that have no free device or are known, by the `memory`, to have
said no to the same claims or to smaller ones.
"""
