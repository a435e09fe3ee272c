"""`dra-operator version`."""

import typer

from dra_operator._version import __version__

app = typer.Typer()


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"dra-operator {__version__}")
