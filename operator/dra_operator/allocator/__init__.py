"""The decision: a pure function of inventory, ledger and claims.

`allocator` joins the parts. Its steps, and where their rules are:

1. What does a claim ask for? `plan`: requests, alternatives, amounts and constraints, checked once
2. Which devices could serve it, whoever uses them? `matching`
3. Which nodes are asked? `nodes`
4. What has a node? `search`; it knows the `constraints`, and by the `budget` how long it may take
5. What comes of it? `decision`: who decides, and the four outcomes; `result`: the status of the claim; `reasons`: the
   closed list

Why a claim waits is found out by `dra_operator.explain`, of which nothing here knows.

Beside these steps: `extended` makes the claims that stand for extended resources; `self_check` decides a small
cluster at the start. docs/engine.md says why the search that counts answers as the exhaustive one does.
"""
