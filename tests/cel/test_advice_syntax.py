"""Slips: what was meant where the grammar knows no way on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel import STORED, CelError, compile_program
from dra_operator.cel.advice import Around, blotted, compile_text, slip

EMPTY = 'the expression is empty; write a condition, such as device.driver == "gpu.example.com"'
STRING = "a string is not closed, or has an escape that CEL does not know"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("", EMPTY),
        (" \n\t", EMPTY),
        ("// nothing", EMPTY),
        ("true and false", '"and" is not expected here; write &&'),
        ("true OR false", '"OR" is not expected here; write ||'),
        ("not true", '"not" is not expected here; write !'),
        ("if true", '"if" is not expected here; write condition ? one : other'),
        ("true & false", '"&" is not expected here; write &&'),
        ("true | false", '"|" is not expected here; write ||'),
        ("1 = 1", '"=" is not expected here; write =='),
        ("1 === 1", '"=" is not expected here; write =='),
        ("1 => 1", '"=" is not expected here; write >='),
        ("1 =< 1", '"=" is not expected here; write <='),
        ("1 <> 1", '">" is not expected here; write !='),
        ("true # yes", '"#" is not expected here; a comment begins with //'),
        ("\u201ca\u201d == 'a'", '"\u201c" is not expected here; write straight quotes'),
        ("true\u00a0&& true", r'"\xa0" is not expected here; write a plain space'),
        ("\x1b[2J", r'"\x1b" is not expected here'),
        ("device.driver == 'a", STRING),
        ('device.driver == "a', STRING),
        ('"""a', STRING),
        (r"'a\q' == ''", STRING),
        (r"'\.a\n' == ''", STRING),
        ("(true", 'the expression ends too early; "(" is not closed'),
        ("[1, (2)", 'the expression ends too early; "[" is not closed'),
        ("'(' ==", "the expression ends too early"),
        ("true)", '")" is not expected here; it closes nothing'),
        ("(1 + )", '")" is not expected here; something is missing before it'),
        ("[1)", '")" is not expected here; "[" is still open'),
        ("1 in (1, 2)", '"," is not expected here; write a list as [1, 2]'),
        ("true 'a'", "'a' is not expected here"),
        (f"true '{'a' * 99}'", f"'{'a' * 39}... is not expected here"),
        ("true '''a\nb'''", r"'''a\nb''' is not expected here"),
    ],
)
def test_what_was_meant_is_said(expression, text):
    """In place of the token alone."""
    with pytest.raises(CelError) as caught:
        compile_program(expression)

    assert compile_text(caught.value, expression, STORED) == text


@given(st.text("()[]{}\"'r\\/\n, aif", max_size=60))
def test_blotting_keeps_the_length(text):
    """What it finds in a blotted text stands at the same place in the text."""
    assert len(blotted(text)) == len(text)


@given(
    st.text("()[]{}\"'\\,=&|; andotifx\n", max_size=40),
    st.sampled_from(["<EOF>", "'", '"', ",", ")", "=", "and", "\udcff", "x"]),
    st.text("()\"'\\,=> x", max_size=20),
)
def test_there_are_words_for_anything(before, found, after):
    """Whatever stands around the place."""
    text, hint = slip(found, Around(before, after if found == "<EOF>" else found + after))

    assert text
    assert (text + hint).encode()
