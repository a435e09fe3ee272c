"""`dra-operator run`: the operator, or what it would decide."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from dra_operator.api.kinds import KINDS
from dra_operator.api.text import printable
from dra_operator.cli.config import load_or_exit, with_settings
from dra_operator.cli.output import refuse

if TYPE_CHECKING:
    from dra_operator.controller.event_dedup import EventRequest
    from dra_operator.controller.manager import Manager

_DRY_RUN = (
    "Nothing is written: no Lease, no allocation, no annotation, no Event. "
    "These are the Events that the operator would create; Ctrl-C ends it."
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@with_settings
def run(
    config: str | None,
    flags: Mapping[str, str],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; print what would be decided, as it happens.")
    ] = False,
) -> None:
    """Run the operator until SIGTERM or Ctrl-C. Settings can also come from the environment or a file."""
    # Kopf handles it once it runs. Before, a plugin may take a minute to say as whom we speak, and the first process of
    # a container ignores what it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # A terminal that is closed, unless the operator is to outlive it (`nohup`).
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    loaded = load_or_exit(flags, config)
    settings = loaded.settings
    # Imported only when the settings are good: Kopf and the kubernetes package take most of a second.
    from dra_operator.cli.gc_tuning import collect_seldom, freeze, shorten_turns
    from dra_operator.cluster.credentials import AccessError, load_access
    from dra_operator.controller import logs
    from dra_operator.controller.dry_run import DryRun
    from dra_operator.controller.kopf_app import is_sound, serve

    shorten_turns()
    collect_seldom()
    if dry_run:
        own = {} if "log_level" in loaded.origins else {"log_level": "warning"}
        settings = settings.model_copy(update={**own, "leader_election": "none"})
    logs.configure(settings.log_format, settings.log_level)
    try:
        access = load_access(settings.kubeconfig or None, settings.context or None)
    except AccessError as error:
        refuse(str(error))
    # Before the event loop: nobody is kept waiting by it.
    if not is_sound():
        raise typer.Exit(1)
    if not dry_run:
        raise typer.Exit(asyncio.run(serve(settings, access, settle=freeze)))
    typer.echo(_DRY_RUN, err=True)
    managers: list[Manager] = []

    def report_listed() -> None:
        freeze()
        objects = managers[0].summary()["objects"]
        counts = ", ".join(f"{count} {KINDS[kind].plural}" for kind, count in objects.items())
        typer.echo(f"Listed: {counts}.", err=True)

    table = _Table()
    instead = DryRun(table.show)
    serving = serve(settings, access, started=managers.append, settle=report_listed, dry_run=instead)
    raise typer.Exit(asyncio.run(serving) or int(table.is_unread))


class _Table:
    """Events as rows, in columns that become wider when they have to."""

    def __init__(self) -> None:
        self.is_unread = False
        """Whether whoever reads them has seen enough; then the process is on its way to its end."""
        self._widths = [0, 0]

    def show(self, event: "EventRequest") -> None:
        """Print an Event."""
        subject = event.subject
        path = "/".join(filter(None, (subject.namespace, subject.name)))
        cells = [printable(f"{subject.kind.lower()}/{path}"), event.reason]
        self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)]
        row = "   ".join(cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        try:
            typer.echo(f"{row}   {printable(event.message)}")
        except BrokenPipeError:
            if not self.is_unread:
                self.is_unread = True
                signal.raise_signal(signal.SIGTERM)
