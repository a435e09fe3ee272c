"""What an API server would refuse of an object in a file, in our words; none of it can be in a cluster.

- `refusals`: the table of fields and what is asked of each, with `slices` for what goes together in a slice. `checks`
  are what can be asked of a field, and which names the API server takes, with Kubernetes' own words for the others.
- `unknown_fields`: fields that a kind does not have.
"""
