"""Matching: which devices could serve a request, whoever uses them.

- `candidates`: the answer by request and pool view, kept until the view changes
- `selectors`: what the expressions of class and request answer together, and what is said of one that fails
- `equivalence`: the devices that are equal in what an expression reads, and the limit of answers that are kept
- `capacity`: what a share consumes, by the request policy of the device; the same of a slice, kept
- `derived`: attributes that a request computes
- `groups`: the devices of a node that agree in attributes
"""
