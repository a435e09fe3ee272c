"""The loop over Lark's tables reads what Lark itself reads, and refuses what it refuses, at the same place."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from dra_operator.cel import CelError
from dra_operator.cel.syntax.grammar import grammar
from dra_operator.cel.syntax.parser import Parser
from dra_operator.cel.syntax.tables import OPTIONS, tables

TOKENS = (
    *("a", "in", "true", "null", "r", "b", "x1", "has(", ".map(x, x)", "[?0]", ".?f", "T{f: 1}", "{'k': 1,}"),
    *(
        "1",
        "-1",
        "- 1",
        "0x1F",
        "2u",
        "1.5",
        ".5",
        "1e3",
        "'",
        '"',
        "`q-r`",
        "`",
        "$",
        "\u00e9",
        "=",
        "&",
        "|",
    ),
    *("'s'", '"s"', "''", '""', "b'x'", "r'\\d'", "'''m\n'''", '"""m"""', "'\\n'", '"\\q"'),
    *(".", "?", ":", ",", "(", ")", "[", "]", "{", "}", "!", "-", "+", "*", "/", "%", "<", "<=", ">", ">="),
    *("==", "!=", "&&", "||", " ", "\n", "// c\n", "//"),
)


@pytest.fixture(scope="module")
def lark():
    """Return Lark's own parser of the grammar."""
    return Lark(grammar(), **OPTIONS)


@pytest.fixture(scope="module")
def parser():
    """Return our parser, whose reductions do nothing but keep the tokens."""
    ours = Parser(tables(grammar()))
    ours._reductions = [(size, rule, made and _gathered) for size, rule, made in ours._reductions]
    return ours


def _gathered(parts):
    """Return the tokens of the parts, in order."""
    return [token for part in parts for token in (part if isinstance(part, list) else [part])]


def _lark_reads(lark, text):
    try:
        tree = lark.parse(text)
    except UnexpectedToken as error:
        at_end = error.token.type == "$END"
        return "mismatched", "" if at_end else str(error.token), len(text) if at_end else error.pos_in_stream
    except UnexpectedCharacters as error:
        return "unknown", text[error.pos_in_stream], error.pos_in_stream
    return [(str(token), token.start_pos) for token in tree.scan_values(lambda _: True)]


def _we_read(parser, text):
    try:
        return parser.parse(text)
    except CelError as error:
        what = "mismatched" if "mismatched" in error.message else "unknown"
        found = error.message.split("'", 1)[1][:-1]
        return what, "" if found == "<EOF>" else found, error.position


@settings(max_examples=400)
@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
@example("a.in-1 in b")
@example("a -1- -1")
@example("1.")
@example("a // c\n // d")
@example("// d")
@example("''''' + 1")
@example("!=1")
@example("a.5")
def test_our_loop_reads_what_lark_reads(lark, parser, text):
    """Token by token, or with the same complaint at the same place."""
    assert _we_read(parser, text) == _lark_reads(lark, text)
