"""Questions about the state of a cluster, for the library, for commands and for the operator's explanations.

Pure but for reading the files that a caller names: no Kopf, no client, no asyncio.

- `manifests` reads files, by `bounded_yaml`; `documents` says which nobody can walk through, `load` makes objects of
  them or says what is wrong. `contents` are the objects, also as an API server sends them. `errors` are about
  questions.
- `state`: objects with what decides by them, on given or `assumed_nodes`; `placed_pods` have room there, and `removal`
  leaves objects out. `notes` are worth knowing about it, and `fault_texts` what is said of devices held twice and the
  like. A `snapshot_header` says as of when.
- `claims`: what they have, who uses them, and what keeps a pod from them. The `device_table` has a row a device.
- `selectors` asks an expression about devices. `lint` says what is wrong with the selectors of classes, claims and
  templates, and with their derived attributes.
- `allocate`: what becomes of all claims. `explain`: why one waits, or cannot use what it has; the `origin` of
  devices is since when and by whom; a `rollout` may wait for its own old pods; `workload_pods` are
  explained together. `fit`: how many `copies` of a template a
  `placer` places, as far as `quotas` admit them; `headroom`: how many more there is room for. `answers` are plain; they
  are `partial` where kinds that a question reads could not be read.
- `usage`: how many devices are used and free, and who holds them, since when, and whether they are idle. `times` of
  objects are texts, and `managers` wrote their status.
- `waiting`: what waits, and why. `status`: whether an operator decides, and what for.
- `missing_devices`: nodes that should have some. `audit`: what is wrong, as `findings`; the `operator_lease` says
  whether an operator decides.
- `impact`: what a change hits; `replacement` says what would fit elsewhere, `request_counts` whom devices would serve.
- `cluster`: all questions as methods of a state.
"""
