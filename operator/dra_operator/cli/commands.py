"""The table of commands, each imported when it is asked for."""

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command as build

COMMANDS = {
    "run": "dra_operator.cli.run",
    "demo": "dra_operator.cli.demo",
    "config": "dra_operator.cli.config",
    "cel": "dra_operator.cli.cel",
    "replay": "dra_operator.cli.replay",
    "simulate": "dra_operator.cli.simulate",
    "snapshot": "dra_operator.cli.snapshot",
    "version": "dra_operator.cli.version",
}
"""Where each command lives. Such a module has an `app`, a Typer application."""


class LazyGroup(TyperGroup):
    """A group that imports a command when it is called, or when help is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a command, or None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = build(importlib.import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=LazyGroup,
    name="dra-operator",
    help="The control plane of Dynamic Resource Allocation, with a reason for every claim that waits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Make a group of the commands."""
