"""The objects of resource.k8s.io: types, reading, writing, conversion, defaults and value types.

- Objects: `types` (resource.k8s.io) and `core`, on the ground of `wire`; `kinds` has paths and versions, `names` the
  finalizer, annotation and labels that matter to us.
- In and out: `read`, `write`, with `convert` between versions and `defaults` for what passed no API server.
  `shared` keeps what many claims have alike in memory once.
- Values: `quantity` and `representation` (as Go holds it), `semver`, `attributes`, `node_selector`, `share_ids`.
- What an API server would refuse: `patterns` of names, and `name_rules` in its words; for files `known_fields`, and
  `refusals`, whose parts are `refused` (a field), `lengths`, `refused_derived`, `refused_slices`,
  `refused_values` and `refused_asides`.
- Texts: `quoted` and `shortened`; `yaml_quotes` for values that lack quotes, or should have none.
  `sealed` makes dataclasses that cost little.
"""
