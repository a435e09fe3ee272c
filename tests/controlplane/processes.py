"""Programs that a test starts, and their certain end.

Nothing here ever looks for a process by its name: two test runs on one machine start the same programs. What
was started is stopped by its own pid, which cannot have been reused, because its parent, this process, has
not yet read its exit status.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")


class ProcessDiedError(RuntimeError):
    """A program ended while it was waited for; the text holds the end of its log."""


class Process:
    """One program, started at once, with its output in a file.

    It runs in a session of its own, so that Ctrl-C at a terminal reaches the tests alone and they stop it in
    order, and it is killed by the kernel when this process dies. The kernel ties that to the thread, so only
    the main thread may start one.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(f"{name}: start it from the main thread; it would die with this one")
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *map(str, argv)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id; the launcher keeps it when it becomes the program."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """What the program returned, negative for a signal, None while it runs."""
        return self._popen.poll()

    def send(self, sent: signal.Signals) -> None:
        """Send a signal; nothing happens when the program has ended."""
        self._popen.send_signal(sent)

    def freeze(self) -> None:
        """Stop the program, all threads of it, until SIGCONT; return when it has stopped. Needs Linux."""
        self.send(signal.SIGSTOP)
        # Until the signal has reached it, a thread on another processor may go on answering.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wait(self, seconds: float) -> int:
        """Wait for the end and return the exit code; raise `subprocess.TimeoutExpired` if none comes."""
        return self._popen.wait(seconds)

    def stop(self, sent: signal.Signals = signal.SIGTERM, *, grace: float = 30.0) -> int:
        """Ask the program to end, kill it if it has not after `grace` seconds, and return its exit code."""
        if self.exit_code is not None:
            return self._popen.returncode
        self.send(sent)
        # A stopped process (SIGSTOP) takes a signal only when it is continued.
        self.send(signal.SIGCONT)
        try:
            return self.wait(grace)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End the program, with what it started, as a power cut would; return its exit code."""
        if self.exit_code is None:
            # Its group has its pid, which is taken until the exit status has been read.
            os.killpg(self.pid, signal.SIGKILL)
        return self.wait(30)

    def processor_seconds(self) -> float:
        """Return the processor time it has taken so far; 0 where that cannot be known. Needs Linux's /proc."""
        if self._popen.returncode is not None:
            return 0.0  # its number may be somebody else's by now
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        # The name of the program is behind us: utime and stime are the 14th and 15th field of proc(5).
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log_text(self) -> str:
        """All that the program has written so far."""
        return self.log.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], bool], *, seconds: float = 90) -> None:
        """Return once `ready()` is true; raise `ProcessDiedError` if the program ends first.

        Raises `TimeoutError` when `seconds` are over.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.exit_code is not None:
                raise ProcessDiedError(f"{self.name} ended with {self.exit_code}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is not ready after {seconds:g} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self) -> str:
        """Return the last lines of the log, for messages."""
        return "\n".join(self.log_text().splitlines()[-15:])


class ReservedPort:
    """A free port of loopback that stays ours from now until it is closed.

    A port that is merely looked up can be taken by somebody else before the program binds it, and while the
    program is restarted. So the port is bound here without listening, with SO_REUSEPORT, and the program
    binds it the same way beside us: the kernel allows that to the same user only, and never hands such a port
    to anybody who asks for a free one. While the program is down a connection is refused, as it should be.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()
