"""An agent in a process of its own, which may end without warning at its N-th change of a file.

Changes are what the interpreter tells of below a folder: files opened for writing, renamed, removed. The processes are
forks of one that has the agent's modules, since to import them takes as long as all else that a history does.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

_CHANGES = {"os.rename", "os.remove"}
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["dra_bridge.agent", "dra_bridge.cli", "dra_operator.cluster.credentials"])


def start_agent(arguments: Sequence[str], folder: Path, log: Path, *, killed_at: int) -> BaseProcess:
    """Start an agent that logs to a file; 0 is never."""
    process = _CONTEXT.Process(target=_run, args=([*arguments], str(folder), str(log), killed_at))
    process.start()
    return process


def _run(arguments: list[str], folder: str, log: str, killed_at: int) -> None:
    # Here, so that what starts it need not import it.
    from dra_bridge.cli import main  # noqa: PLC0415

    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in (1, 2):
        os.dup2(output, number)
    if killed_at:
        _end_at(killed_at, folder)
    sys.argv[1:] = arguments
    main()


def _end_at(number: int, folder: str) -> None:
    done = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal done
        is_change = event in _CHANGES or (event == "open" and arguments[1] in ("w", "wb"))
        if is_change and str(arguments[0]).startswith(folder):
            done += 1
            if done == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
