"""The commands.

Each command is a module of its own and is imported only when it is called: `cel` and `replay` must start in a
third of a second, and Kopf and the kubernetes package alone take longer than that.
"""

import os
import sys


def main() -> None:
    """Run the command that the arguments name."""
    # Typer is imported here for the same reason.
    from dra_operator.cli.commands import app  # noqa: PLC0415

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Whoever started us has closed it, as some supervisors do; then nobody reads, which is no reason to end.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - as long as the process lives
    try:
        sys.exit(app())
    except OSError as error:
        from dra_operator.cli.lines import NO_ROOM  # noqa: PLC0415

        if error.errno not in NO_ROOM:
            raise
        sys.stderr.write(f"error: {error.filename or 'stdout'}: {error.strerror}\n")
        # 1 is an answer, of `simulate` and `cel check` for example.
        sys.exit(2)
