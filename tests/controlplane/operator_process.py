"""The operator as an administrator runs it: a process of its own, with the rights of its service account."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT
from controlplane.plane import ControlPlane
from controlplane.processes import Process


class OperatorProcess(Process):
    """A running `dra-operator run`."""

    def lines(self) -> list[dict[str, Any]]:
        """Return the log lines, decoded; a line that is not JSON is `{"text": line}`."""
        decoded: list[dict[str, Any]] = []
        for line in self.log_text().splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                value = line
            decoded.append(value if isinstance(value, dict) else {"text": line})
        return decoded

    @property
    def url(self) -> str | None:
        """Where /healthz, /readyz and /metrics are served, None while the log has not said so."""
        for line in self.lines():
            if line.get("event") == "listening":
                return f"http://{line['address']}"
        return None

    def http(self, path: str) -> tuple[int, str]:
        """Return the status code and text that the operator answers; raise OSError if it does not."""
        if self.url is None:
            raise ConnectionRefusedError("the operator does not listen yet")
        try:
            with urlopen(self.url + path, timeout=5) as response:  # noqa: S310 - the address is our own
                return response.status, response.read().decode()
        except HTTPError as answer:
            with answer:
                return answer.code, answer.read().decode()

    def ready(self) -> bool:
        """Tell whether /readyz answers 200."""
        with suppress(OSError, HTTPException):
            return self.http("/readyz")[0] == 200
        return False

    def wait_ready(self, seconds: float = 90) -> None:
        """Return once the operator is ready; raise with the end of its log if it ends or takes longer."""
        self.wait_until(self.ready, seconds=seconds)

    def wait_unready(self, seconds: float = 90) -> None:
        """Return once /readyz answers something else than 200."""
        self.wait_until(lambda: not self.ready(), seconds=seconds)


_TESTS = str(Path(__file__).parents[1])
# Which takes the Lease at once from one that was killed.
_OF_ONE_POD = {"POD_NAME": "operator", "POD_UID": "one"}


def start_operator(
    plane: ControlPlane,
    log: Path,
    *flags: str,
    environment: Mapping[str, str] | None = None,
    kubeconfig: Path | None = None,
    program: str = "tuned_operator",
) -> OperatorProcess:
    """Start the operator as the service account of manifests/ and do not wait for it.

    Its access must be installed. `flags` are flags of `dra-operator run`, or those that `tuned_operator` makes of
    what nobody can set, `environment` is added to the operator's, `kubeconfig` acts for somebody else. `program` is the
    module that runs: another version of the operator has none of those flags.
    """
    access = kubeconfig or plane.kubeconfig_for(SERVICE_ACCOUNT, NAMESPACE)
    # Settings of the shell that runs the tests must not reach the operator.
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("DRA_OPERATOR_", "KUBE"))
    }
    paths = [_TESTS, *((environment or {}).get("PYTHONPATH", "").split(os.pathsep))]
    return OperatorProcess(
        "dra-operator",
        [
            sys.executable,
            "-m",
            program,
            "run",
            f"--kubeconfig={access}",
            "--listen=127.0.0.1:0",
            "--log-format=json",
            # Few tests are about owned devices.
            *(() if any(each.startswith("--devices") for each in flags) else ("--devices=all",)),
            *flags,
        ],
        log=log,
        cwd=plane.directory,
        env=inherited
        | _OF_ONE_POD
        | {"PYTHONUNBUFFERED": "1"}
        | dict(environment or {})
        | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
