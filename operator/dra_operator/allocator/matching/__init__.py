"""Matching: which devices could serve a request, whoever uses them.

- `candidates`: the answer by request and pool view, kept until the view changes
- `selectors`: what the expressions of class and request answer together; `failures`: what is said of one that fails
- `reads`, `kinds`: the parts of a device that an expression depends on, and the devices that are equal in them
- `capacity`: what a share consumes, by the request policy of the device; `rules`: the same of ordinary amounts, made
  ready once; `amounts`: the same of a slice, kept
- `derived`: attributes that a request computes
- `groups`: the devices of a node that agree in attributes
- `room`: the one limit on all answers that are kept
"""
