"""The user's own way to the API server: kubeconfig, context, credentials, impersonation.

The loader of the `kubernetes` package takes longer to import than an answer may take (docs/decisions.md), so what
kubectl does is done here: files are merged, the first that has a name counts; paths are relative to their file.
Source: client-go, tools/clientcmd and plugin/pkg/client/auth/exec.
"""

import base64
import binascii
import contextlib
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from dra_operator.api.text import printable, shown
from dra_operator.cli.kubectl.errors import AccessError
from dra_operator.cli.kubectl.options import Impersonation
from dra_operator.cluster.kubeconfig import KubeconfigContext, KubeconfigError, choose
from dra_operator.cluster.plugin import bound
from dra_operator.cluster.tls import trust_as_kubectl

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's token, CA and namespace."""
_PATHS: Final = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}
"""The fields of a kubeconfig that are paths."""
_PLUGIN_SECONDS: Final = 60.0
_CERTIFICATE: Final = re.compile(
    "-----BEGIN [A-Z ]*CERTIFICATE-----.*?-----END [A-Z ]*CERTIFICATE-----", re.DOTALL
)
_OF_HEADERS: Final = "!#$&'*+-.^_`|~"
"""What the name of a header may have beside letters and digits."""


@dataclass(frozen=True, slots=True)
class UserAccess:
    """An API server and what is sent to it. `namespace` is that of the context, `proxy` is a URL or empty.

    `headers` are pairs, as a name may be there several times.
    """

    server: str
    namespace: str
    headers: tuple[tuple[str, str], ...]
    tls: ssl.SSLContext | None
    server_name: str | None = None
    proxy: str = ""


def load_user_access(
    kubeconfig: str = "",
    context: str = "",
    impersonation: Impersonation = Impersonation(),  # noqa: B008 - it is frozen
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> UserAccess:
    """Return the access of a kubeconfig, else of $KUBECONFIG, else of the user's file, else of the pod we are in.

    May run a credential plugin. Raises AccessError.
    """
    paths = [kubeconfig] if kubeconfig else _default_paths(environ)
    config = _merge(paths, is_named=bool(kubeconfig))
    if config is None:
        if not kubeconfig and not context and (service_account / "token").is_file():
            return _from_pod(environ, service_account, impersonation)
        raise AccessError(
            f"no kubeconfig at {os.pathsep.join(paths)}: name one with --kubeconfig or in $KUBECONFIG"
        )
    where = f"kubeconfig {os.pathsep.join(paths)}"
    name = context or config.get("current-context") or ""
    names = [entry.get("name") for entry in config["contexts"]]
    if not name or name not in names:
        problem = f"has no context {shown(name)}" if name else "names no current context"
        has = f"it has {', '.join(map(shown, names))}" if names else "it has none"
        raise AccessError(f"{where} {problem}: choose one with --context; {has}")
    try:
        chosen = choose(config, name)
    except KubeconfigError as error:
        raise AccessError(f"{where}: {error}") from error
    if not chosen.cluster:
        named = shown(chosen.context.get("cluster"))
        raise AccessError(f"{where}: context {shown(name)}: cluster: {named} is not among its clusters")
    return _access(where, chosen, impersonation, environ)


def _default_paths(environ: Mapping[str, str]) -> list[str]:
    paths = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return paths or [str(Path("~/.kube/config").expanduser())]


def _merge(paths: Sequence[str], *, is_named: bool) -> dict[str, Any] | None:
    """Return the configuration of some files, None if none of them is there. Raises AccessError."""
    merged: dict[str, Any] = {"contexts": [], "clusters": [], "users": []}
    is_there = False
    for path in paths:
        try:
            text = Path(path).expanduser().read_bytes()
        except FileNotFoundError as error:
            if is_named:
                raise AccessError(f"kubeconfig {path}: {error.strerror}") from error
            continue
        except (OSError, RuntimeError, ValueError) as error:
            raise AccessError(f"kubeconfig {path}: {getattr(error, 'strerror', None) or error}") from error
        is_there = True
        config = _parse(path, text)
        merged["current-context"] = merged.get("current-context") or config.get("current-context")
        for kind in ("contexts", "clusters", "users"):
            known = {entry["name"] for entry in merged[kind]}
            for entry in config.get(kind) or ():
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise AccessError(f"kubeconfig {path}: {kind}: {_kind_of(entry)} without a name")
                if entry["name"] not in known:
                    merged[kind].append(_resolved(kind, entry, Path(path).expanduser().parent))
    return merged if is_there else None


def _kind_of(entry: object) -> str:
    return "an entry" if isinstance(entry, dict) else shown(entry)


def _parse(path: str, text: bytes) -> dict[str, Any]:
    # Most kubeconfigs are YAML, some are JSON, which is YAML too.
    import yaml

    from dra_operator.questions.bounded_yaml import BoundedLoader

    try:
        config = yaml.load(text, Loader=BoundedLoader)  # noqa: S506 - derived from the safe one
    except RecursionError as error:
        raise AccessError(f"kubeconfig {path}: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # A date with a 13th month is a ValueError; what the text is may be a secret.
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise AccessError(f"kubeconfig {path}{line}: no YAML: {problem}") from error
    if config is None:
        return {}
    lists = (
        [config.get(kind) or [] for kind in ("contexts", "clusters", "users")]
        if isinstance(config, dict)
        else [0]
    )
    if not all(isinstance(each, list) for each in lists):
        raise AccessError(f"kubeconfig {path}: its content is not a kubeconfig")
    return dict(config)


def _resolved(kind: str, entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry whose paths do not depend on the file it stands in."""
    if kind not in _PATHS:
        return entry
    name, fields = _PATHS[kind]
    body = entry.get(name)
    if not isinstance(body, dict):
        return entry
    paths: dict[str, Any] = {
        field: str(folder / body[field])
        for field in fields
        if isinstance(body.get(field), str) and body[field]
    }
    plugin = body.get("exec")
    if isinstance(plugin, dict) and isinstance(command := plugin.get("command"), str) and os.sep in command:
        # A name alone is looked up in the PATH.
        paths["exec"] = {**plugin, "command": str(folder / command)}
    return {**entry, name: {**body, **paths}}


def _access(
    where: str, chosen: KubeconfigContext, impersonation: Impersonation, environ: Mapping[str, str]
) -> UserAccess:
    cluster, user = chosen.cluster, chosen.user
    server = str(cluster["server"]).rstrip("/")
    if not server.lower().startswith(("https://", "http://")):
        raise AccessError(f"{where}: server {shown(server)} does not begin with https://")
    if not _is_address(server):
        raise AccessError(f"{where}: server {shown(server)} is no address such as https://10.0.0.1:6443")
    headers = list(_impersonation_headers(user, impersonation))
    tls = None
    if server.lower().startswith("https:"):
        # Without TLS kubectl sends no credentials either.
        try:
            tls = _tls_context(where, cluster)
            authorization = _authenticate(where, chosen, tls, environ)
        except (OSError, binascii.Error) as error:
            # ssl.SSLError is an OSError.
            file = getattr(error, "filename", None)
            why = getattr(error, "strerror", None) or error
            raise AccessError(f"{where}: {f'{printable(str(file))}: ' if file else ''}{why}") from error
        except ValueError as error:
            # What is not text, or has a zero byte in it; what it says may be a secret.
            raise AccessError(f"{where}: a path, a file or data that it names is not text") from error
        if authorization:
            headers.append(("Authorization", authorization))
    return UserAccess(
        server=server,
        namespace=str(chosen.context.get("namespace") or "default"),
        headers=tuple(headers),
        tls=tls,
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or _proxy_of_environment(server, environ),
    )


def _is_address(server: str) -> bool:
    """Return whether a URL names a host, and a port if any."""
    if not server.isascii() or not server.isprintable() or " " in server:
        return False
    try:
        address = urlsplit(server)
        return bool(address.hostname) and (address.port is None or address.port > 0)
    except ValueError:
        return False


def _from_pod(environ: Mapping[str, str], service_account: Path, impersonation: Impersonation) -> UserAccess:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise AccessError(
            "no kubeconfig, and $KUBERNETES_SERVICE_HOST is not set: name one with --kubeconfig"
        )
    try:
        token = (service_account / "token").read_text().strip()
        tls = ssl.create_default_context(cafile=str(service_account / "ca.crt"))
        file = service_account / "namespace"
        namespace = file.read_text().strip() if file.is_file() else "default"
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"service account in {service_account}: {error}") from error
    trust_as_kubectl(tls)
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    headers = [*_impersonation_headers({}, impersonation), ("Authorization", f"Bearer {token}")]
    return UserAccess(server, namespace, tuple(headers), tls)


def _impersonation_headers(
    user: Mapping[str, Any], impersonation: Impersonation
) -> Sequence[tuple[str, str]]:
    """Return the headers by which a request counts as somebody else's; flags replace what the kubeconfig says."""
    if not impersonation.user:
        if impersonation.groups or impersonation.uid:
            raise AccessError("--as-group and --as-uid say more about the user of --as, which is not given")
        groups = user.get("as-groups") or ()
        extra = user.get("as-user-extra") or {}
        name, uid = str(user.get("as") or ""), str(user.get("as-uid") or "")
    else:
        name, groups, uid, extra = impersonation.user, impersonation.groups, impersonation.uid, {}
    if not name:
        return ()
    headers = [("Impersonate-User", name), *(("Impersonate-Group", str(group)) for group in groups)]
    if uid:
        headers.append(("Impersonate-Uid", uid))
    headers += [
        (f"Impersonate-Extra-{quote(key, safe=_OF_HEADERS)}", str(value))
        for key, values in extra.items()
        for value in values
    ]
    if bad := [value for _, value in headers if not value.isprintable() or not value.isascii()]:
        raise AccessError(f"--as: {shown(bad[0])} has a character that HTTP forbids")
    return headers


# --- TLS ------------------------------------------------------------------------------------------------------------


def _tls_context(where: str, cluster: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context that trusts the authority of a cluster, and no other if it names one."""
    if cluster.get("insecure-skip-tls-verify"):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    data = cluster.get("certificate-authority-data")
    if data:
        try:
            # What stands between certificates may have characters that Python's TLS does not take.
            certificates = _CERTIFICATE.findall(_decoded(data).decode())
        except (binascii.Error, ValueError) as error:
            raise AccessError(f"{where}: certificate-authority-data is not base64 of a PEM file") from error
        if not certificates:
            raise AccessError(f"{where}: certificate-authority-data has no certificate in it")
        context = ssl.create_default_context(cadata="\n".join(certificates))
    else:
        context = ssl.create_default_context(cafile=cluster.get("certificate-authority") or None)
    trust_as_kubectl(context)
    return context


def _decoded(data: str) -> bytes:
    """Return what base64 stands for; as in Go, it may be in lines. Raises binascii.Error, ValueError."""
    return base64.b64decode(data.replace("\r", "").replace("\n", ""), validate=True)


def _add_certificate(context: ssl.SSLContext, certificate: bytes | str, key: bytes | str) -> None:
    """Have a context show a certificate: each part is what a PEM file holds, or its path. Raises OSError."""
    with contextlib.ExitStack() as files:
        paths = [part if isinstance(part, str) else _temporary(files, part) for part in (certificate, key)]
        context.load_cert_chain(*paths)


def _temporary(files: contextlib.ExitStack, content: bytes) -> str:
    """Return the path of a file with some content, gone at the end; Python's TLS takes keys from files only."""
    folder = files.enter_context(tempfile.TemporaryDirectory(prefix="kubectl-dra-"))
    path = Path(folder, "pem")
    path.touch(mode=0o600)
    path.write_bytes(content)
    return str(path)


# --- credentials ----------------------------------------------------------------------------------------------------


def _authenticate(
    where: str, chosen: KubeconfigContext, tls: ssl.SSLContext, environ: Mapping[str, str]
) -> str:
    """Return the header that says who asks, or nothing; a certificate goes into the TLS context."""
    user = chosen.user
    certificate = _pem(user, "client-certificate")
    key = _pem(user, "client-key")
    if certificate and key:
        _add_certificate(tls, certificate, key)
    elif certificate or key:
        missing = "client-key" if certificate else "client-certificate"
        raise AccessError(f"{where}: user {shown(chosen.context.get('user'))}: {missing}: is missing")
    if token := _token(user):
        return f"Bearer {token}"
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if user.get("exec"):
        return _run_plugin(where, chosen, tls, environ)
    if provider := user.get("auth-provider"):
        return f"Bearer {_provided_token(where, provider)}"
    return ""


def _provided_token(where: str, provider: Mapping[str, Any]) -> str:
    config = provider.get("config") or {}
    token = config.get("id-token") or config.get("access-token")
    if not token:
        name = shown(provider.get("name"))
        raise AccessError(f"{where}: auth-provider {name} is not supported: use an exec plugin")
    return _checked_token(str(token))


def _pem(user: Mapping[str, Any], field: str) -> bytes | str | None:
    data = user.get(f"{field}-data")
    return _decoded(data) if data else user.get(field) or None


def _token(user: Mapping[str, Any]) -> str:
    file = user.get("tokenFile")
    return _checked_token(Path(file).read_text() if file else str(user.get("token") or ""))


def _checked_token(text: str) -> str:
    """Return a token as it is sent. Raises AccessError for one that no header can have; the token is not told."""
    token = text.strip()
    if not token.isprintable() or not token.isascii():
        raise AccessError("the token has a line break in it, or another character that HTTP forbids")
    return token


def _run_plugin(
    where: str, chosen: KubeconfigContext, tls: ssl.SSLContext, environ: Mapping[str, str]
) -> str:
    """Return the header that an exec plugin is good for, or nothing if it gives a certificate. Raises AccessError."""
    plugin = dict(chosen.user["exec"])
    command, version = str(plugin.get("command") or ""), str(plugin.get("apiVersion") or "")
    subject = f"{where}: exec plugin {shown(command)}"
    mode = plugin.get("interactiveMode") or "IfAvailable"
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not is_terminal:
        raise AccessError(f"{subject}: it asks for input, and stdin is no terminal: log in at one first")
    given = {each["name"]: each.get("value") or "" for each in plugin.get("env") or ()}
    ended = bound(plugin)
    try:
        done = subprocess.run(  # noqa: S603 - whoever wrote the kubeconfig wants it
            [ended["command"], *(ended.get("args") or ())],
            env={
                **environ,
                **given,
                "KUBERNETES_EXEC_INFO": json.dumps(
                    # YAML has dates.
                    _exec_info(plugin, chosen, is_terminal),
                    default=str,
                ),
            },
            stdin=None if is_terminal and mode != "Never" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # A person sees what it asks for.
            stderr=None if is_terminal else subprocess.PIPE,
            timeout=None if is_terminal else _PLUGIN_SECONDS + 5,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        hint = f"; {plugin['installHint']}" if plugin.get("installHint") else ""
        raise AccessError(f"{subject}: {getattr(error, 'strerror', None) or error}{hint}") from error
    if done.returncode:
        said = " ".join((done.stderr or b"").decode(errors="replace").split())[-300:]
        todo = "" if is_terminal else "; if it asks for a password, log in at a terminal first"
        raise AccessError(f"{subject}: exit code {done.returncode}{f': {said}' if said else ''}{todo}")
    return _use_credentials(subject, version, done.stdout, tls)


def _exec_info(plugin: Mapping[str, Any], chosen: KubeconfigContext, is_terminal: bool) -> dict[str, Any]:  # noqa: FBT001 - a fact
    spec: dict[str, Any] = {"interactive": is_terminal and plugin.get("interactiveMode") != "Never"}
    if plugin.get("provideClusterInfo"):
        names = {"server": "server", "tls-server-name": "tls-server-name"}
        fields = (*names, "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        spec["cluster"] = {field: chosen.cluster[field] for field in fields if field in chosen.cluster}
        if extensions := chosen.cluster.get("extensions"):
            named = "client.authentication.k8s.io/exec"
            spec["cluster"]["config"] = next(
                (
                    each.get("extension")
                    for each in extensions
                    if isinstance(each, dict) and each.get("name") == named
                ),
                None,
            )
    return {"kind": "ExecCredential", "apiVersion": plugin.get("apiVersion"), "spec": spec}


def _use_credentials(subject: str, version: str, printed: bytes, tls: ssl.SSLContext) -> str:
    try:
        found = json.loads(printed)
        status = found["status"]
        token, certificate = status.get("token"), status.get("clientCertificateData")
        certificate_key = status.get("clientKeyData")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AccessError(f"{subject}: what it prints is no ExecCredential with a status") from error
    for name, value in (
        *(("token", token), ("clientCertificateData", certificate)),
        ("clientKeyData", certificate_key),
    ):
        if not isinstance(value, str | None):
            raise AccessError(f"{subject}: what it prints as {name} is not text")
    if found.get("apiVersion") != version:
        said = shown(found.get("apiVersion"))
        raise AccessError(f"{subject}: it prints apiVersion {said}, the kubeconfig says {shown(version)}")
    if certificate:
        _add_certificate(tls, certificate.encode(), (certificate_key or "").encode())
    if not token and not certificate:
        raise AccessError(f"{subject}: gave no credentials: neither token nor certificate in its status")
    try:
        return f"Bearer {_checked_token(token)}" if token else ""
    except AccessError as error:
        raise AccessError(f"{subject}: {error}") from None


def _proxy_of_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy that the environment has for a server, or nothing. Source: golang.org/x/net/http/httpproxy."""
    scheme = server.partition(":")[0].lower()
    proxy = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or ""
    if not proxy:
        return ""
    # It takes longer to import than most need.
    from ipaddress import ip_address, ip_network

    host = urlsplit(server).hostname or ""
    address = None
    with contextlib.suppress(ValueError):
        address = ip_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return ""
    for each in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(","):
        rule = each.strip().lower()
        if rule == "*" or (rule and (host == rule.lstrip(".") or host.endswith(f".{rule.lstrip('.')}"))):
            return ""
        with contextlib.suppress(ValueError):
            if address is not None and address in ip_network(rule, strict=False):
                return ""
    return proxy if "://" in proxy else f"http://{proxy}"
