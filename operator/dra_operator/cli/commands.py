"""The table of commands, each imported when it is asked for: `cel` starts at once."""

import importlib

import click

from dra_operator._version import __version__

COMMANDS = ("run", "demo", "config", "cel", "simulate", "snapshot")
"""The commands, each the `app` of the module of its name."""


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
        found: click.Command = importlib.import_module(f"dra_operator.cli.{cmd_name}").app
        return found


@click.command("version")
def version() -> None:
    """Print the version."""
    click.echo(f"dra-operator {__version__}")


@click.group("dra-operator", cls=LazyGroup, no_args_is_help=True)
@click.version_option(__version__, message="dra-operator %(version)s")
def app() -> None:
    """Run the control plane of Dynamic Resource Allocation, with a reason for every claim that waits."""
