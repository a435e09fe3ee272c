"""Situations that people ran into: what `simulate` prints for their manifests, compared as a whole.

Each folder of `reported` has the files of one. Its `printed.txt` has the commands, with what they print on stdout.
"""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dra_operator.cli.commands import app

FOLDER = Path(__file__).parent / "reported"


def printed(folder):
    """Return the commands of a situation, each with what it prints."""
    for part in (FOLDER / folder / "printed.txt").read_text(encoding="utf-8").split("$ ")[1:]:
        command, _, text = part.partition("\n")
        yield command, text


def commands():
    """Return the commands of all situations, each with its folder and what it prints."""
    return [
        pytest.param(folder.name, command, text, id=f"{folder.name}: {command}")
        for folder in sorted(FOLDER.iterdir())
        for command, text in printed(folder.name)
    ]


@pytest.mark.parametrize(("folder", "command", "text"), commands())
def test_a_situation_is_told_as_it_is(folder, command, text, monkeypatch):
    """Each line says what is right there; the comments in the files say why."""
    monkeypatch.chdir(FOLDER / folder)

    result = CliRunner().invoke(app, shlex.split(command))

    assert result.stdout == text
