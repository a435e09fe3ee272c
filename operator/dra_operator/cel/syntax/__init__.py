"""Syntax: the text of an expression becomes a tree of `nodes`.

`parser` has Lark read it, and makes a node of what belongs together: literals have values, `macros` become loops.
"""
