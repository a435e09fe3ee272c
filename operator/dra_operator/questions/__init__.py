"""Questions about one state of a cluster: pure answers for the terminal and for Python.

`selectors` asks a CEL expression about devices; `lint` says what is wrong with the selectors of classes, claims and
templates.
"""
