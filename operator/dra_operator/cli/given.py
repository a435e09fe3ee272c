"""What is given on the command line, read so that it is refused in plain words."""

from pathlib import Path

import typer

from dra_operator.cli.lines import EMPTY_PATH


def place(text: str) -> str:
    """Return the path of a file or folder as it was given. Raises BadParameter if it is empty."""
    if not text:
        raise typer.BadParameter(EMPTY_PATH)
    return text


def file_path(text: str) -> Path:
    """Return the path of a file. Raises BadParameter if it is empty."""
    return Path(place(text))
