"""Nodes: which of them are asked.

The `walk` goes over all nodes in order. It knows of some by `problems` that they have said no, and each `shortcut`
leaves out others. What they learn is kept in a `memory`.

- `common`: those that said no to a part of the claim
- `openings`: those that are kept for others
- `scales`: those with too little left, of all devices or of those that are selected
- `either`: those where both hold, each for some alternatives
- `ceilings`: those for which less was too much
- `sieve`: those with too few devices

`doubts` tell where a request may meet an error: there, no node may be left out.
"""
