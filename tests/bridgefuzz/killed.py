"""`killed.py N FOLDER ARGUMENT...` runs the bridge, and ends it without warning at its N-th change of a file.

Changes are what the interpreter tells of below a folder: files opened for writing, renamed, removed. 0 is never.
"""

import os
import signal
import sys

_CHANGES = {"os.rename", "os.remove"}


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


if __name__ == "__main__":
    if int(sys.argv[1]):
        _end_at(int(sys.argv[1]), sys.argv[2])
    from dra_bridge.cli import main

    sys.argv[1:] = sys.argv[3:]
    main()
