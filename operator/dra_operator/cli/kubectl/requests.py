"""Reading by `kubectl get --raw`: the user's own kubeconfig, login, proxy and rights are kubectl's business.

Each request is a process of 0.04 s; several run at once. A list comes whole: half a list is no JSON.
Source: docs/decisions.md, "kubectl dra reads by kubectl".
"""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dra_operator.api.text import shown
from dra_operator.cli.kubectl.options import Options

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where the kubelet puts the namespace of a pod."""
_OF_SERVER: Final = re.compile(r"^Error from server \((\w+)\): (.*)", re.MULTILINE)


class ReadingError(Exception):
    """The cluster, or a file, cannot be read, or not what an answer needs."""


class RefusedError(Exception):
    """The API server refused a request: the reason, as `Forbidden`, and its own words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Context:
    """What a context says: the namespace, and whether a plugin logs the user in."""

    namespace: str
    has_plugin: bool = False


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The program, with the flags that say which cluster is asked, and as whom."""

    program: str
    cluster: tuple[str, ...] = ()
    user: tuple[str, ...] = ()

    def get(self, path: str) -> Any:
        """Return the JSON at a path. Raises RefusedError for what the API server refuses, else ReadingError."""
        done = self._run("get", "--raw", path, *self.user)
        if done.returncode:
            said = done.stderr.decode(errors="replace")
            if refused := _OF_SERVER.search(said):
                raise RefusedError(refused[1], f"{path}: {refused[2]}")
            raise ReadingError(f"{path}: {_last_line(said) or f'kubectl ended with {done.returncode}'}")
        from dra_operator.cluster.decoding import decode

        try:
            return decode(done.stdout)
        except ValueError as error:
            raise ReadingError(f"{path}: the answer is no JSON: {error}") from error

    def context(self) -> Context:
        """Return the context of the kubeconfig; without one, as in a pod, what kubectl takes then."""
        done = self._run("config", "view", "--minify", "--output=json")
        if done.returncode:
            # If something is wrong with the kubeconfig, the first request says so.
            return Context(SERVICE_ACCOUNT.read_text().strip() if SERVICE_ACCOUNT.is_file() else "default")
        config = json.loads(done.stdout)
        namespace = config["contexts"][0]["context"].get("namespace") or "default"
        users = [each.get("user") or {} for each in config.get("users") or ()]
        return Context(str(namespace), has_plugin=any("exec" in user for user in users))

    def contexts(self) -> list[str]:
        """Return the names of the contexts of the kubeconfig."""
        return self._run("config", "get-contexts", "--output=name").stdout.decode(errors="replace").split()

    def log_in(self) -> None:
        """Have a plugin log the user in at the terminal: what it keeps serves the requests that then start together.

        Raises ReadingError.
        """
        arguments = [self.program, "get", "--raw", "/version", *self.cluster, *self.user]
        if subprocess.run(arguments, stdout=subprocess.DEVNULL, check=False).returncode:  # noqa: S603 - kubectl
            raise ReadingError("kubectl cannot log in")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603 - kubectl
            [self.program, *arguments, *self.cluster],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )


def connect(options: Options) -> Kubectl:
    """Return kubectl for the cluster of some options. Raises ReadingError if there is no kubectl."""
    program = shutil.which("kubectl")
    if program is None:
        raise ReadingError("kubectl is not in the PATH: kubectl dra reads the cluster by it")
    named = {"kubeconfig": options.kubeconfig, "context": options.context}
    user = [f"--as-group={each}" for each in options.as_groups]
    user += [
        f"--{name}={value}" for name, value in (("as", options.as_user), ("as-uid", options.as_uid)) if value
    ]
    return Kubectl(
        program,
        tuple([f"--{name}={value}" for name, value in named.items() if value]),
        (*user, f"--request-timeout={options.timeout or 0:g}s"),
    )


def items_of(path: str, answer: Any) -> list[dict[str, Any]]:
    """Return the objects of a list. Raises ReadingError if the answer is none."""
    items = answer.get("items") or [] if isinstance(answer, dict) and "items" in answer else None
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise ReadingError(f"{path}: the answer is no list of objects, but {shown(answer)}")
    return items


def _last_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else ""
