"""Generation: the plan of an expression becomes a Python function.

- `codegen`: a function that knows neither costs nor errors; `certainty` tells where the types of a plan can be relied
  on, and operands that are what they should be have operations of their own in `fast`
- `folds`: which loops have a shorter form in Python; `trees`: Python's syntax trees; `assembly`: functions of them
"""
