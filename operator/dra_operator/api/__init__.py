"""The objects of resource.k8s.io: types, reading, writing, conversion, defaults and value types.

- Objects: `types` (resource.k8s.io) and `core`, on the ground of `wire`, which keeps what many claims have alike in
  memory once; `kinds` has paths and versions, `names` the finalizer, annotations and labels that matter to us.
  `managed_fields` says who nominated a pod or wrote a status, and trims metadata. `fast_dataclass` makes dataclasses
  that cost little.
- In and out: `read`, `write`, with `convert` between versions, which gives what passed no API server its defaults.
  `fields` is the table of all fields.
- Values: `quantity`, `semver`, `attributes`, `node_selector`; `text` is how they and ages are shown, and which name was
  probably meant.
- `versions` is what each version of Kubernetes decides otherwise, and the feature gates. `validation` is what an API
  server would refuse.
"""
