"""Grammar: cel-python's `cel.lark`, corrected where it is not the language of Kubernetes.

The file is changed in memory at the places listed in `_PATCHES`; each must be found, so a release that changes the file
fails a test and not an allocation. Lark reads it for us: cel-python's parser is bound to its own tree class and changes
the interpreter's recursion limit.
Source: cel-go `parser/gen/CEL.g4`.
"""

from importlib.util import find_spec
from pathlib import Path

_ESCAPE = (
    r"""\\[abfnrtv"'\\?`]|\\[0-3][0-7][0-7]|\\[xX][0-9a-fA-F]{2}"""
    r"""|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}"""
)
# Lark takes a backslash before a double quote away, so in these patterns none stands there.
STRING = "|".join(
    (
        r'''[rR]"""(?:[^"]|"(?!""))*"""''',
        r"""[rR]'''(?:[^']|'(?!''))*'''""",
        rf'''"""(?:{_ESCAPE}|[^"\\]|"(?!""))*"""''',
        rf"""'''(?:{_ESCAPE}|[^\\']|'(?!''))*'''""",
        r'''[rR]"[^"\n\r]*"''',
        r"""[rR]'[^'\n\r]*'""",
        rf'''"(?:{_ESCAPE}|[^"\\\n\r])*"''',
        rf"""'(?:{_ESCAPE}|[^\\'\n\r])*'""",
    )
)
_SIGN = r"(?:-(?:[\t\n\f\r ]|\/\/[^\n]*\n)*)?"
_WORD_ENDS = r"(?![_a-zA-Z0-9])"
_PATCHES: tuple[tuple[str, str], ...] = (
    # Optional selection and indexing, back-quoted fields, a trailing comma in messages.
    ('member_dot     : member "." IDENT\n', 'member_dot     : member "." ["?"] (IDENT | QUOTED_IDENT)\n'),
    ('member_index   : member "[" expr "]"\n', 'member_index   : member "[" ["?"] expr "]"\n'),
    (
        'member_object  : member "{" [fieldinits] "}"\n',
        'member_object  : member "{" [fieldinits] [","] "}"\n',
    ),
    # Optional elements and trailing commas; left recursive, or the last comma would be a conflict.
    ('list_lit       : "[" [exprlist] "]"\n', 'list_lit       : "[" [listinit] [","] "]"\n'),
    ('map_lit        : "{" [mapinits] "}"\n', 'map_lit        : "{" [mapinits] [","] "}"\n'),
    (
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)*\n',
        (
            'listinit       : optexpr | listinit "," optexpr\n'
            'optexpr        : ["?"] expr\n'
            'fieldinits     : fieldinit | fieldinits "," fieldinit\n'
            'fieldinit      : ["?"] (IDENT | QUOTED_IDENT) ":" expr\n'
        ),
    ),
    (
        'mapinits       : expr ":" expr ("," expr ":" expr)*\n',
        'mapinits       : mapinit | mapinits "," mapinit\nmapinit        : ["?"] expr ":" expr\n',
    ),
    # Numbers: the sign may stand apart, a fraction needs digits, and each kind is one token.
    (
        "INT_LIT        : /-?/ /0x/ HEXDIGIT+ | /-?/ DIGIT+\n",
        f"INT_LIT.1 : /{_SIGN}(?:0x[0-9a-fA-F]+|[0-9]+)/\n",
    ),
    ("UINT_LIT       : INT_LIT /[uU]/\n", "UINT_LIT.2 : /(?:0x[0-9a-fA-F]+|[0-9]+)[uU]/\n"),
    (
        'FLOAT_LIT      : /-?/ DIGIT+ "." DIGIT* EXPONENT? | /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT\n',
        rf"FLOAT_LIT.3 : /{_SIGN}(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/" + "\n",
    ),
    # Words end where the letters end: `trueish` and `inner` are names.
    ('BOOL_LIT       : "true" | "false"\n', f"BOOL_LIT.4 : /(?:true|false){_WORD_ENDS}/\n"),
    ('NULL_LIT       : "null"\n', f"NULL_LIT.4 : /null{_WORD_ENDS}/\n"),
    ('relation_in    : relation "in"\n', f"relation_in    : relation IN\nIN.4 : /in{_WORD_ENDS}/\n"),
    (
        "IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/\n",
        "IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/\n" + r"QUOTED_IDENT : /`[a-zA-Z0-9_.\/ \-]+`/" + "\n",
    ),
    # Strings: raw ones have no escapes, others only those of the language, and bytes are either kind.
    (
        "literal        : UINT_LIT | FLOAT_LIT | INT_LIT | MLSTRING_LIT | STRING_LIT | BYTES_LIT\n",
        "literal        : UINT_LIT | FLOAT_LIT | INT_LIT | STRING_LIT | BYTES_LIT\n",
    ),
)
_STRING_BLOCK = ("STRING_LIT     :", "// Moved into STRING_LIT and MLSTRING_LIT")
_STRING_TOKENS = f"STRING_LIT.5 : /(?:{STRING})/\nBYTES_LIT.5 : /[bB](?:{STRING})/\n\n"


class GrammarChangedError(Exception):
    """cel-python's grammar no longer has a text that this module replaces."""


def patched(grammar: str) -> str:
    """Return cel-python's grammar as the language of Kubernetes.

    Raises GrammarChangedError if a place to patch is missing or there twice.
    """
    for old, new in _PATCHES:
        if grammar.count(old) != 1:
            raise GrammarChangedError(f"cel.lark no longer contains exactly one {old.strip()!r}")
        grammar = grammar.replace(old, new)
    start, end = (grammar.find(mark) for mark in _STRING_BLOCK)
    if not 0 <= start < end:
        raise GrammarChangedError("cel.lark no longer has its string literals where they were")
    return grammar[:start] + _STRING_TOKENS + grammar[end:]


def grammar() -> str:
    """Return the grammar that expressions are read by."""
    found = find_spec("celpy")
    assert found is not None
    assert found.submodule_search_locations is not None
    # Looked up, not imported: of cel-python we need this file only, and importing it takes longer than all we do here.
    (folder,) = found.submodule_search_locations
    return patched(Path(folder, "cel.lark").read_text(encoding="utf-8"))
