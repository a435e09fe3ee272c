"""Pods and their claims: what kube-scheduler and the claim controller would do, for simulate and for the operator.

Pure, like the allocator: objects in, decisions out.

- `objects`: what is known, each object with where it stands. `workloads` have pods.
- `claims` are made of templates, with generated names, `special_claims` for extended resources.
- `node_fit`: whether a node suits a pod, for all but devices, with its `resource_requests`.
- `cluster_pods`: all nodes with what their pods have, and the pods that wait, read by a `field_reader`.
- `gate`: whose devices we decide, and what of a pod matters to that.
- `placement`: where a pod can run.
- `explanation`: why a pod waits for its claims.
- `pod_decision`: where a pod goes, and what its claims get there. `claim_sets`: pods and claims decided one after the
  other, for simulate and for questions.
- `gang_assignment`: where the pods of a gang go, all at once, with one value of what they must match.
- `smallest_change`: what would make claims fit: one of the `edits` of a `situation`, or claims that end.
"""
