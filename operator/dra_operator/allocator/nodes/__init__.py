"""Nodes: which of them are asked.

The `walk` goes over all nodes in order. It knows of some by its `memory` that they have said no, and each `shortcut`
leaves out others.

- `common`: those that said no to a part of the claim
- `scales`: those with too little left, of all devices or of those that are selected

`doubts` tell where a request may meet an error: there, no node may be left out.
"""
