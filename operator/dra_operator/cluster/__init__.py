"""The rim: everything that talks to the API server.

- Who and where: `credentials`.
- Requests: `session` sends them over connections that notice who has gone, `decoding` reads the answers, `backoff` says
  how long to wait after a failure.
- In: `discovery` asks what is served and lists it, `reflector` keeps up with what there is.
- Out: `writer` puts decisions onto claims, pods and rules: `writes` are what can be written and what can come of it,
  `delivery` takes one write to its outcome, by protobuf where a claim takes no patch.
  `events` publishes Events, `lease` elects the operator that decides.
- `ownership_policy` is the admission policy around owned devices, and asks whether it knows a rule; `faults` logs and
  counts defects of our own.
"""
