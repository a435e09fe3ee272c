"""Kinds of our own: objects in which people say what the operator is to do for weeks.

Level-triggered controllers: a plan compares what an object asks for with what is there, and returns what is to be
written; asked again, it returns what is left. Plans are pure; `handlers` are Kopf's and call them.

- `selector`: which devices a rule owns. `allocation_policy`: which devices the operator allocates.
- `device_reservation`: devices held without a pod.
- `handlers` of the kinds, and the `runtime` that runs Kopf for them in a thread of its own.
"""
