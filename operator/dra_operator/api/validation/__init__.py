"""What an API server would refuse of an object in a file, in our words; none of it can be in a cluster.

- `names`: which names it takes, with Kubernetes' own words for the others.
- `limits`: lists and texts that are too long. `unknown_fields`: fields that a kind does not have.
- `refusals`: what is refused of claims, templates, classes and pods, and with `slices` of slices and taint rules.
"""
