"""Evaluation: what a checked expression becomes, and how that is carried out.

- `steps`: what an evaluation is made of, and which parts of a device it reads; `planner`: the steps of a checked tree,
  with constants folded
- `evaluator`: steps as closures, plain or metered; `meter`: what an evaluation has cost, and the end of it
"""
