"""Kinds of our own: objects in which people say what the operator is to do for weeks.

Level-triggered controllers: a plan compares what an object asks for with what is there, and returns what is to be
written; asked again, it returns what is left. Plans are pure; controllers read for them, and write.

- `selector`: which devices a rule owns. `allocation_policy`: which devices the operator allocates, and its
  `policy_controller`. `device_reservation`: devices held without a pod, and its
  `reservation_controller`.
- `device_maintenance`: cards out of service, as asked for and as told; `maintenance_cards`, which devices go together
  and who holds them; `maintenance_trial`, what would fit without them; its `maintenance_plan`, with
  what the status says, and `maintenance_controller`.
- `changes` that a plan has written, and conditions. `world`: the way of controllers to the cluster and the state.
- `handlers` of a kind, and the `runtime` that runs a Kopf for each that there is, in a thread of its own.
"""
