"""The table of verbs, each imported when it is asked for: `--help` and completion start at once."""

import importlib
from typing import Final

import click

from dra_operator._version import __version__

_PACKAGE: Final = "dra_operator.cli.kubectl.verbs"
VERBS: Final = {
    "top": "How many devices are used and free, by node, pool or class.",
    "claims": "List claims: their devices, or why they wait.",
    "waiting": "What waits for devices, and why.",
    "devices": "List devices, and who holds them.",
    "explain": "Why a claim or pod waits, and what would help.",
    "fit": "How many copies of a pod or claim would fit, and where.",
    "headroom": "How much more there is room for.",
    "who": "Who holds a device, a pool, or what is on a node.",
    "lint": "What is wrong with selectors of classes and claims.",
    "impact": "What a taint, a changed class, or a drain would hit.",
    "status": "Whether an operator decides, and what for.",
    "audit": "What is wrong in the cluster, and what to do.",
    "record": "Keep a record of what happens.",
    "report": "Card-hours, waits and costs, by a record.",
    "replay": "What other nodes or devices would have made of it.",
    "mcp": "Serve these questions to an assistant.",
}
"""The modules of the verbs, and what each says of itself in the list."""


class VerbGroup(click.Group):
    """A group that imports a verb when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, or None if there is none of that name."""
        if cmd_name == "drain" and not ctx.resilient_parsing:
            ctx.fail("nothing is drained here; what it would hit: kubectl dra impact node/NAME")
        if cmd_name not in VERBS:
            return None
        found: click.Command = importlib.import_module(f"{_PACKAGE}.{cmd_name}").app
        found.short_help = VERBS[cmd_name]
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table, for which no verb is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([*VERBS.items()])


@click.group(
    "kubectl dra",
    cls=VerbGroup,
    no_args_is_help=True,
    epilog="Exit codes: 0 yes, 1 no, 2 cannot say; `kubectl dra COMMAND --help` says what they mean there.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="kubectl-dra %(version)s")
def app() -> None:
    """Ask a cluster about the devices of Dynamic Resource Allocation.

    Reads with your own rights, on a live cluster (with -f, as if these manifests were applied) or a snapshot. Needs no
    operator, and writes nothing.
    """
