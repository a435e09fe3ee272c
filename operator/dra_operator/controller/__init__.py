"""The operator: the Kopf shell, the loop of passes, health, metrics and logs.

- The process: `shell` (Kopf) starts `runtime`, which wires everything together by `settings`; `leading` and `standby`
  say what it does while it decides and while another one does; `health`, `metrics` and `logs` speak for it, in the
  words of `messages`. `dry_run` stands in for what writes.
- When: `loop` starts a pass once changes have settled.
- A pass (`passes`): `intake` takes in what arrived and keeps the claim book (`claims`), `landing` takes in the answers
  to writes, `tidying` lets claims go that need no decision; the allocator is asked about the others, each in its
  turn (`turns`), again since devices were taken (`taken`). `desk` is what these share.
- What holds a claim up: `flights` (a write is on its way), `putoff` (not again just yet), `fence` (writes of an earlier
  operator).
- Devices that are ours: `settlement` says from when they may be used, `ownership_fence` which policy protects them, and
  `ownership` keeps their rules.
- What people are told: `telling` of a claim that waits, `problems` of other objects, `rights` of what is not permitted;
  by `reports`, once for each change. `collisions` tells of claims that have more than there is, `breakages` of
  allocations that cannot be used any more, `selector_warnings` of selectors that fail on devices elsewhere. `asides`
  keeps all that from stopping a pass. `interruptions` says of which kinds nothing is heard, `unheard` why, `denials`
  what the operator itself may not do, and `unsaid` which Events cannot be sent.
"""
