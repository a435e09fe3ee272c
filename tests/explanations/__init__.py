"""Explanations as they were, of 10,000 failing claims, to be compared with those of today.

`answers` explains the claims of a recorded world; `python -m explanations` compares. The answers were recorded before
the allocator was rebuilt, at 08fb02b7, and are not recorded anew: what differs is said in docs/differences.md.
"""
