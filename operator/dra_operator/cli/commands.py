"""The table of commands, each imported when it is asked for.

Commands are typed functions of Typer, but for those that have to start at once and do little: Typer imports pydantic,
which takes longer than checking an expression. Those are of Click, and so is the group.
"""

import importlib
from typing import TYPE_CHECKING, Any

import click

from dra_operator._version import __version__

if TYPE_CHECKING:
    from typer import Typer

COMMANDS = {
    "run": "dra_operator.cli.run",
    "demo": "dra_operator.cli.demo",
    "config": "dra_operator.cli.config",
    "cel": "dra_operator.cli.cel",
    "simulate": "dra_operator.cli.simulate",
    "snapshot": "dra_operator.cli.snapshot",
}
"""Where each command lives. Such a module has an `app`: a Typer application or a command of Click."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, or when help is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return [*COMMANDS, "version"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command, or None if there is none of that name."""
        if cmd_name == "version":
            return version
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(COMMANDS[cmd_name]).app
        return found if isinstance(found, click.Command) else _handed_on(cmd_name, found)


def _handed_on(name: str, typed: "Typer") -> click.Command:
    """Return a command that hands all its arguments on to a Typer application."""
    from typer.main import get_command

    command: Any = get_command(typed)

    @click.command(
        name,
        short_help=command.get_short_help_str(limit=80),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def hand_on(ctx: click.Context, arguments: tuple[str, ...]) -> None:
        command.main(args=list(arguments), prog_name=ctx.command_path)

    return hand_on


@click.command("version")
def version() -> None:
    """Print the version."""
    click.echo(f"dra-operator {__version__}")


@click.group("dra-operator", cls=LazyGroup, no_args_is_help=True)
@click.version_option(__version__, message="dra-operator %(version)s")
def app() -> None:
    """Run the control plane of Dynamic Resource Allocation, with a reason for every claim that waits."""
