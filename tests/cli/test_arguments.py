"""What is given on the command line, read so that it is refused in plain words."""

import pytest
from click.testing import CliRunner

from dra_operator.cli.commands import app

REFUSED = [
    (["simulate", "-f", "-", "-o", "xml"], "'-o' / '--output': 'xml' is not one of 'table', 'yaml', 'json'."),
    (["simulate", "-f", "-", "-o", ""], "'-o' / '--output': '' is not one of 'table', 'yaml', 'json'."),
    (
        ["simulate", "-f", "-", "--node", ""],
        "'--node': an empty name names no node; it may come from a variable that the shell does not know",
    ),
    (["demo", "--port", "http"], "'--port': 'http' is not a valid integer range."),
    (["demo", "--port", "65536"], "'--port': 65536 is not in the range 0<=x<=65535."),
    (["demo", "--port", "-1"], "'--port': -1 is not in the range 0<=x<=65535."),
    (["cel", "check", "1", "--kubernetes", "9"], "'--kubernetes': '9' is not one of '1.36', '1.37', '1.38'."),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_a_value_that_is_not_allowed_is_told_with_what_is(arguments, said):
    """What was given is named with the flag, and what is allowed."""
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: Invalid value for {said}"
