"""The commands.

Each command is a module of its own and is imported only when it is called: `cel` and `replay` must start in a
third of a second, and Kopf and the kubernetes package alone take longer than that.
"""

import sys


def main() -> None:
    """Run the command that the arguments name."""
    # Typer is imported here for the same reason.
    from dra_operator.cli.commands import app  # noqa: PLC0415

    sys.exit(app())
