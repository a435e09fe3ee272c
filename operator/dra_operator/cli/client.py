"""A cluster for a command: which one, as `run` finds it, and a session with it for as long as the command asks.

The client is imported when it is needed: it takes most of a second, which `--help` should not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dra_operator.cli.output import refuse

if TYPE_CHECKING:
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
