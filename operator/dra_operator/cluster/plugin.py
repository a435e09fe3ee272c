"""Credential plugins: programs that a kubeconfig names, ended in time.

Neither client-go nor the `kubernetes` package ends one that hangs. The package starts what the kubeconfig names, so
that becomes this file, which starts the plugin, gives it a minute, as the kubelet does, and ends it with all that it
has started.
Source: https://github.com/kubernetes/kubernetes/issues/108849; k8s.io/kubernetes/pkg/credentialprovider/plugin.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

SECONDS = 60.0
SAID_BYTES = 1 << 20
"""How much a plugin may print: credentials are a few kilobytes."""
COMPLAINTS_BYTES = 4096
"""How much of what a plugin complains of is handed on, its end: it becomes one line of the log."""
PR_SET_CHILD_SUBREAPER = 36
"""Source: linux/prctl.h."""


def bound(plugin: dict[str, Any]) -> dict[str, Any]:
    """Return the `exec` of a user in a kubeconfig that ends in time.

    The one that is given, if somebody sits at a terminal, who may log in.
    """
    # Whoever has the output of a command in a file may well have a browser.
    if any(map(os.isatty, (0, 1, 2))):
        return plugin
    # Only what is in Python itself is needed, and nothing that the plugin's environment may say about Python.
    args = ["-I", "-S", __file__, str(SECONDS), plugin["command"], *(plugin.get("args") or ())]
    return {**plugin, "command": sys.executable, "args": args}


def main(seconds: str, *command: str) -> int:
    """Run a command, hand on what it says and return its exit code, or 1 if it cannot be started or takes too long."""
    _adopt()
    try:
        # What it leaves behind must not hold our own stdout open, whose end the loader waits for.
        plugin = subprocess.Popen(  # noqa: S603 - whoever wrote the kubeconfig wants it
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}")
        return 1
    said, complaints = bytearray(), bytearray()
    why = _read_output(plugin, said, complaints, float(seconds))
    if why:
        os.killpg(plugin.pid, signal.SIGKILL)
        _bury()
    else:
        sys.stdout.buffer.write(said)
    # What is no UTF-8 is not read at all, and a character may have been cut.
    sys.stderr.write(complaints.decode(errors="replace") + why)
    return 1 if why else plugin.returncode


def _read_output(
    plugin: "subprocess.Popen[bytes]", said: bytearray, complaints: bytearray, seconds: float
) -> str:
    """Take what a plugin says and the end of its complaints, until it ends; return why it must be ended, if it must."""
    until, parent, late = time.monotonic() + seconds, os.getppid(), f"not done after {seconds:g} s"
    with selectors.DefaultSelector() as pipes:
        for pipe, taken in ((plugin.stdout, said), (plugin.stderr, complaints)):
            assert pipe is not None
            pipes.register(pipe, selectors.EVENT_READ, taken)
        while pipes.get_map():
            if (left := until - time.monotonic()) <= 0:
                return late
            for key, _ in pipes.select(min(left, 1)):
                if not (chunk := os.read(key.fd, 1 << 16)):
                    pipes.unregister(key.fileobj)
                key.data.extend(chunk)
            del complaints[:-COMPLAINTS_BYTES]
            if len(said) > SAID_BYTES:
                return f"printed more than {SAID_BYTES} bytes"
            if os.getppid() != parent:
                return "nobody waits for it any more"
    try:
        plugin.wait(max(0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return late
    return ""


def _adopt() -> None:
    """Have those left to this process that lose their parent below it.

    Else they are left to the first one, which in a container is the operator, and looks after nobody: each plugin that
    hangs would leave some of the processes there that a container may have, until nothing can be started any more.
    """
    with contextlib.suppress(ImportError, AttributeError, OSError):
        # Only Linux has this, and not every Python can call it.
        import ctypes  # noqa: PLC0415 - only where there is something to call

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def _bury() -> None:
    """Wait for those that were killed, a second at most: some may be in a session of their own, and live on."""
    until = time.monotonic() + 1
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
