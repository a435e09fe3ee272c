"""Credentials: where the API server is, and as whom we speak to it.

The `kubernetes` package reads kubeconfig files, and nothing else is used of it; our session and Kopf get the same.
Credentials go to a server by TLS alone, as kubectl has it. They are read again when they are due, after each 401, and
soon after the server's certificate could not be trusted; new certificates make a new TLS context.
Source: client-go, `util/connrotation`.
"""

import contextlib
import datetime as dt
import json
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import getproxies

import kopf
import structlog
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from dra_operator.cluster.kubeconfig import check
from dra_operator.cluster.plugin import bound
from dra_operator.cluster.tls import trust_as_kubectl

log = structlog.get_logger(__name__)

NAMESPACE = "dra-operator"
"""The namespace of an operator outside a pod: that of manifests/, so that it meets the operator that runs in a pod."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's token, CA and namespace."""

REREAD_SECONDS = 60.0
"""How often credentials in files are read again; the kubelet renews a token at 80 % of its life."""
EXPIRY_MARGIN_SECONDS = 60.0
"""How long before its expiry an exec plugin's token is replaced."""
RETRY_SECONDS = 10.0
"""How soon after they could not be read credentials are tried again; the old ones stay in use until then."""
TOLD_SECONDS = 600.0
"""How often it is told that credentials cannot be read, as long as that lasts."""
KOPF_SECONDS = 600.0
"""After how long Kopf logs in again, so that it never meets an expired token (docs/kopf.md)."""

_CREDENTIALS = frozenset({"token", "tokenFile", "username", "password", "exec", "auth-provider"})
"""What of a user in a kubeconfig leads to an authorization."""
_BEFORE_EXEC = ("token", "tokenFile", "auth-provider")
"""What the loader looks for before it starts a plugin."""
_LOOPBACK = "localhost,127.0.0.0/8,::1"
"""What no proxy of the environment is for. Source: golang.org/x/net/http/httpproxy, `useProxy`."""


class AccessError(Exception):
    """There is no way to an API server, or its credentials cannot be read; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one reading of the configuration gave.

    `namespace` is that of the operator: its pod's, or else NAMESPACE. `authorization` is a header's value; authority,
    certificate and key are paths of PEM files; `expires` is when the credentials end, in seconds since the epoch;
    `files` says that reading them again is cheap; `withheld` that there is an authorization, which the server does not
    get because it is not asked by TLS.
    """

    server: str
    namespace: str
    authorization: str | None
    authority: str | None
    certificate: str | None
    key: str | None
    verify: bool
    server_name: str | None
    proxy: str | None
    expires: float | None
    files: bool
    withheld: bool = False


class Access:
    """An API server and the current credentials for it. Safe to use from several threads.

    `source` reads the credentials anew; it may block (exec plugins run a program). `wall` is the time of day
    in seconds since the epoch, which may be set back; `clock` is monotonic.
    """

    def __init__(
        self,
        source: Callable[[], Credentials],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.unreadable = False
        """Whether the credentials could not be read the last time."""
        self._source = source
        self._wall = wall
        self._clock = clock
        self._lock = threading.Lock()
        self._failing_since = self._told_at = 0.0
        self._material: tuple[bytes, ...] = ()
        self._credentials = source()
        self._due_at = self._next_reading(self._credentials)
        self.server = self._credentials.server.rstrip("/")
        self.namespace = self._credentials.namespace
        self.server_name = self._credentials.server_name
        self.proxy = self._credentials.proxy
        self.withheld = self._credentials.withheld
        self.ssl: ssl.SSLContext | None = None
        """The TLS context that connections are made with now; None where the server is asked without."""
        self._is_https = self.server.lower().startswith("https:")
        if self._is_https:
            self._adopt_config(self._credentials)

    def headers(self) -> dict[str, str]:
        """Return the headers that carry the current credentials."""
        authorization = self._credentials.authorization
        return {"Authorization": authorization} if authorization else {}

    def due(self) -> bool:
        """Return whether the credentials should be read again before the next request."""
        return self._clock() >= self._due_at

    def has_failed(self) -> bool:
        """Return whether the credentials could not be read just now, so that to try again at once is in vain."""
        return self.unreadable and not self.due()

    def hasten(self) -> None:
        """Have files read again in a moment: the certificate of the server is not to be trusted by those in use."""
        if self._credentials.files:
            self._due_at = min(self._due_at, self._clock() + RETRY_SECONDS)

    def reload(self) -> None:
        """Read the credentials again; may block.

        Raises AccessError if they cannot be read, or are for another server; the old ones stay in use.
        """
        with self._lock:
            # Nobody else needs to as long as this takes.
            self._due_at = float("inf")
            try:
                self._credentials = self._read_again()
            except BaseException as error:
                self._due_at = self._clock() + RETRY_SECONDS
                self._report_unreadable(str(error))
                raise
            self._due_at = self._next_reading(self._credentials)
            self._report_readable()

    def connection_info(self) -> kopf.ConnectionInfo:
        """Return the same access for Kopf's login handler; it expires, so that Kopf asks again. May block."""
        if self.due():
            with contextlib.suppress(AccessError):
                self.reload()
        credentials = self._credentials
        scheme, _, token = (credentials.authorization or "").partition(" ")
        until = self._wall() + KOPF_SECONDS
        if credentials.expires is not None:
            until = min(until, max(credentials.expires - EXPIRY_MARGIN_SECONDS, self._wall() + RETRY_SECONDS))
        return kopf.ConnectionInfo(
            server=self.server,
            ca_path=credentials.authority,
            insecure=not credentials.verify,
            scheme=scheme or None,
            token=token or None,
            certificate_path=credentials.certificate,
            private_key_path=credentials.key,
            default_namespace=credentials.namespace,
            proxy_url=credentials.proxy,
            expiration=dt.datetime.fromtimestamp(until, tz=dt.UTC),
        )

    def _read_again(self) -> Credentials:
        credentials = self._source()
        if (server := credentials.server.rstrip("/")) != self.server:
            raise AccessError(
                f"they are for another server now, {server}: restart the operator to use that one"
            )
        if _identifies(self._credentials) and not _identifies(credentials):
            # A file that is being written may be empty for a moment. As nobody, each request would be refused with
            # a 403, upon which credentials are not read again.
            raise AccessError("there are none any more")
        if self._is_https:
            self._adopt_config(credentials)
        return credentials

    def _report_unreadable(self, why: str) -> None:
        now = self._clock()
        if not self.unreadable:
            self._failing_since = now
        if not self.unreadable or now - self._told_at >= TOLD_SECONDS:
            self._told_at = now
            log.warning("credentials cannot be read again, the old ones stay in use", why=why)
        self.unreadable = True

    def _report_readable(self) -> None:
        if self.unreadable:
            log.info("credentials read again", seconds=round(self._clock() - self._failing_since))
        self.unreadable = False

    def _next_reading(self, credentials: Credentials) -> float:
        now = self._clock()
        if credentials.expires is not None:
            return now + max(credentials.expires - EXPIRY_MARGIN_SECONDS - self._wall(), RETRY_SECONDS)
        return now + REREAD_SECONDS if credentials.files else float("inf")

    def _adopt_config(self, credentials: Credentials) -> None:
        """Make a TLS context of certificates that are new."""
        paths = (credentials.authority, credentials.certificate, credentials.key)
        try:
            material = tuple(Path(path).read_bytes() if path else b"" for path in paths)
            if material == self._material:
                return
            context = _context(credentials)
            if credentials.certificate:
                context.load_cert_chain(credentials.certificate, credentials.key)
        except OSError as error:
            raise AccessError(f"certificates for {credentials.server}: {error}") from error
        self.ssl, self._material = context, material


def load_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    wall: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> Access:
    """Find the API server: by the kubeconfig or context given, else the pod's, else the user's kubeconfig.

    `kubeconfig` may be several paths joined by `:` as in $KUBECONFIG. Raises AccessError. May block.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in environ and (service_account / "token").is_file()
    if in_pod and kubeconfig is None and context is None:
        return Access(lambda: _from_pod(environ, service_account), wall, clock)
    paths = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    access = Access(lambda: _from_kubeconfig(paths, context), wall, clock)
    if access.withheld:
        log.warning("credentials not sent", server=access.server, why="its address is not https")
    return access


def _from_pod(environ: Mapping[str, str], service_account: Path) -> Credentials:
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
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        raise AccessError(f"service account in {service_account}: {error}") from error
    return _credentials(
        configuration,
        namespace=namespace,
        expires=None,
        files=True,
        proxy="",
    )


def _check_readable(paths: str) -> None:
    """Raise AccessError if a kubeconfig may be there and its folder cannot be read; the loader takes it for absent."""
    for path in filter(None, paths.split(":")):
        try:
            Path(path).expanduser().stat()
        except (FileNotFoundError, NotADirectoryError, RuntimeError, ValueError):
            # It is nowhere: not there, in the home of nobody, or at a path that no file can have.
            continue
        except OSError as error:
            raise AccessError(f"kubeconfig {path} cannot be read: {error.strerror}") from error


def _from_kubeconfig(paths: str, context: str | None) -> Credentials:
    _check_readable(paths)
    # The loaders let whatever a broken file provokes through: ConfigException, OSError, YAML and key errors.
    try:
        merged: Any = KubeConfigMerger(paths)  # type: ignore[no-untyped-call]
        contexts = [entry.value["name"] for entry in merged.config.value["contexts"]] if merged.config else []
    except (TypeError, AttributeError, KeyError) as error:
        # What the file holds is YAML, but not what the merger takes for granted; its words are Python's.
        raise AccessError(f"kubeconfig {paths}: its content is not a kubeconfig") from error
    except Exception as error:
        raise AccessError(f"kubeconfig {paths}: {error}") from error
    if merged.config is None:
        raise AccessError(
            f"no kubeconfig at {paths}; set --kubeconfig to one, or leave it out in a pod with a service account"
        )
    _check_context(paths, context or merged.config.value.get("current-context"), contexts)
    configuration = Configuration()
    try:
        check(merged.config, context or merged.config.value["current-context"])
        chosen = merged.config["contexts"].get_with_name(context or merged.config["current-context"])
        chosen = chosen.value["context"]
        cluster = merged.config["clusters"].get_with_name(chosen["cluster"]).value["cluster"]
        withheld = _withhold(chosen, cluster, merged.config)
        user = _user(merged.config, chosen)
        by_exec = bool(user.get("exec")) and not any(map(user.get, _BEFORE_EXEC))
        command = user["exec"].get("command") if user.get("exec") else None
        if command:
            _use_plugin(merged.config, chosen, bound(user["exec"]))
        loader: Any = KubeConfigLoader(  # type: ignore[no-untyped-call]
            config_dict=merged.config,
            active_context=context,
            config_base_path=None,
            config_persister=merged.save_changes,
        )
        with _overheard() as complaints:
            loader.load_and_set(configuration)
    except Exception as error:
        raise AccessError(f"kubeconfig {paths}: {error}") from error
    if not configuration.host.lower().startswith(("https://", "http://")):
        raise AccessError(f"kubeconfig {paths}: server {configuration.host!r} does not begin with https://")
    token = _authorization(configuration.api_key.get("BearerToken"))
    if by_exec and token is None and not configuration.cert_file:
        # The loader goes on without credentials, which would read as a 401 later.
        why = "; ".join(complaints) or "it printed nothing usable"
        raise AccessError(f"kubeconfig {paths}: exec plugin {command!r} gave no credentials: {why}")
    for complaint in complaints:
        # There are others beside, and it goes on with these.
        logging.getLogger("kubernetes").error(complaint)
    expiry = getattr(loader, "expiry", None)
    return _credentials(
        configuration,
        namespace=NAMESPACE,
        expires=expiry.timestamp() if expiry is not None else None,
        files=not by_exec,
        proxy=cluster.get("proxy-url") or "",
        withheld=withheld,
    )


@contextlib.contextmanager
def _overheard() -> Iterator[list[str]]:
    """Collect what the loader would log of a plugin that fails, each time that it does."""
    said: list[str] = []
    thread = threading.get_ident()

    def overhear(record: logging.LogRecord) -> bool:
        if record.thread == thread:
            said.append(" ".join(record.getMessage().removeprefix("exec: ").split()))
        return record.thread != thread

    logging.root.addFilter(overhear)
    try:
        yield said
    finally:
        logging.root.removeFilter(overhear)


def _withhold(chosen: dict[str, Any], cluster: dict[str, Any], config: Any) -> bool:
    """Take the user out of a context where the server is not asked by TLS; return whether that had credentials.

    So they are not even read: no plugin runs, and none that fails keeps anybody from a server that asks for nothing.
    Source: client-go, clientcmd: "only try to read the auth information if we are secure".
    """
    if str(cluster.get("server", "https:")).lower().startswith("https:"):
        return False
    user = _user(config, chosen)
    chosen.pop("user", None)
    return not user.keys().isdisjoint(_CREDENTIALS)


def _check_context(paths: str, wanted: str | None, names: list[str]) -> None:
    """Raise AccessError where no context is meant, or one that is not there, with those that are."""
    there = f"it has {', '.join(map(json.dumps, names))}" if names else "it has none"
    if not wanted:
        raise AccessError(f"kubeconfig {paths}: names no current context; set --context; {there}")
    if wanted not in names:
        raise AccessError(f"kubeconfig {paths}: has no context {json.dumps(wanted)}; {there}")


def _user(config: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the user of a context; empty where it has none."""
    for entry in config.value.get("users") or []:
        if entry["name"] == chosen.get("user"):
            user = entry["user"]
            return dict(getattr(user, "value", user) or {})
    return {}


def _use_plugin(config: Any, chosen: dict[str, Any], plugin: dict[str, Any]) -> None:
    """Have the loader start this plugin; in the file, which the loader may write, stays the one that is there."""
    for entry in config.value["users"]:
        if entry["name"] == chosen["user"]:
            entry.value = {**entry.value, "user": {**entry.value["user"], "exec": plugin}}


def _credentials(
    configuration: Configuration,
    *,
    namespace: str,
    expires: float | None,
    files: bool,
    proxy: str,
    withheld: bool = False,
) -> Credentials:
    return Credentials(
        server=configuration.host,
        namespace=namespace,
        authorization=_authorization(configuration.api_key.get("BearerToken")),
        authority=configuration.ssl_ca_cert or None,
        certificate=configuration.cert_file or None,
        key=configuration.key_file or None,
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name or None,
        proxy=_proxy(configuration, proxy),
        expires=expires,
        files=files,
        withheld=withheld,
    )


def _proxy(configuration: Configuration, explicit: str) -> str | None:
    """Return the proxy that the server is asked by, if it is; `explicit` is that of the kubeconfig.

    Raises AccessError for one that nobody here speaks to.
    """
    # The package takes $ALL_PROXY as well, which no client in Go knows.
    by_environment = getproxies().get(configuration.host.partition(":")[0].lower())
    proxy = explicit or by_environment or ""
    exceptions = f"{_LOOPBACK},{configuration.no_proxy or ''}"
    if not proxy or (not explicit and should_bypass_proxies(configuration.host, exceptions)):
        return None
    scheme, mark, _ = proxy.partition("://")
    if mark and scheme.lower() not in ("http", "https"):
        # What follows may be a password.
        raise AccessError(f"a proxy that begins with {scheme}:// is not supported; use one that speaks HTTP")
    return proxy if mark else f"http://{proxy}"


def _identifies(credentials: Credentials) -> bool:
    """Return whether credentials say who asks."""
    return credentials.authorization is not None or credentials.certificate is not None


def _authorization(header: str | None) -> str | None:
    """Return the header's value; a token read from a file may end with a newline, which HTTP forbids.

    Raises AccessError for a token that cannot be sent: a machine that lost its power may leave a file of zeros behind.
    """
    if not header:
        return None
    scheme, _, token = header.strip().partition(" ")
    if not token.strip().isprintable():
        raise AccessError("the token has a line break in it, or another character that HTTP forbids")
    return f"{scheme.capitalize()} {token.strip()}" if token else None


def _context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=credentials.authority)
    if not credentials.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    trust_as_kubectl(context)
    return context
