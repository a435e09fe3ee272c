"""Questions about the state of a cluster, for the library, for commands and for the operator's explanations.

Pure but for reading the files that a caller names: no Kopf, no client, no asyncio.

- `manifests` reads files, and as of when a snapshot is; `documents` says which nobody can walk through, `load` makes
  objects of them or says what is wrong. `contents` are the objects, also as an API server sends them, or without some;
  `kept_fields` is what a snapshot keeps of each.
- `state`: objects with what decides by them, on given or assumed nodes. `fault_texts` are what is said of devices
  held twice and the like.
- `claims`: what they have, who uses them, and what keeps a pod from them. The `device_table` has a row a device.
- `selectors` asks an expression about devices. `lint` says what is wrong with the selectors of classes, claims and
  templates, and with their derived attributes.
- `allocate`: what becomes of all claims. `explain`: why one waits, or cannot use what it has; the `origin` of devices
  is since when and by whom; a rollout may wait for its own old pods; `workload_pods` are explained together, and
  `gangs` fit all at once or not; `gang_members` says which pods these are.
- `fit`: how many `copies` of a template a `placer` places, as far as quotas admit them; `headroom`: how many more there
  is room for. `answers` are plain; they are partial where kinds that a question reads could not be read.
- `usage`: how many devices are used and free, who holds them, since when, and which nodes lack some.
- `waiting`: what waits, and why. `status`: whether an operator decides, and what for. `audit`: what is wrong; the
  `operator_lease` says whether an operator decides.
- `impact`: what a change hits, and whom devices would serve; `replacement` says what would fit elsewhere.
- `cluster`: all questions as methods of a state.
"""
