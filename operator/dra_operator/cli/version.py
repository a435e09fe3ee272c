"""`dra-operator version`."""

import click

from dra_operator._version import __version__


@click.command("version")
def app() -> None:
    """Print the version."""
    click.echo(f"dra-operator {__version__}")
