"""`dra-bridge`: the agent of a node, and the class that goes with a resource."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
import structlog
import yaml

from dra_bridge.devices import device_class, problem_of_resource

if TYPE_CHECKING:
    from dra_bridge.agent import AgentOptions
    from dra_operator.cluster.credentials import Access

_FOLDER: Final = click.Path(path_type=Path)


@click.group(no_args_is_help=True)
def app() -> None:
    """Existing device plugins as DRA drivers, unchanged."""


@app.command("class")
@click.argument("resource")
@click.option("--driver", default="", help="The driver, if the agent's log says another name.")
def print_class(resource: str, driver: str) -> None:
    """Print the DeviceClass by which pods ask for a plugin's devices, by claims and by `limits`.

    RESOURCE is what the plugin registers, such as vendor.com/foo.
    """
    if problem := problem_of_resource(resource):
        _refuse(problem)
    click.echo(yaml.safe_dump(device_class(resource, driver), sort_keys=False), nl=False)


@app.command(context_settings={"show_default": True})
@click.option(
    "--node", required=True, envvar="NODE_NAME", help="The node that the agent is on.", show_envvar=True
)
@click.option(
    "--kubelet",
    type=_FOLDER,
    default="/var/lib/kubelet",
    help="The kubelet's folder, at the path at which the kubelet sees it.",
)
@click.option(
    "--cdi", type=_FOLDER, default="/var/run/cdi", help="Where the container runtime looks for CDI files."
)
@click.option("--devices", type=_FOLDER, default="/dev", help="Where the host's /dev is seen.")
@click.option("--listen", default="0.0.0.0:8081", help="Where probe and metrics are.")
@click.option("--kubeconfig", default="", show_default=False, help="Outside a pod: who to be.")
def run(*, node: str, kubelet: Path, cdi: Path, devices: Path, listen: str, kubeconfig: str) -> None:
    """Serve the device plugins of a node until SIGTERM or Ctrl-C."""
    _configure_logs()
    try:
        import grpc  # noqa: F401, PLC0415 - only a bridge needs it, and whoever prints a class has none
    except ImportError:
        _refuse("the agent needs gRPC: install dra-operator[bridge]")
    from dra_bridge.agent import AgentOptions  # noqa: PLC0415 - as above
    from dra_operator.cluster.credentials import AccessError, load_access  # noqa: PLC0415 - as above

    try:
        access = load_access(kubeconfig or None)
    except AccessError as error:
        _refuse(str(error))
    raise click.exceptions.Exit(
        asyncio.run(_serve(AgentOptions(node, kubelet, cdi, devices, listen), access))
    )


async def _serve(options: "AgentOptions", access: "Access") -> int:
    """Run the agent until it is told to end; return the exit code."""
    from dra_bridge.agent import Agent  # noqa: PLC0415 - as above
    from dra_operator.cluster.session import ApiSession  # noqa: PLC0415 - as above

    async with ApiSession(access, user_agent="dra-bridge") as session:
        agent = asyncio.create_task(Agent(options, session).run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, agent.cancel)
        try:
            await agent
        except asyncio.CancelledError:
            return 0
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged as all else is
            for each in _leaves(error):
                structlog.get_logger("dra_bridge").error(
                    "agent ended", why=str(each), kind=type(each).__name__
                )
            return 1
    return 0


def _leaves(error: Exception) -> list[Exception]:
    """Return the errors that a group consists of."""
    if isinstance(error, ExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _configure_logs() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )


def _refuse(text: str) -> NoReturn:
    click.echo(f"error: {text}", err=True)
    raise click.exceptions.Exit(2)


def main() -> None:
    """Run the command."""
    app()
