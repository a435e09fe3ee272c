"""How a comparison ends."""

from collections import Counter

import click
import pytest

from conformance.files import end


@pytest.mark.parametrize(
    ("counts", "said", "code"),
    [
        ({}, "no rows\n", None),
        ({"equal": 2, "answered": 1}, "1 answered, 2 equal\n", None),
        ({"equal": 2, "different": 1}, "1 different, 2 equal\n", 1),
        ({"different": 1, "unreadable": 1}, "1 different, 1 unreadable\n", 2),
    ],
    ids=["nothing", "equal", "different", "unreadable"],
)
def test_the_exit_code_tells_how_a_comparison_ended(capsys, counts, said, code):
    """Unreadable beats different, which beats equal."""
    try:
        end(Counter(counts), "no rows")
        ended = None
    except click.exceptions.Exit as done:
        ended = done.exit_code

    assert (capsys.readouterr().err, ended) == (said, code)
