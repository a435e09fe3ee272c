"""`dra-operator release`: hand gated pods over as they are, for namespaces or clusters that are to do without the gate.

The nomination goes before the gate, since without the gate it may be kube-scheduler's own. Allocations stay: they are
valid, and pods can use them. Source: docs/operator.md, "Gated pods".
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import CLAIMS_LABEL, ENDED_PHASES, GATE
from dra_operator.api.nomination import is_nominated_by_operator
from dra_operator.cli.client import Context, Kubeconfig, ask
from dra_operator.cli.output import refuse
from dra_operator.cli.ownership.own import DryRun, DryRunOption

if TYPE_CHECKING:
    from dra_operator.cluster.pod_writes import PodWrite
    from dra_operator.cluster.session import ApiSession
    from dra_operator.cluster.writes import WriteOutcome

CONCURRENCY: Final = 12
CHUNK: Final = 500
CONFLICTS: Final = 20
"""How often a pod is looked at again that others change meanwhile."""
TIMEOUT: Final = 30.0
"""Seconds, for one request."""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(slots=True)
class ReleaseReport:
    """What was done: pods by namespace and name, those that could not be released with the reason."""

    released: list[str] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)
    """Pods without the gate of which only the nomination was taken back."""
    failed: dict[str, str] = field(default_factory=dict)
    managed: list[str] = field(default_factory=list)
    """The namespaces whose new pods get the gate."""


@app.command()
def release(
    *,
    namespace: Annotated[
        list[str] | None,
        typer.Option("-n", "--namespace", metavar="NAME", help="Pods of this namespace; may be repeated."),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Pods of all namespaces.")
    ] = False,
    dry_run: DryRunOption = DryRun.NONE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Take the gate off pods, and let kube-scheduler place them."""
    if bool(namespace) == all_namespaces:
        refuse("name namespaces by --namespace, or give --all-namespaces: one of the two")
    namespaces = frozenset(namespace or ())
    is_dry = dry_run is DryRun.CLIENT
    report = ask(kubeconfig, context, lambda session: release_pods(session, namespaces, is_dry=is_dry))
    for name in report.managed:
        typer.echo(
            f"warning: namespace {name} has the label {CLAIMS_LABEL}=managed, so its new pods with claims may get the "
            f"gate again: kubectl label namespace {name} {CLAIMS_LABEL}-",
            err=True,
        )
    tail = " (dry run)" if is_dry else ""
    for pod in report.released:
        typer.echo(f"{pod} released{tail}")
    for pod in report.cleared:
        typer.echo(f"{pod} nomination taken back{tail}")
    if not (report.released or report.cleared or report.failed):
        typer.echo(f"note: no pod has the gate {GATE}", err=True)
    for pod, why in report.failed.items():
        typer.echo(f"error: {pod}: {why}", err=True)
    if report.failed:
        raise typer.Exit(1)


async def release_pods(session: "ApiSession", namespaces: frozenset[str], *, is_dry: bool) -> ReleaseReport:
    """Release the gated pods of namespaces, or of all if none is named. Raises ApiError, ApiUnreachable."""
    bodies = [
        body
        for body in await _objects(session, "Pod")
        if not namespaces or body["metadata"]["namespace"] in namespaces
    ]
    report = ReleaseReport()
    for body in await _objects(session, "Namespace"):
        name = body["metadata"]["name"]
        labels = body["metadata"].get("labels") or {}
        if labels.get(CLAIMS_LABEL) == "managed" and (not namespaces or name in namespaces):
            report.managed.append(name)
    wanted = [body for body in bodies if next_write(body) is not None]
    if is_dry:
        for body in wanted:
            _record_done(body, report)
    else:
        await _write_all(session, wanted, report)
    for pods in (report.released, report.cleared):
        pods.sort()
    return report


def next_write(body: Mapping[str, Any]) -> "PodWrite | None":
    """Return what is to be written to a pod next so that it is kube-scheduler's alone; None if it is, or has ended."""
    from dra_operator.cluster.pod_writes import (
        GateWrite,
        NominateWrite,
        gates_of,
        nominated_node,
    )

    pod = dict(body)
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp") or (pod.get("spec") or {}).get("nodeName"):
        return None
    if (pod.get("status") or {}).get("phase") in ENDED_PHASES:
        return None
    version = (metadata["namespace"], metadata["name"], metadata["uid"], metadata["resourceVersion"])
    gates, node = gates_of(pod), nominated_node(pod)
    if node is not None and is_nominated_by_operator(body):
        return NominateWrite(*version, node, None)
    return GateWrite(*version, gates) if GATE in gates else None


async def _write_all(session: "ApiSession", bodies: Iterable[dict[str, Any]], report: ReleaseReport) -> None:
    """Write to each pod until nothing is left to be written; what cannot be written is reported, the others go on."""
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.writer import Writer
    from dra_operator.cluster.writes import Conflict, Gone, Unanswered, Written

    outcomes: asyncio.Queue[WriteOutcome] = asyncio.Queue()
    writer = Writer(
        session,
        Served(KINDS["Pod"], "v1"),
        outcomes.put_nowait,
        may_write=_wait_for_nothing,
        concurrency=CONCURRENCY,
        timeout=TIMEOUT,
    )
    waiting = {_name(body): body for body in bodies}
    conflicts = dict.fromkeys(waiting, 0)

    def write_next(pod: str, current: dict[str, Any]) -> None:
        """Have written what a pod needs next; record it as done if that is nothing, or if it is another pod by now."""
        is_same = current["metadata"]["uid"] == waiting[pod]["metadata"]["uid"]
        if is_same and (write := next_write(current)) is not None:
            writer.submit(write)
        else:
            _record_done(waiting.pop(pod), report)

    for pod, body in list(waiting.items()):
        write_next(pod, body)
    while waiting:
        outcome = await outcomes.get()
        pod = f"{outcome.write.namespace}/{outcome.write.name}"
        match outcome:
            case Unanswered():
                pass
            case Written(body=current):
                write_next(pod, current)
            case Conflict(body=dict(current)) if conflicts[pod] < CONFLICTS:
                conflicts[pod] += 1
                write_next(pod, current)
            case Gone():
                del waiting[pod]
            case _:
                del waiting[pod]
                report.failed[pod] = str(
                    getattr(outcome, "error", getattr(outcome, "message", outcome.result))
                )
    await writer.drain(0)


def _record_done(body: dict[str, Any], report: ReleaseReport) -> None:
    from dra_operator.cluster.pod_writes import gates_of

    (report.released if GATE in gates_of(body) else report.cleared).append(_name(body))


async def _objects(session: "ApiSession", kind: str) -> list[dict[str, Any]]:
    from dra_operator.cluster.discovery import Served, pages

    found = list[dict[str, Any]]()
    async for _, items, _ in pages(session, Served(KINDS[kind], "v1"), CHUNK):
        found += items
    return found


async def _wait_for_nothing() -> None:
    """Permit each write: no Lease is asked for, as the operator's own writes are conditional as well."""


def _name(body: Mapping[str, Any]) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"
