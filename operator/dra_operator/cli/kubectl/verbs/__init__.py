"""The verbs of `kubectl dra`: each says what it needs to read, asks one question, and prints the answer.

- Lists: `claims`, `waiting`, `devices`, `top`.
- Questions about one object: `explain`, `fit`, `headroom`, `who`.
- Checks: `status`, `lint`, `impact`, `audit`.
- What happened: `record` keeps it, `report` sums it up, `replay` says what else it could have been.
- All of them as tools of an assistant: `mcp`.
"""
