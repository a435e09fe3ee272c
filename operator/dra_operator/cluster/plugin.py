"""Plugins: programs that print credentials, as a kubeconfig names them, and that may hang.

Nobody who starts one ends it: client-go does not, because somebody may just be logging in, nor does the `kubernetes`
package. So one that hangs would be waited for as long as the operator lives, and be the last that was asked. Where
nobody is there to log in, it gets a minute, as the kubelet gives those that print credentials for images.

The package starts what the kubeconfig names. So that has to be this file, which starts the plugin and ends it, with
all that it has started itself: it is often a shell, and what hangs is below it.
Source: https://github.com/kubernetes/kubernetes/issues/108849; k8s.io/kubernetes/pkg/credentialprovider/plugin.
"""

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

SECONDS = 60.0


def bound(plugin: dict[str, Any]) -> None:
    """Have the `exec` of a user in a kubeconfig end in time, unless somebody sits at a terminal, who may log in."""
    # Whoever has the output of a command in a file may well have a browser.
    if any(map(os.isatty, (0, 1, 2))):
        return
    # Only what is in Python itself is needed, and nothing that the plugin's environment may say about Python.
    plugin["args"] = ["-I", "-S", __file__, str(SECONDS), plugin["command"], *(plugin.get("args") or ())]
    plugin["command"] = sys.executable


def main(seconds: str, *command: str) -> int:
    """Run a command, hand on what it says and return its exit code, or 1 if it cannot be started or takes too long."""
    try:
        # What it leaves behind must not hold our own stdout open, whose end the loader waits for.
        plugin = subprocess.Popen(  # noqa: S603 - whoever wrote the kubeconfig wants it
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}")
        return 1
    try:
        said, complaints = plugin.communicate(timeout=float(seconds))
    except subprocess.TimeoutExpired as late:
        os.killpg(plugin.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Else it is left to the first process, which in a container is the operator, and looks after nobody.
            plugin.wait(1)
        sys.stderr.buffer.write(late.stderr or b"")
        sys.stderr.write(f"not done after {float(seconds):g} s")
        return 1
    sys.stdout.buffer.write(said)
    sys.stderr.buffer.write(complaints)
    return plugin.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
