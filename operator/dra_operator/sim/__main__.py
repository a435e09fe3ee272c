"""Run the API server on its own: `python -m dra_operator.sim --port 8001 --kubeconfig FILE`."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from dra_operator.sim.server import ApiServer


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the first line of output is the URL."""
    parser = argparse.ArgumentParser(prog="python -m dra_operator.sim", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=0, help="where to listen on loopback; 0 takes a free port"
    )
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig for this server to this file")
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options.port, options.kubeconfig))
    return 0


async def _serve(port: int, kubeconfig: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    async with ApiServer(port) as server:
        if kubeconfig is not None:
            await asyncio.to_thread(kubeconfig.write_text, server.kubeconfig(), encoding="utf-8")
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
