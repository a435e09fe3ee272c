"""How a comparison of the rows of a file ends."""

from collections import Counter

import click


def end(counts: Counter[str], nothing: str) -> None:
    """Print how many rows ended how, or `nothing`, and end the command by it. Raises Exit with 2 or 1."""
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    click.echo(summary or nothing, err=True)
    if counts["unreadable"]:
        raise click.exceptions.Exit(2)
    if counts["different"]:
        raise click.exceptions.Exit(1)
