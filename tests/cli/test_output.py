"""Files that are packed or stand for stdin and stdout, and columns."""

import errno
import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dra_operator.cli.output import opened, refusing
from dra_operator.questions.documents import UNREADABLE, why

TEXT = b"one\ntwo\n"


@pytest.mark.parametrize(("name", "unpack"), [("a.jsonl", bytes), ("a.jsonl.gz", gzip.decompress)])
def test_a_file_is_packed_by_its_name(tmp_path, name, unpack):
    """What is written can be read again, and is what the name says."""
    path = tmp_path / name
    with opened(path, "wb") as file:
        file.write(TEXT)

    with opened(path, "rb") as file:
        assert list(file) == TEXT.splitlines(keepends=True)
    assert unpack(path.read_bytes()) == TEXT


@pytest.mark.parametrize(
    ("read", "written", "error", "file"),
    [
        ("in", "out", errno.ENOSPC, "out"),
        ("in", None, errno.ENOSPC, "stdout"),
        ("in", "out", errno.EIO, "in"),
        (None, "out", errno.EIO, "out"),
        (None, None, errno.EIO, "stdout"),
    ],
    ids=["full", "stdout is full", "broken", "broken where all is written", "stdout is broken"],
)
def test_an_error_of_a_file_names_the_file(capsys, read, written, error, file):
    """Of a command that reads one and writes one it is the one that such an error comes of."""
    paths = [path and Path(path) for path in (read, written)]
    with pytest.raises(SystemExit, match="2"), refusing(*paths):
        raise OSError(error, "broken")

    assert capsys.readouterr().err == f"error: {file}: broken\n"


def test_a_dash_is_stdin_and_stdout(monkeypatch):
    """Nothing is called `-`, and what is written is there when the file is left."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=io.BufferedWriter(out)))

    with opened(Path("-"), "rb") as source, opened(Path("-"), "wb") as target:
        target.write(source.read())

    assert out.getvalue() == TEXT


@pytest.mark.parametrize(
    "content", [None, gzip.compress(TEXT, mtime=0)[:-4], b"no gzip", b"\x1f\x8b\x08" + bytes(40)]
)
def test_what_cannot_be_read_says_why(tmp_path, content):
    """One kind of error for what is absent, cut short or garbled, told without the name of the file."""
    path = tmp_path / "a.gz"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UNREADABLE) as raised, opened(path, "rb") as file:
        file.read()

    assert why(raised.value)
    assert str(path) not in why(raised.value)
