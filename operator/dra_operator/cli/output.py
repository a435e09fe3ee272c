"""Files and lines that commands share: `-` and `.gz`, what cannot be used.

Light on purpose: `cel check` loads it, and has to start at once.
Source: docs/cli.md, "All commands".
"""

import errno
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal, NoReturn, cast

import click

from dra_operator.questions.documents import UNREADABLE, stdin, why

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""What writing says where the disk is full, read-only or broken: no defect of ours, so no traceback."""


NARROWEST: Final = 20
"""Columns that are needed to show anything."""
EMPTY_PATH: Final = "an empty path names no file; it may come from a variable that the shell does not know"


class _NamedPath(click.Path):
    """A path that is not empty: that would be the current folder, which nobody has named."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails for an empty one."""
        if value == "":
            self.fail(EMPTY_PATH, param, ctx)
        return super().convert(value, param, ctx)


FILE: Final = _NamedPath(path_type=Path)
"""The type of a file on the command line."""
PLACE: Final = _NamedPath()
"""The type of a file or folder on the command line, which stays a text."""


@contextmanager
def opened(path: Path, mode: Literal["rb", "wb"]) -> Iterator[IO[bytes]]:
    """Open a file; `-` is stdin or stdout, .gz is compressed. Raises one of UNREADABLE, here or while it is read."""
    if str(path) == "-":
        if mode == "rb":
            yield stdin()
        else:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
    elif path.suffix == ".gz":
        with gzip.open(path, mode) as compressed:
            yield cast("IO[bytes]", compressed)
    else:
        with path.open(mode) as plain:
            yield plain


def refuse(*problems: str) -> NoReturn:
    """Print what cannot be used, or be written, to stderr and end the command with 2."""
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    raise SystemExit(2) from None


@contextmanager
def refusing(read: Path | None, written: Path | None) -> Iterator[None]:
    """Refuse what cannot be read or written meanwhile, by the name of the file; `written` None is stdout.

    A pipe whose reader has seen enough is no mistake.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except UNREADABLE as error:
        # A disk that is broken says so of reading; the others of these are of writing alone.
        is_written = isinstance(error, OSError) and (
            error.errno in {*NO_ROOM} - {errno.EIO} or error.filename == str(written)
        )
        file = written or "stdout" if is_written or read is None else read
        refuse(f"{file}: {why(error)}")
