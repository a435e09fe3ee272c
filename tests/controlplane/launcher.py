"""Become another program that does not outlive the one that started it.

A test run can end in ways that no clean-up code sees: `kill -9`, a crash, the machine's memory running out.
Linux offers one promise that holds then too: a process may ask to be killed when its parent dies. The request
has to be made by the process itself, between its birth and the start of the program, so this file is run
first and then replaced by that program.

Called as `python -I -S launcher.py PARENT PROGRAM ARGUMENT...`; it imports nothing that is slow.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask to be killed with the parent, then become the program."""
    parent = int(sys.argv[1])
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - only where there is something to call

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the request was made: then nobody would ever send the signal.
    if os.getppid() != parent:
        sys.exit("the process that asked for this one is gone")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - becoming another program is the purpose


if __name__ == "__main__":
    main()
