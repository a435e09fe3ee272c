"""Processes of the measurement, and what the kernel says of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

BENCH = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_LEFT_OUT = ("DRA_OPERATOR_", "KUBE")
"""Settings of the shell that must not reach the operator."""


def environment() -> dict[str, str]:
    """Return the environment for a process of the measurement."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    paths = [str(BENCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


class Server:
    """The process of `scaling.server`."""

    def __init__(self, kubeconfig: Path, *, nodes: int, claims: int, allocated: int, pods: int) -> None:
        sizes = {"nodes": nodes, "claims": claims, "allocated": allocated, "pods": pods}
        flags = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "scaling.server", "--kubeconfig", str(kubeconfig), *flags]
        self._process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def do(self, job: str, **parameters: Any) -> Iterator[Mapping[str, Any]]:
        """Have a job done and yield its answers, the last one with what is `wrong`, if anything is."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": job, **parameters}) + "\n")
        self._process.stdin.flush()
        while True:
            answer = self._answer()
            yield answer
            if answer.get("done"):
                return

    def stop(self) -> None:
        """End the process."""
        _end(self._process)

    def _answer(self) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with exit code {self._process.wait()}")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


class Operator:
    """`dra-operator run` as a process, its log in a file. Times are seconds since it was started."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        flags = ["--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", "--log-format", "json"]
        flags += ["--devices", "all", "--lease-namespace", "default", *options]
        self._log = log
        self._address = ""
        self._began = time.monotonic()
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dra_operator", "run", *flags],
                env=environment(),
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def wait_ready(self, seconds: float) -> float:
        """Return after how many seconds `/readyz` said so; raise RuntimeError if it does not within `seconds`."""
        while (passed := time.monotonic() - self._began) < seconds:
            if self._process.poll() is not None:
                raise RuntimeError(f"the operator ended; its log is {self._log}")
            if self._status("/readyz") == 200:
                return time.monotonic() - self._began
            time.sleep(0.05)
        raise RuntimeError(f"the operator was not ready after {passed:.0f} s; its log is {self._log}")

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels, 0 if it is not there."""
        with urlopen(f"http://{self._address}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        values = (line.rsplit(" ", 1)[1] for line in lines if line.startswith((f"{name} ", f"{name}{{")))
        return sum(map(float, values))

    def cpu(self) -> float:
        """Return the processor time used so far, in seconds."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident(self) -> float:
        """Return the resident memory, in MiB."""
        return self._memory("VmRSS")

    def peak(self) -> float:
        """Return the largest resident memory so far, in MiB."""
        return self._memory("VmHWM")

    def stop(self) -> int:
        """End the operator and return its exit code."""
        return _end(self._process)

    def _memory(self, name: str) -> float:
        text = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith(name))

    def _status(self, path: str) -> int:
        self._address = self._address or self._find_address()
        if not self._address:
            return 0
        with suppress(OSError, HTTPException):
            try:
                with urlopen(f"http://{self._address}{path}", timeout=5) as answer:
                    return int(answer.status)
            except HTTPError as answer:
                with answer:
                    return answer.code
        return 0

    def _find_address(self) -> str:
        for line in self._log.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                entry = json.loads(line)
                if entry.get("event") == "listening":
                    return str(entry["address"])
        return ""


def _end(process: subprocess.Popen[Any]) -> int:
    process.terminate()
    try:
        return process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        for pipe in filter(None, (process.stdin, process.stdout)):
            pipe.close()
