"""The CEL of DRA: expressions over one device, with the answers and costs of Kubernetes' own evaluator.

A device is made ready once (`device`), an expression compiled once (`program`); then the selector is asked whether it
matches the device. What goes wrong is the one exception of `errors`, and nothing else.

An expression goes through these stages in this order:

1. `syntax`: text to syntax tree
2. `types`: a type for every node, by what its environment declares, and validation
3. `cost`: the most it can cost, by the prices of what it is made of
4. `run`: the steps of its evaluation, as functions: plain for what is cheap, metered for all else and wherever the
   plain ones fail

`program` takes it through them. `values` and `library` are what all evaluation is made of; `advice` is for people.
"""
