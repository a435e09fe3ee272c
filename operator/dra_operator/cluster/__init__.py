"""The rim: everything that talks to the API server.

`access` says where it is and as whom we speak, by a `kubeconfig` or a `plugin` that must end in time; `session` sends
requests, over `sockets` that notice who has gone, and `decoding` reads the answers; `discovery` asks what is served,
`reflector` brings what there is, beginning with `lists`.
`writer` puts decisions onto claims: `writes` says what can be written and what can come of it, `delivery` takes one
write to its outcome (by `protobuf` where a claim takes no patch). `rule_writer` writes to the rules that own devices,
`ownership_policy` is the admission policy that keeps others off these, and `ownership_reading` says what is installed
of it. `events` tells people, `lease` says who of several operators decides.

All wait by the rule of `backoff`, which ends early after an `outage`; `defects` logs and counts our own. What may take
long has `threads` that the end of the process does not wait for.
"""
