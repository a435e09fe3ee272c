"""`dra-operator demo`: the main job, start to end, on an API server in memory.

Nothing is staged: the operator that runs is the one that `run` runs, over HTTP, against an API server that
answers as the real one does; only the nodes and the driver are missing, and what they would publish stands in
demo.yaml.
"""

import asyncio
import contextlib
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import yaml

from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.cli.output import refuse
from dra_operator.questions.documents import why
from dra_operator.questions.manifests import to_yaml

SHOWN = (("all-gpus", "it has its devices"), ("big-gpu", "it waits, and says why"))
"""The claims that are printed, and what there is to see."""
CLAIMS = ("all-gpus", "best-gpu", "big-gpu")
PATIENCE = 30.0
"""Seconds after which the demo gives up."""


@click.command("demo")
@click.option("--serve", "keep", is_flag=True, help="Keep the API server and the operator up until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="NUMBER",
    help="Where the API server listens on loopback; 0 takes a free port.",
)
def app(*, keep: bool, port: int) -> None:
    """Run the operator on an API server in memory and show what it does. Needs no cluster."""
    from dra_operator.controller import logs

    logs.configure("console", "warning")
    click.echo("An API server in memory, two nodes with two GPUs each, and the operator.\n")
    sys.exit(asyncio.run(_run(port, keep=keep)))


async def _run(port: int, *, keep: bool) -> int:
    from dra_operator.testing.server import ApiServer

    server = ApiServer(port)
    try:
        await server.start()
    except (OSError, OverflowError) as error:
        refuse(f"--port {port}: {error}")
    try:
        with _kept(server.kubeconfig()) as kubeconfig:
            return await _show(server, kubeconfig, keep=keep)
    finally:
        await server.stop()


@contextlib.contextmanager
def _kept(kubeconfig: str) -> Iterator[Path]:
    """Write a kubeconfig to a file that is gone afterwards. Ends the command with 2 where nothing can be written."""
    with contextlib.ExitStack() as stack:
        place = "temporary files"
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-operator-"))
            file = Path(folder, "kubeconfig")
            place = str(file)
            file.write_text(kubeconfig, encoding="utf-8")
        except OSError as error:
            place = error.filename or place
            refuse(f"{place}: {why(error)}; set TMPDIR to a folder that can be written to")
        yield file


async def _show(server: Any, kubeconfig: Path, *, keep: bool) -> int:
    from dra_operator.cluster.credentials import load_access
    from dra_operator.cluster.session import ApiSession
    from dra_operator.controller.kopf_app import serve
    from dra_operator.controller.settings import Settings

    access = await asyncio.to_thread(load_access, str(kubeconfig))
    stop = asyncio.Event()
    async with ApiSession(access, user_agent="dra-operator-demo") as session:
        await _apply(session)
        settings = Settings(listen="127.0.0.1:0", kubeconfig=str(kubeconfig), devices="all")
        operator = asyncio.create_task(serve(settings, access, stop=stop))
        settled = asyncio.create_task(_settled(session))
        done, _ = await asyncio.wait(
            {operator, settled}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        if settled not in done:
            late = f"the claims are not settled after {PATIENCE:.0f} s"
            click.echo(f"error: {'the operator has ended' if operator in done else late}", err=True)
            settled.cancel()
            stop.set()
            return max(1, await operator)
        for name, text in SHOWN:
            click.echo(f"resourceclaim/{name}: {text}")
            click.echo(await _shown(session, name))
        click.echo(await _summary(session))
    if keep:
        _say_how_to_go_on(kubeconfig, server.url)
    else:
        _say_what_next()
        stop.set()
    return await operator


async def _apply(session: Any) -> None:
    """Create what demo.yaml holds."""
    from dra_operator.api.kinds import KINDS
    from dra_operator.cluster.discovery import Served

    text = files("dra_operator.cli").joinpath("demo.yaml").read_text(encoding="utf-8")
    for body in yaml.safe_load_all(text):
        metadata = body["metadata"]
        kind = Served(KINDS[body["kind"]], body["apiVersion"].rpartition("/")[2])
        await session.request("POST", kind.path(metadata.get("namespace", "")), body=body)
        click.echo(f"{kind.kind.plural}/{metadata['name']} created")
    click.echo()


async def _settled(session: Any) -> None:
    """Wait until each claim has an Event, and those that fit an allocation."""
    while True:
        claims = [await _claim(session, name) for name in CLAIMS]
        told = [await _events(session, name) for name in CLAIMS]
        answered = [
            "allocation" in (claim.get("status") or {})
            or PENDING_ANNOTATION in (claim["metadata"].get("annotations") or {})
            for claim in claims
        ]
        if all(told) and all(answered):
            return
        await asyncio.sleep(0.05)


async def _claim(session: Any, name: str) -> Any:
    return await session.request("GET", f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}")


async def _events(session: Any, name: str) -> Any:
    params = {"fieldSelector": f"involvedObject.kind=ResourceClaim,involvedObject.name={name}"}
    found = await session.request("GET", "/api/v1/namespaces/default/events", params=params)
    return found["items"]


async def _shown(session: Any, name: str) -> str:
    """Return what the operator wrote to a claim as YAML, and its Events as lines."""
    claim = await _claim(session, name)
    annotations = claim["metadata"].get("annotations") or {}
    written = {"metadata": {"annotations": annotations}} if annotations else {"status": claim["status"]}
    events = [
        f"Event: {event['type']} {event['reason']}: {event['message']}\n"
        for event in await _events(session, name)
    ]
    return to_yaml(written) + "".join(events)


async def _summary(session: Any) -> str:
    lines = []
    for name in CLAIMS:
        claim = await _claim(session, name)
        allocation = (claim.get("status") or {}).get("allocation")
        if allocation is None:
            lines.append(f"{name}: waits: {claim['metadata']['annotations'][PENDING_ANNOTATION]}")
            continue
        results = allocation["devices"]["results"]
        devices = ", ".join(f"{result['pool']}/{result['device']}" for result in results)
        lines.append(f"{name}: allocated {devices} for {results[0]['request']}")
    return "\n".join(lines) + "\n"


def _say_what_next() -> None:
    program = _program()
    following = {
        f"{program} demo --serve": "keep it up, and use kubectl on it",
        f"{program} snapshot --out cluster.yaml": "your cluster as a file; nothing is written to the cluster",
        f"{program} simulate -f cluster.yaml": "what would be decided in it",
        "docs/claims.md": "what claims can ask for",
        "docs/reasons.md": "what the reasons mean, and what to do",
    }
    width = max(map(len, following))
    click.echo("Try next:")
    for what, for_what in following.items():
        click.echo(f"  {what:{width}}   {for_what}")


def _program() -> str:
    """Return how a shell calls this program from here: `make demo` installs it where no PATH leads."""
    installed = Path(sysconfig.get_path("scripts"), "dra-operator")
    if shutil.which("dra-operator") or not installed.exists():
        return "dra-operator"
    here = Path.cwd()
    return str(installed.relative_to(here) if installed.is_relative_to(here) else installed)


def _say_how_to_go_on(kubeconfig: Path, url: str) -> None:
    click.echo(f"The API server is up at {url}. In another terminal:")
    click.echo(f"  export KUBECONFIG={kubeconfig}")
    click.echo("  kubectl get resourceclaims,resourceslices,deviceclasses")
    click.echo("  kubectl delete resourceclaim all-gpus      # frees the GPUs of node-1")
    click.echo("Ctrl-C ends it.")
