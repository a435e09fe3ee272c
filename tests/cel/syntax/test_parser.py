"""Parser: tokens told apart by what may come next, refusals at their place, and Lark's tables kept for the next one."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.environment import STORED

COMPILING = (
    "from dra_operator.cel.program import compile_selector; compile_selector('device.driver == \"a\"')"
)


@pytest.fixture
def tree():
    """Return a function that parses an expression."""
    return lambda text: parse(text, STORED)


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
