"""Clusters at random, to ask questions about: the answers are compared with what comes of doing what is asked.

`python -m questionfuzz` runs many. In `world` they are made, `truth` does it: the operator on the API server in memory.
What is said where not all can be read is compared with what is said of the whole in `unread`.
"""
