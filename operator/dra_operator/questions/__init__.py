"""Questions about the state of a cluster: one set of answers for the library, `simulate`, the operator and the plugin.

Pure: a state comes in, answers come out as frozen dataclasses of plain fields.

- `holders`: who holds devices, since when, and whether they are idle. `usage`: how much is used and free.
- `audit`: what is wrong. `impact`: what a change hits, and what would fit elsewhere.
"""
