"""What is given on the command line, read so that it is refused in plain words.

Typer checks with pydantic, whose words are about values of Python ("Value error, ...", "Input should be ..."). These
readers say what is allowed, as Click does in the commands that are not of Typer.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import typer

from dra_operator.cli.output import EMPTY_PATH

_Choice = TypeVar("_Choice", bound=str)


def place(text: str) -> str:
    """Return the path of a file or folder as it was given. Raises BadParameter if it is empty."""
    if not text:
        raise typer.BadParameter(EMPTY_PATH)
    return text


def file_path(text: str) -> Path:
    """Return the path of a file. Raises BadParameter if it is empty."""
    return Path(place(text))


def node_name(text: str) -> str:
    """Return the name of a node. Raises BadParameter if it is empty."""
    if not text:
        raise typer.BadParameter(
            "an empty name names no node; it may come from a variable that the shell does not know"
        )
    return text


def port_number(given: str | int) -> int:
    """Return a port to listen on, 0 for a free one; a default comes as number. Raises BadParameter for another."""
    text = str(given)
    if not text.isdecimal() or int(text) > 65535:
        raise typer.BadParameter(f"'{text}' is not a whole number from 0 to 65535.")
    return int(text)


def choice_of(choices: Iterable[_Choice]) -> Callable[[str], _Choice]:
    """Return a reader that takes some texts, as those of an enum, and raises BadParameter for others."""

    def choice(text: str) -> _Choice:
        for each in choices:
            if each == text:
                return each
        allowed = ", ".join(f"'{each}'" for each in choices)
        raise typer.BadParameter(f"'{text}' is not one of {allowed}.")

    return choice
