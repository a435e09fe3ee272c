"""`kubectl dra record`: keep a record of what happens, for `--history` and `report`."""

from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import refusing, say
from dra_operator.cli.kubectl.options import connection, option, record_options
from dra_operator.cli.kubectl.requests import ReadingError
from dra_operator.cli.kubectl.source import open_record, read_record_span, read_span
from dra_operator.cli.kubectl.tables import count

if TYPE_CHECKING:
    from dra_operator.cluster.credentials import Access
    from dra_operator.history.recorder import Recorder
    from dra_operator.history.writer import Writer

_KEEP: Final = "90d"


@click.group(
    "record",
    invoke_without_command=True,
    params=[
        option("--to", "url", metavar="URL", help="A file of SQLite, or postgresql://."),
        option(
            "--keep",
            metavar="DURATION",
            default=_KEEP,
            show_default=True,
            help="How long what ended is kept; 0s: always.",
        ),
        option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            default=0,
            help="Serve metrics for Prometheus on this port.",
        ),
        *connection()[:2],
    ],
)
@click.pass_context
def app(ctx: click.Context, *, url: str, keep: str, metrics_port: int, kubeconfig: str, context: str) -> None:
    """Record what happens to devices, claims and pods, until it is stopped. Only reads from the cluster.

    One process writes to a store; while none does there is a gap. It reads what ClusterRole dra-record permits
    (manifests/record). `kubectl dra record export` writes what is recorded for other programs.

    Example: kubectl dra record --to history.db; kubectl dra report --history history.db --since 1d.
    """
    if ctx.invoked_subcommand is not None:
        return
    if not url:
        raise click.UsageError("say where to: --to history.db, or --to postgresql://user@host/database")
    import asyncio
    import gc

    # The plugin does without, as it ends soon.
    gc.enable()
    with refusing():
        keep_seconds = read_span(keep) / 1_000_000
        engine = open_record(url, create=True)
        from dra_operator.cluster.credentials import AccessError, load_access
        from dra_operator.cluster.session import ApiError, ApiUnreachable
        from dra_operator.controller import logs
        from dra_operator.history.writer import Writer

        logs.configure("auto", "info")
        try:
            writer, access = Writer(engine), load_access(kubeconfig or None, context or None)
            asyncio.run(_record(access, writer, keep_seconds, metrics_port))
        except KeyboardInterrupt:
            return
        except (AccessError, ApiError, ApiUnreachable, LookupError) as error:
            raise ReadingError(str(error)) from error


@app.command(
    "export",
    params=[
        *record_options()[:2],
        option("--parquet", "folder", metavar="DIR", required=True, help="Where to."),
        option("-n", "--namespace", metavar="NAME", help="Only this namespace by name; sums of all others."),
    ],
)
def export_(*, url: str, since: str, folder: str, namespace: str) -> None:
    """Write what claims held and why was waited as Parquet, a folder a day.

    Example: kubectl dra record export --history history.db --parquet days --since 7d.
    """
    from pathlib import Path

    with refusing():
        reader, span = read_record_span(url, since, "")
        try:
            from dra_operator.history.export import export
        except ModuleNotFoundError as error:
            raise ReadingError(
                f"Parquet needs pyarrow: pip install 'dra-operator[parquet]' ({error})"
            ) from error
        try:
            days = export(reader, span, Path(folder), namespace)
        except OSError as error:
            raise ReadingError(str(error)) from error
    say([f"{folder}: {count(days, 'day')}"])


async def _record(access: "Access", writer: "Writer", keep_seconds: float, metrics_port: int) -> None:
    import asyncio
    import signal

    from dra_operator.cluster.session import ApiSession
    from dra_operator.history.recorder import Recorder

    async with ApiSession(access) as session:
        recorder = Recorder(session, writer, keep_seconds=keep_seconds)
        if metrics_port:
            _serve_metrics(recorder, metrics_port)
        stopping = asyncio.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, stopping.set)
        await recorder.run(stopping)


def _serve_metrics(recorder: "Recorder", port: int) -> None:
    from prometheus_client import Gauge, start_http_server

    from dra_operator.history.schema import MICRO

    for name, what, value in (
        (
            "covered_timestamp_seconds",
            "Up to when the record is complete, but for gaps.",
            lambda: recorder.covered / MICRO,
        ),
        ("failures", "Transactions that the store refused since the start.", lambda: recorder.failures),
        ("gap_seconds", "Time that was not recorded: before the start, and since.", lambda: recorder.missed),
    ):
        Gauge(f"dra_history_{name}", what).set_function(value)
    start_http_server(port)
