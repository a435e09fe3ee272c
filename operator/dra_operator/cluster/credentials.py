"""Credentials: where the API server is, and as whom we speak to it, as Kopf's `ConnectionInfo`.

The `kubernetes` package finds it as for Kopf's `login_via_client`, which knows neither another kubeconfig nor another
context: these are settings. A pod's token is read again every minute, whatever else after a 401, and soon after the
server's certificate could not be trusted; new certificates make a new TLS context.
"""

import contextlib
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.request import getproxies

import kopf
import structlog
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import load_kube_config
from kubernetes.config.incluster_config import InClusterConfigLoader

log = structlog.get_logger(__name__)

NAMESPACE: Final = "dra-operator"
"""The namespace of an operator outside a pod: that of manifests/, so that it meets the operator that runs in a pod."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's token, CA and namespace."""
REREAD_SECONDS: Final = 60.0
"""How often the token of a pod is read again; the kubelet renews it at 80 % of its life."""
RETRY_SECONDS: Final = 10.0
"""How soon after they could not be read credentials are tried again; the old ones stay in use until then."""
TOLD_SECONDS: Final = 600.0
"""How often it is told that credentials cannot be read, as long as that lasts."""
KOPF_SECONDS: Final = 600.0
"""When Kopf takes credentials for expired: such that it takes the same ones for new after a 401 (docs/kopf.md)."""

_LOOPBACK: Final = "localhost,127.0.0.0/8,::1"
"""What no proxy of the environment is for. Source: golang.org/x/net/http/httpproxy, `useProxy`."""


class AccessError(Exception):
    """There is no way to an API server, or its credentials cannot be read; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Login:
    """What one reading of the configuration gave.

    `info` has the namespace of the operator: its pod's, or else NAMESPACE. `server_name` is the one in the server's
    certificate, if it is another; `changes` says that the token is renewed in its file, `withheld` that there are
    credentials, which the server does not get because it is not asked by TLS, as kubectl has it.
    """

    info: kopf.ConnectionInfo
    server_name: str | None = None
    changes: bool = False
    withheld: bool = False


class Access:
    """An API server and the current credentials for it. Safe to use from several threads.

    `source` reads the credentials anew; it may block (plugins run a program). `clock` is monotonic, in seconds.
    """

    def __init__(self, source: Callable[[], Login], clock: Callable[[], float] = time.monotonic) -> None:
        self.unreadable = False
        """Whether the credentials could not be read the last time."""
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._failing_since = self._told_at = 0.0
        self._material: tuple[bytes, ...] = ()
        self._login = source()
        self._due_at = self._next_reading(self._login)
        info = self._login.info
        self.server = info.server.rstrip("/")
        self.namespace = info.default_namespace or NAMESPACE
        self.server_name = self._login.server_name
        self.proxy = info.proxy_url
        self.ssl: ssl.SSLContext | None = None
        """The TLS context that connections are made with now; None where the server is asked without."""
        self._is_https = self.server.lower().startswith("https:")
        if self._is_https:
            self._adopt_certificates(info)
        elif self._login.withheld:
            log.warning("credentials not sent", server=self.server, why="its address is not https")

    def headers(self) -> dict[str, str]:
        """Return the headers that carry the current credentials."""
        return self._login.info.as_http_headers()

    def due(self) -> bool:
        """Return whether the credentials should be read again before the next request."""
        return self._clock() >= self._due_at

    def has_failed(self) -> bool:
        """Return whether the credentials could not be read just now, so that to try again at once is in vain."""
        return self.unreadable and not self.due()

    def hasten(self) -> None:
        """Have credentials read again in a moment: the server's certificate is not to be trusted by those in use."""
        self._due_at = min(self._due_at, self._clock() + RETRY_SECONDS)

    def reload(self) -> None:
        """Read the credentials again; may block.

        Raises AccessError if they cannot be read, or are for another server; the old ones stay in use.
        """
        with self._lock:
            # Nobody else needs to as long as this takes.
            self._due_at = float("inf")
            try:
                self._login = self._read_again()
            except BaseException as error:
                self._due_at = self._clock() + RETRY_SECONDS
                self._report_unreadable(str(error))
                raise
            self._due_at = self._next_reading(self._login)
            if self.unreadable:
                log.info("credentials read again", seconds=round(self._clock() - self._failing_since))
            self.unreadable = False

    def connection_info(self) -> kopf.ConnectionInfo:
        """Return the same access for Kopf's login handler. May block."""
        if self.due():
            with contextlib.suppress(AccessError):
                self.reload()
        until = datetime.now(UTC) + timedelta(seconds=KOPF_SECONDS)
        return replace(self._login.info, expiration=until)

    def _read_again(self) -> Login:
        login = self._source()
        if (server := login.info.server.rstrip("/")) != self.server:
            raise AccessError(
                f"they are for another server now, {server}: restart the operator to use that one"
            )
        if _identifies(self._login.info) and not _identifies(login.info):
            # A plugin that fails is only logged, and a file that is being written may be empty for a moment. As nobody,
            # each request would be refused with a 403, upon which credentials are not read again.
            raise AccessError("there are none any more")
        if self._is_https:
            self._adopt_certificates(login.info)
        return login

    def _report_unreadable(self, why: str) -> None:
        now = self._clock()
        if not self.unreadable:
            self._failing_since = now
        if not self.unreadable or now - self._told_at >= TOLD_SECONDS:
            self._told_at = now
            log.warning("credentials cannot be read again, the old ones stay in use", why=why)
        self.unreadable = True

    def _next_reading(self, login: Login) -> float:
        return self._clock() + REREAD_SECONDS if login.changes else float("inf")

    def _adopt_certificates(self, info: kopf.ConnectionInfo) -> None:
        """Make a TLS context of certificates that are new."""
        paths = (info.ca_path, info.certificate_path, info.private_key_path)
        try:
            material = tuple(Path(os.fsdecode(path)).read_bytes() if path else b"" for path in paths)
            if material != self._material:
                self.ssl, self._material = tls_context(info), material
        except OSError as error:
            raise AccessError(f"certificates for {info.server}: {error}") from error


def _identifies(info: kopf.ConnectionInfo) -> bool:
    """Return whether credentials say who asks."""
    return info.token is not None or info.certificate_path is not None


def tls_context(info: kopf.ConnectionInfo) -> ssl.SSLContext:
    """Return a TLS context that asks of certificates what kubectl asks. Raises OSError.

    From 3.13 on, Python asks more of a certificate's form than Go does, key identifiers for example, which the
    authorities of many clusters have not; and only from there on it trusts, as Go does, an authority that is named to
    it though another one has signed it. And Go has never heard of a server's common name where it lacks other names.
    Source: https://github.com/kubernetes-client/python/issues/2394
    """
    context = info.as_ssl_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    return context


def load_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Callable[[], float] = time.monotonic,
) -> Access:
    """Find the API server: by the kubeconfig or context given, else the pod's, else the user's kubeconfig.

    `kubeconfig` may be several paths joined by `:` as in $KUBECONFIG. Raises AccessError. May block.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in environ and (service_account / "token").is_file()
    if in_pod and kubeconfig is None and context is None:
        return Access(lambda: _from_pod(environ, service_account), clock)
    paths = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    return Access(lambda: _from_kubeconfig(paths, context), clock)


def _from_pod(environ: Mapping[str, str], service_account: Path) -> Login:
    configuration = Configuration()
    loader: Any = InClusterConfigLoader(  # type: ignore[no-untyped-call]
        token_filename=str(service_account / "token"),
        cert_filename=str(service_account / "ca.crt"),
        try_refresh_token=False,
        environ=environ,
    )
    file = service_account / "namespace"
    try:
        loader.load_and_set(configuration)
        namespace = file.read_text().strip() if file.is_file() else "default"
        return _login(configuration, namespace, changes=True)
    except Exception as error:
        raise AccessError(f"service account in {service_account}: {error}") from error


def _from_kubeconfig(paths: str, context: str | None) -> Login:
    if not any(Path(path).expanduser().exists() for path in paths.split(":") if path):
        raise AccessError(
            f"no kubeconfig at {paths}; set --kubeconfig to one, or leave it out in a pod with a service account"
        )
    configuration = Configuration()
    # The loader lets whatever a broken file provokes through: ConfigException, OSError, YAML, type and key errors.
    try:
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=paths, context=context, client_configuration=configuration
        )
        return _login(configuration, NAMESPACE)
    except Exception as error:
        raise AccessError(f"kubeconfig {paths}: {error}") from error


def _login(configuration: Configuration, namespace: str, *, changes: bool = False) -> Login:
    """Return what the package has found. Raises AccessError for a token or a proxy that cannot be used."""
    server = configuration.host
    if not server.lower().startswith(("https://", "http://")):
        raise AccessError(f"server {server!r} does not begin with https://")
    scheme, _, token = (configuration.api_key.get("BearerToken") or "").strip().partition(" ")
    if not token.strip().isprintable():
        raise AccessError("the token has a line break in it, or another character that HTTP forbids")
    info = kopf.ConnectionInfo(
        server=server,
        ca_path=configuration.ssl_ca_cert or None,
        insecure=not configuration.verify_ssl,
        scheme=scheme.capitalize() or None,
        token=token.strip() or None,
        certificate_path=configuration.cert_file or None,
        private_key_path=configuration.key_file or None,
        default_namespace=namespace,
        proxy_url=_proxy(configuration),
    )
    if withheld := bool(token) and not server.lower().startswith("https:"):
        info = replace(info, scheme=None, token=None)
    return Login(info, configuration.tls_server_name or None, changes, withheld)


def _proxy(configuration: Configuration) -> str | None:
    """Return the proxy that the server is asked by, of the kubeconfig or of the environment."""
    proxy = configuration.proxy or ""
    is_of_environment = proxy in getproxies().values()
    exceptions = f"{_LOOPBACK},{configuration.no_proxy or ''}"
    if not proxy or (is_of_environment and should_bypass_proxies(configuration.host, exceptions)):
        return None
    scheme, mark, _ = proxy.partition("://")
    if mark and scheme.lower() not in ("http", "https"):
        # What follows may be a password.
        raise AccessError(f"a proxy that begins with {scheme}:// is not supported; use one that speaks HTTP")
    return proxy if mark else f"http://{proxy}"
