"""Syntax: the text of an expression becomes a tree of `nodes`.

`lexer` cuts the text into tokens, and `parser` follows the `tables` that were computed from the `grammar` beforehand.
`builder` makes a node of what belongs together: `literals` have values, `macros` become loops.
"""
