"""The commands.

Each command is a module of its own and is imported only when it is called: `cel` must start in a third
of a second, and Kopf and the kubernetes package alone take longer than that. `commands` is their table.

- `run`; `config`, which makes flags of the settings.
- `demo`, `cel`, `simulate`.
- `snapshot`, with other names on demand.
- `kubectl`: `kubectl dra`, a program of its own.
- For all of them: `output` (files, and what is wrong with them).
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn


def main() -> None:
    """Run the command that the arguments name."""
    from dra_operator.cli.commands import app

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Whoever started us has closed it, as some supervisors do; then nobody reads, which is no reason to end.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - as long as the process lives
    try:
        _call(app)
    except SystemExit as ended:
        if ended.code:
            _drop_unwritten()
        raise


def _call(app: Callable[[], int | None]) -> NoReturn:
    try:
        sys.exit(app())
    except OSError as error:
        from dra_operator.cli.output import NO_ROOM

        if error.errno not in NO_ROOM:
            raise
        # It may be stderr that has no room.
        with suppress(OSError):
            sys.stderr.write(f"error: {error.filename or 'stdout'}: {error.strerror}\n")
        # 1 is an answer, of `simulate` and `cel check` for example.
        sys.exit(2)


def _drop_unwritten() -> None:
    """Give up what stdout would not take: Python tries again at its end, and newer ones then exit with 120.

    Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe
    """
    try:
        sys.stdout.flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
