"""Texts in double quotes."""

import pytest

from dra_operator.api.text import quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\', '"a\\"b\\\\"'),
        ("\n\t", '"\\n\\t"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("\u00e9 \u200b \U000e0001", '"\u00e9 \\u200b \\U000e0001"'),
    ],
)
def test_a_text_is_quoted_as_go_quotes_it(text, quoted):
    """What prints stays, what does not is escaped."""
    assert quote(text) == quoted
