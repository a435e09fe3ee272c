"""The operator: Kopf application, loop of scheduling cycles, health, metrics and logs.

- The process: `kopf_app` starts the `manager`, which wires everything together by `settings`, and by times
  that nobody sets. `leader_election` says whether this operator decides; `health`, `metrics` and `logs` report on it,
  in the words of `messages`.
- When: `loop` starts a cycle once changes have settled, or when time alone makes one necessary (`queue`).
- A scheduling cycle (`cycle`): `ingest` takes in what arrived and keeps the claim store (`claims`), `write_results` the
  answers to writes and what claims need without a decision; the `queue` says which claims are tried, in which order,
  and which have a write in flight. `fencing` holds decisions up for late writes of an earlier operator. What all parts
  share is the `context`.
- Pods that our gate holds: `gated_pods` decides all claims of a pod together, and of `gangs` all pods; `plan_pods`
  says what comes next for one that was decided, and what no pod is going to use, and takes back the claims of pods that
  were let go and cannot be placed.
- Devices that are ours: `owned_devices` says from when they may be used, and keeps their rules.
- What people read: `facts` has Events recorded, once for each change, and claims say the same: why they wait. More
  comes from `object_problems` of other objects, such as templates, `allocation_checks` of devices that two claims hold
  or nobody can use any more. Of what is not ours: from `waiting_pods`, whoever allocates their claims.
- What the operator lacks: rights, and watches or Events that do not get through (`health`).
"""
