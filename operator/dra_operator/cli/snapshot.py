"""`dra-operator snapshot`: the state of a cluster as a file, for `simulate` to run again.

What allocation depends on, and no more: of nodes their labels, taints and whether they can be used, of pods which
claims they name and what they ask of a node. It is read with the operator's own rights; what those do not cover is left
out and said, in the file as well.
Source: docs/cli.md.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dra_operator.cli.output import refuse

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dra_operator.api.convert import Body
from dra_operator.api.names import LEASE_NAME
from dra_operator.cli.arguments import file_path
from dra_operator.cli.output import opened, refusing
from dra_operator.cli.redact import redact
from dra_operator.questions.kept_fields import NEEDED, RARE, TAKEN, trim
from dra_operator.questions.manifests import SnapshotHeader, write_header, write_yaml

if TYPE_CHECKING:
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiSession


_Answer = TypeVar("_Answer")

Kubeconfig = Annotated[
    str,
    typer.Option(metavar="FILE", envvar="DRA_OPERATOR_KUBECONFIG", help="Kubeconfig file, as for `run`."),
]
Context = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        envvar="DRA_OPERATOR_CONTEXT",
        help="Context of the kubeconfig file, as for `run`.",
    ),
]


def ask(kubeconfig: str, context: str, question: "Callable[[ApiSession], Awaitable[_Answer]]") -> _Answer:
    """Return what comes of a session with a cluster; end the command with 2 where there is none, or it refuses."""
    from dra_operator.cluster.credentials import AccessError, load_access
    from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
    from dra_operator.controller import logs

    # To stderr: stdout is for the answer.
    logs.configure("console", "warning")

    async def speak() -> _Answer:
        access = load_access(kubeconfig or None, context or None)
        async with ApiSession(access) as session:
            return await question(session)

    try:
        return asyncio.run(speak())
    except (AccessError, ApiError, ApiUnreachable, LookupError) as error:
        refuse(str(error))


PAGE = 500
"""Objects asked for at a time."""
END_OF_DOCUMENTS = b"...\n"
"""The last line: with it a document of YAML ends, and no object is lost behind it."""
ATTEMPTS = 3
"""How often a list is begun, if the API server forgets it in the middle."""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(slots=True)
class Snapshot:
    """The objects of a cluster, as on the wire, and lines about what is not among them.

    `unread` has the reason for each kind that could not be read; `kubernetes` is the version of the API server.
    """

    bodies: list[Body] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    kubernetes: str = ""


@app.command()
def snapshot(
    *,
    redacted: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Replace names, namespaces, labels, annotations and uids of claims and pods; drop opaque parameters.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=file_path, help="Write to this file; .gz is compressed."),
    ] = None,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Write the state of a cluster, as far as claims depend on it, for `simulate -f`. Only reads from the cluster."""
    begun = time.time()
    taken = ask(kubeconfig, context, read_objects)
    bodies = redact(taken.bodies) if redacted else taken.bodies
    with refusing(None, out), opened(out or Path("-"), "wb") as file:
        file.write(write_header(SnapshotHeader(begun, taken.unread, taken.kubernetes)))
        file.writelines(write_yaml(bodies))
        # By this it is known that nothing was cut off.
        file.write(END_OF_DOCUMENTS)
    for note in taken.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(_summary(bodies), err=True)


async def read_objects(session: "ApiSession", kinds: Sequence[str] = TAKEN) -> Snapshot:
    """Return the state of the cluster that a session speaks to, or some kinds of it.

    Raises ApiError, ApiUnreachable, or LookupError if a kind without which nothing can be decided is not served.
    """
    from dra_operator.api.kinds import KINDS
    from dra_operator.cluster.discovery import served, server_version
    from dra_operator.cluster.session import ApiError

    found = await served(session, {name: KINDS[name] for name in kinds})
    if missing := [name for name in NEEDED if name in kinds and name not in found]:
        raise LookupError(f"the API server does not serve {', '.join(missing)}")
    taken = Snapshot(kubernetes=await server_version(session))
    for name in kinds:
        if name not in found:
            if name not in RARE:
                taken.notes.append(f"{name} is not served")
            continue
        try:
            bodies = await _list(session, found[name])
        except ApiError as error:
            if error.status != 403 or name in NEEDED:
                raise
            taken.notes.append(f"not permitted to {error.verb} {error.resource}: left out")
            kind = KINDS[name]
            resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            taken.unread[name] = f"not permitted to {error.verb} {resource} when the snapshot was taken"
            continue
        taken.bodies += [body for body in map(trim, bodies) if body is not None]
    return taken


async def _list(session: "ApiSession", kind: "Served") -> list[Body]:
    """Return all objects of a kind. Raises ApiError, ApiUnreachable."""
    from dra_operator.cluster.discovery import pages
    from dra_operator.cluster.session import ApiError

    named = {"apiVersion": kind.api_version, "kind": kind.kind.kind}
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # Each node has a Lease: that of the operator is asked for by its name.
            fields = f"metadata.name={LEASE_NAME}" if kind.kind.kind == "Lease" else ""
            found = pages(session, kind, PAGE, fields)
            return [{**named, **item} async for _, items, _ in found for item in items]
        except ApiError as error:
            if error.status != 410 or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _summary(bodies: Iterable[Body]) -> str:
    kinds = [body["kind"] for body in bodies]
    return ", ".join(f"{kinds.count(name)} {name}" for name in TAKEN if name in kinds) or "nothing"
