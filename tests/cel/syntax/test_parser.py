"""Parser: tokens told apart by what may come next, refusals at their place, and Lark's tables kept for the next one."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax.nodes import Call, Literal, Select
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.environment import STORED

COMPILING = "from dra_operator.cel import compile_selector; compile_selector('device.driver == \"a\"')"


@pytest.fixture
def tree():
    """Return a function that parses an expression."""
    return lambda text: parse(text, STORED)


def test_a_minus_before_a_value_is_its_sign(tree):
    """Where a value may start, `-1` is one number."""
    read = tree("-1")

    assert type(read) is Literal
    assert read.value == -1


def test_a_minus_after_a_value_is_an_operator(tree):
    """After a value, the same two characters are a minus and a one."""
    read = tree("2 -1")

    assert type(read) is Call
    assert (read.function, [part.value for part in read.args]) == ("_-_", [2, 1])


@pytest.mark.parametrize("name", ["in", "true", "null"])
def test_a_keyword_is_one_after_a_dot_too(tree, name):
    """Keywords cannot be names of fields, as in upstream's grammar."""
    with pytest.raises(CelError) as caught:
        tree(f"device.{name}")

    assert caught.value.position == len("device.")


@pytest.mark.parametrize("name", ["as", "package", "while", "include"])
def test_reserved_words_are_names_of_fields(tree, name):
    """Words that are only reserved may stand behind a dot."""
    read = tree(f"device.{name}")

    assert type(read) is Select
    assert read.field == name


@pytest.mark.parametrize("text", ["1 // one\n+ 2", "1\t+\n2", "\r\n1+2 // end"])
def test_blanks_and_comments_are_passed_over(tree, text):
    """Blanks, line ends and comments may stand between any two tokens."""
    assert [part.value for part in tree(text).args] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("1 + ?", "Syntax error: mismatched input '?'", 4),
        ("1 +", "Syntax error: mismatched input '<EOF>'", 3),
        ("1 § 2", "Syntax error: token recognition error at: '§'", 2),
        ("(1", "Syntax error: mismatched input '<EOF>'", 2),
    ],
)
def test_what_is_no_token_here_is_refused_at_its_place(tree, text, message, position):
    """An error names what was found and where it stands."""
    with pytest.raises(CelError) as caught:
        tree(text)

    assert (caught.value.message, caught.value.position) == (message, position)


@pytest.fixture
def compiled_in():
    """Return a function that compiles an expression in a process of its own with this home."""

    def compiled(home: Path) -> int:
        environment = {**os.environ, "HOME": str(home)}
        return subprocess.run([sys.executable, "-c", COMPILING], env=environment, check=False).returncode

    return compiled


def test_tables_are_kept_where_only_their_owner_writes(compiled_in, tmp_path):
    """The next process reads them instead of computing them anew."""
    assert compiled_in(tmp_path) == 0

    folder = tmp_path / ".cache" / "dra-operator"
    kept = (folder / "cel.lark").stat()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert compiled_in(tmp_path) == 0
    assert (folder / "cel.lark").stat().st_mtime_ns == kept.st_mtime_ns


def test_without_a_home_the_tables_are_computed(compiled_in, tmp_path):
    """A container that may write nowhere reads expressions all the same."""
    (tmp_path / "file").touch()

    assert compiled_in(tmp_path / "file") == 0


def test_tables_that_are_cut_off_are_computed_anew(compiled_in, tmp_path):
    """A file of another version, or one that was not written to its end, is no reason to fail."""
    folder = tmp_path / ".cache" / "dra-operator"
    folder.mkdir(parents=True)
    (folder / "cel.lark").write_bytes(b"0\n")

    assert compiled_in(tmp_path) == 0
    assert (folder / "cel.lark").stat().st_size > 1000
