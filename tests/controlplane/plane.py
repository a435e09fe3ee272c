"""One control plane: etcd and kube-apiserver, on request also kube-controller-manager and kube-scheduler.

Every gate of Dynamic Resource Allocation is on, every version of its API is served (unless one alone is asked
for), and access is decided by RBAC, so that an operator meets here what it meets in a cluster. Two things differ
from one, both because most tests have no kubelet (`node/` has): the admission plugins ServiceAccount and
TaintNodesByCondition are off (pods can be made without the controller manager, Nodes without a heartbeat take pods),
and the node lifecycle controller does not run.
"""

import base64
import http.client
import json
import secrets
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from controlplane.binaries import Programs
from controlplane.certificates import Certificates, write_certificates, write_secret
from controlplane.client import Client
from controlplane.processes import Process, ReservedPort
from controlplane.serving import EVERYTHING, FEATURE_GATES, Serving

# Requests of service accounts are written down as they are answered: what the operator asked for is then a
# fact.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
"""
_USERS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "controller-manager": ("system:kube-controller-manager", ""),
}
_SERVERS = ("etcd", "kube-apiserver")
_CONTROLLERS = ("kube-controller-manager", "kube-scheduler")


class KubectlError(RuntimeError):
    """kubectl returned an error; the text is what it said."""


class ControlPlane:
    """A running control plane. Made by the two functions at the end of this module."""

    def __init__(self, programs: Programs, directory: Path, serving: Serving = EVERYTHING) -> None:
        self.serving = serving
        self.directory = directory
        self.programs = programs
        self.tokens = {user: secrets.token_hex(16) for user in _USERS}
        self._ports = {name: ReservedPort() for name in ("etcd", "peer", "apiserver", "manager", "scheduler")}
        self.server = f"https://127.0.0.1:{self._ports['apiserver'].number}"
        self._certificates: Certificates = write_certificates(directory)
        self.ca = self._certificates.authority
        self._processes: list[Process] = []
        self._apiserver: Process | None = None
        self._write_access()
        self.admin_kubeconfig = self._kubeconfig("admin", self.tokens["admin"])
        self.client = Client(self.server, self.tokens["admin"], self.ca)

    # Starting and stopping

    def start(self) -> None:
        """Start etcd and the API server; return when the API server is ready."""
        self._start_etcd()
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server, every time on the same port, and wait until it is ready."""
        port = str(self._ports["apiserver"].number)
        files = self._certificates
        self._apiserver = self._start(
            "kube-apiserver",
            self.programs.apiserver,
            f"--etcd-servers={self._etcd_url('etcd')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--permit-port-sharing=true",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--tls-cert-file={files.server}",
            f"--tls-private-key-file={files.server_key}",
            f"--client-ca-file={files.authority}",
            f"--kubelet-client-certificate={files.kubelet_client}",
            f"--kubelet-client-key={files.kubelet_client_key}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files.service_account_public_key}",
            f"--service-account-signing-key-file={files.service_account_key}",
            f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            "--allow-privileged=true",
            "--profiling=false",
            *self.serving.flags(),
        )
        self._apiserver.wait_until(self.ready)

    def stop_apiserver(self) -> None:
        """End the API server as a crash would: every connection is cut. What etcd holds stays."""
        if self._apiserver is not None:
            self._apiserver.kill()
            self._processes.remove(self._apiserver)
            self._apiserver = None

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Be without an API server inside the `with` block."""
        self.stop_apiserver()
        try:
            yield
        finally:
            self.start_apiserver()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have an API server that accepts connections and never answers inside the `with` block."""
        assert self._apiserver is not None
        self._apiserver.freeze()
        try:
            yield
        finally:
            self._apiserver.send(signal.SIGCONT)

    def back_up(self) -> Path:
        """Return a copy of what etcd holds; it and the API server are started anew for it."""
        self.stop_apiserver()
        self._stop_etcd()
        copy = self.directory / "backup"
        shutil.copytree(self.directory / "etcd", copy)
        self._start_etcd()
        self.start_apiserver()
        return copy

    @contextmanager
    def restored(self, backup: Path) -> Iterator[None]:
        """Be without an API server inside the `with` block; the one that is started then has what a backup holds.

        The versions of objects run backwards by it.
        """
        self.stop_apiserver()
        self._stop_etcd()
        shutil.rmtree(self.directory / "etcd")
        shutil.copytree(backup, self.directory / "etcd")
        try:
            yield
        finally:
            self._start_etcd()
            self.start_apiserver()

    def start_controllers(self) -> None:
        """Start kube-controller-manager and kube-scheduler; return when both answer."""
        manager = self._start_controller_manager()
        self.start_scheduler()
        self._wait_for_manager(manager)

    def restart_controllers(self) -> None:
        """End kube-controller-manager and kube-scheduler, and start both anew."""
        for process in [each for each in self._processes if each.name in _CONTROLLERS]:
            process.stop(grace=5)
            self._processes.remove(process)
        self.start_controllers()

    def start_controller_manager(self, *flags: str) -> None:
        """Start kube-controller-manager alone, with further flags; return when it answers."""
        self._wait_for_manager(self._start_controller_manager(*flags))

    def _wait_for_manager(self, manager: Process) -> None:
        manager.wait_until(lambda: _answers_tls(self._ports["manager"].number, "/healthz"))

    def _start_controller_manager(self, *flags: str) -> Process:
        files = self._certificates
        manager_access = self._kubeconfig("controller-manager", self.tokens["controller-manager"])
        return self._start(
            "kube-controller-manager",
            self.programs.controller_manager,
            *_access_flags(manager_access),
            f"--secure-port={self._ports['manager'].number}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={files.service_account_key}",
            f"--root-ca-file={files.authority}",
            "--controllers=*,-node-lifecycle-controller,-node-ipam-controller",
            f"--cert-dir={self.directory / 'manager'}",
            *flags,
        )

    def start_scheduler(self, connection: Mapping[str, int] | None = None) -> Process:
        """Start kube-scheduler and return it when it answers.

        `connection` is what its configuration says under `clientConnection`, for example `{"qps": 5000}`.
        """
        access = self._kubeconfig("scheduler", self.tokens["scheduler"])
        configuration = self.directory / "scheduler.yaml"
        configuration.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "clientConnection": {"kubeconfig": str(access), **(connection or {})},
                    "leaderElection": {"leaderElect": False},
                }
            )
        )
        scheduler = self._start(
            "kube-scheduler",
            self.programs.scheduler,
            *_access_flags(access),
            f"--config={configuration}",
            f"--secure-port={self._ports['scheduler'].number}",
            f"--cert-dir={self.directory / 'scheduler'}",
        )
        scheduler.wait_until(lambda: _answers_tls(self._ports["scheduler"].number, "/readyz"))
        return scheduler

    def stop_scheduler(self, scheduler: Process) -> None:
        """Stop the kube-scheduler that `start_scheduler` returned, so that another can be started."""
        scheduler.stop(grace=5)
        self._processes.remove(scheduler)

    @contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Have no kube-scheduler inside the `with` block, and then another one."""
        (scheduler,) = [each for each in self._processes if each.name == "kube-scheduler"]
        self.stop_scheduler(scheduler)
        try:
            yield
        finally:
            self.start_scheduler()

    def scheduler_metrics(self) -> str:
        """Return what kube-scheduler serves at /metrics."""
        connection = _tls_connection(self._ports["scheduler"].number, seconds=30)
        try:
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.tokens['admin']}"})
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def processor_seconds(self) -> float:
        """Return the processor time that etcd and the API server have taken so far."""
        return sum(process.processor_seconds() for process in self._processes if process.name in _SERVERS)

    def stop(self) -> None:
        """Stop every process, the last started first, give the ports back and drop etcd's data; logs stay."""
        for process in reversed(self._processes):
            process.stop(grace=5)
        self._processes.clear()
        for port in self._ports.values():
            port.close()
        # etcd reserves more than 100 MB, and pytest keeps the folders of the last runs.
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def ready(self) -> bool:
        """Tell whether the API server answers /readyz with 200."""
        with suppress(OSError, http.client.HTTPException):
            return self.client.request("GET", "/readyz", seconds=5).status == 200
        return False

    # Access

    def token(self, service_account: str, namespace: str) -> str:
        """Return a token of a service account, as the API server gives it to a pod."""
        answer = self.client.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 7200},
            },
        )
        token: str = answer["status"]["token"]
        return token

    def kubeconfig_for(self, service_account: str, namespace: str) -> Path:
        """Write a kubeconfig with a token of a service account and return its path."""
        return self._kubeconfig(
            f"{namespace}.{service_account}", self.token(service_account, namespace), namespace
        )

    def client_for(self, service_account: str, namespace: str) -> Client:
        """Return a client that acts as a service account."""
        return Client(self.server, self.token(service_account, namespace), self.ca)

    def kubectl(self, *arguments: str, input: str | None = None, kubeconfig: Path | None = None) -> str:  # noqa: A002
        """Run kubectl, as admin if nothing else is said, and return its output; raise `KubectlError` if it fails."""
        result = subprocess.run(
            [
                str(self.programs.kubectl),
                f"--kubeconfig={kubeconfig or self.admin_kubeconfig}",
                f"--cache-dir={self.directory / 'kubectl-cache'}",
                *arguments,
            ],
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if result.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    @property
    def audit_log(self) -> Path:
        """The file of audit events, JSON lines."""
        return self.directory / "audit.log"

    def requests_of(self, service_account: str, namespace: str) -> list[dict[str, Any]]:
        """Return the audit events of a service account's requests, oldest first."""
        user = f"system:serviceaccount:{namespace}:{service_account}"
        events: list[dict[str, Any]] = []
        with self.audit_log.open() as lines:
            for line in lines:
                event = json.loads(line)
                if event["user"]["username"] == user:
                    events.append(event)
        return events

    def rewrite_stored(self, key: str, old: bytes, new: bytes) -> None:
        """Replace bytes of a stored object in etcd, past the API server's validation; as long as each other.

        So an object of an API server with other rules can be made: one that this one would not take, but has to serve.
        `key` is the path below /registry, for example `deviceclasses/gpu.example.com`.
        """
        if len(old) != len(new):
            raise ValueError("the lengths differ, and the stored form has lengths in it")
        name = base64.b64encode(f"/registry/{key}".encode()).decode()
        (stored,) = self._etcd("range", {"key": name})["kvs"]
        value = base64.b64decode(stored["value"])
        if value.count(old) != 1:
            raise ValueError(f"{key} holds {old!r} {value.count(old)} times")
        self._etcd("put", {"key": name, "value": base64.b64encode(value.replace(old, new)).decode()})

    # Inside

    def _etcd(self, verb: str, body: dict[str, str]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports["etcd"].number, timeout=10)
        try:
            connection.request("POST", f"/v3/kv/{verb}", json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def _start_etcd(self) -> None:
        client, peer = self._etcd_url("etcd"), self._etcd_url("peer")
        etcd = self._start(
            "etcd",
            self.programs.etcd,
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--socket-reuse-port=true",
            # The data need not survive the machine, only the API server.
            "--unsafe-no-fsync=true",
            "--log-level=warn",
        )
        etcd.wait_until(lambda: _answers(self._ports["etcd"].number, "/readyz"))

    def _stop_etcd(self) -> None:
        (etcd,) = (process for process in self._processes if process.name == "etcd")
        etcd.stop(grace=5)
        self._processes.remove(etcd)

    def _etcd_url(self, port: str) -> str:
        return f"http://127.0.0.1:{self._ports[port].number}"

    def _start(self, name: str, program: Path, *arguments: str) -> Process:
        process = Process(
            name,
            [program, *arguments],
            log=self.directory / f"{name}.log",
            cwd=self.directory,
            env={"HOME": str(self.directory)},
        )
        self._processes.append(process)
        return process

    def _write_access(self) -> None:
        rows = "".join(
            f'{self.tokens[user]},{name},{name},"{group}"\n' for user, (name, group) in _USERS.items()
        )
        write_secret(self.directory / "tokens.csv", rows.encode())
        (self.directory / "audit-policy.yaml").write_text(AUDIT_POLICY)

    def _kubeconfig(self, user: str, token: str, namespace: str = "default") -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": self.server, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": user, "namespace": namespace}}
            ],
            "current-context": "test",
        }
        path = self.directory / f"{user}.kubeconfig"
        write_secret(path, yaml.safe_dump(config).encode())
        return path


@contextmanager
def running_control_plane(
    programs: Programs, directory: Path, serving: Serving = EVERYTHING
) -> Iterator[ControlPlane]:
    """Run etcd and kube-apiserver inside the `with` block, their state in `directory`, which must exist."""
    plane = ControlPlane(programs, directory, serving)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@contextmanager
def running_full_control_plane(programs: Programs, directory: Path) -> Iterator[ControlPlane]:
    """Run a control plane with kube-controller-manager and kube-scheduler inside the `with` block."""
    with running_control_plane(programs, directory) as plane:
        plane.start_controllers()
        yield plane


def _access_flags(kubeconfig: Path) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--permit-port-sharing=true",
        "--leader-elect=false",
        f"--feature-gates={FEATURE_GATES}",
    )


def _answers(port: int, path: str) -> bool:
    """Tell whether plain HTTP on a port of loopback answers `path` with 200."""
    return _status(http.client.HTTPConnection("127.0.0.1", port, timeout=5), path) == 200


def _answers_tls(port: int, path: str) -> bool:
    """Tell the same of a program that serves TLS with a certificate it made for itself."""
    return _status(_tls_connection(port), path) == 200


def _tls_connection(port: int, *, seconds: float = 30) -> http.client.HTTPSConnection:
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=seconds, context=unverified)


def _status(connection: http.client.HTTPConnection, path: str) -> int | None:
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
