"""Compiler: the plan of an expression becomes a Python function.

- `codegen`: a function that knows neither costs nor errors; `static_types` tells where the types of a plan can be
  relied on, and operands that are what they should be have operations of their own in `runtime`
- `folds`: which loops have a shorter form in Python; `trees`: Python's syntax trees
"""
