"""Types: which expressions are valid, and the type of every part.

- `types`: what there is, and whether one type can stand for another
- `environment`: what an expression may use: fields, functions and their overloads, by version and feature gate;
  the protobuf types that can be named and made
- `checker`: a type for every node, and what is wrong although all types fit
"""
