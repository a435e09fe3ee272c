"""The kubeconfig: whether what is used of it is of the right type, and known, before it is loaded.

The loader of the `kubernetes` package takes that for granted, and what is not ends in Python's words. YAML has numbers
and switches where somebody forgot the quotes, and text where somebody forgot to indent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.text import shown

_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    "context": dict.fromkeys(("cluster", "user", "namespace"), str),
    "cluster": {
        **dict.fromkeys(("server", "certificate-authority", "certificate-authority-data"), str),
        **dict.fromkeys(("proxy-url", "tls-server-name"), str),
        "insecure-skip-tls-verify": bool,
        "extensions": list,
    },
    "user": {
        **dict.fromkeys(("token", "tokenFile", "username", "password"), str),
        **dict.fromkeys(("client-certificate", "client-certificate-data"), str),
        **dict.fromkeys(("client-key", "client-key-data"), str),
        **dict.fromkeys(("exec", "auth-provider"), dict),
        **dict.fromkeys(("as", "as-uid"), str),
        "as-groups": list,
        "as-user-extra": dict,
    },
    "exec": {
        **dict.fromkeys(("command", "apiVersion", "interactiveMode", "installHint"), str),
        "provideClusterInfo": bool,
        "args": list,
        "env": list,
    },
    "env": dict.fromkeys(("name", "value"), str),
    "auth-provider": {"name": str, "config": dict},
}
_REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "context": ("cluster",),
    "cluster": ("server",),
    "exec": ("command",),
    "env": ("name",),
}
_SECRET: Final = frozenset({"token", "password", "client-key-data", "value", "config"})
_WORDS: Final = {str: "text", bool: "true or false", dict: "an object", list: "a list"}


class KubeconfigError(ValueError):
    """Something in a kubeconfig cannot be used; the text names object, field and value, and what to do."""


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """A context, and the cluster and the user that it names; empty where the kubeconfig has none of that name."""

    context: Mapping[str, Any]
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]


def choose(config: Mapping[str, Any], context: str) -> KubeconfigContext:
    """Return a context with what it names, each field that is used of the right type. Raises KubeconfigError."""
    chosen = _entry(config, "context", context)
    cluster = _entry(config, "cluster", chosen.get("cluster"))
    user = _entry(config, "user", chosen.get("user"))
    _check_parts(f"user {shown(chosen.get('user'))}", user)
    return KubeconfigContext(chosen, cluster, user)


def check(merged: Any, context: str) -> None:
    """Look at a context and at the cluster and the user that it names, as far as they are there.

    `merged` is what the package's merger returns. Raises KubeconfigError.
    """
    found = choose(_plain(merged), context)
    user, chosen = found.user, found.context
    if others := [field for field in user if field == "as" or field.startswith("as-")]:
        # The package passes them over: we would come as somebody who may do more than was meant.
        text = f"user {shown(chosen.get('user'))}: {', '.join(others)}: impersonation is not supported"
        raise KubeconfigError(f"{text}: name a user who has the rights")


def _entry(config: Mapping[str, Any], kind: str, name: object) -> Mapping[str, Any]:
    """Return the context, cluster or user of that name, or nothing."""
    entries: Iterable[Any] = config.get(f"{kind}s") or ()
    for entry in entries:
        if isinstance(entry, Mapping) and entry.get("name") == name:
            body = entry.get(kind) or {}
            if not isinstance(body, dict):
                raise KubeconfigError(f"{kind} {shown(name)}: {kind}: {shown(body)} is not an object")
            _check(f"{kind} {shown(name)}", kind, body)
            return body
    return {}


def _plain(node: Any) -> Any:
    """Return what the files say, without the classes of the package."""
    value = getattr(node, "value", node)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _check_parts(where: str, user: Mapping[str, Any]) -> None:
    """Look at what is in the lists and objects of a user."""
    plugin = user.get("exec")
    if plugin:
        _check(f"{where}: exec", "exec", plugin)
        _check_texts(f"{where}: exec: args", plugin.get("args") or ())
        for number, entry in enumerate(plugin.get("env") or ()):
            at = f"{where}: exec: env[{number}]"
            if not isinstance(entry, dict):
                raise KubeconfigError(f"{at}: is not an object")
            _check(at, "env", entry)
    _check(f"{where}: auth-provider", "auth-provider", user.get("auth-provider") or {})
    _check_texts(f"{where}: as-groups", user.get("as-groups") or ())
    for name, values in (user.get("as-user-extra") or {}).items():
        at = f"{where}: as-user-extra: {shown(name)}"
        if not isinstance(name, str) or not isinstance(values, list):
            raise KubeconfigError(f"{at}: {shown(values)} is not a list")
        _check_texts(at, values)


def _check_texts(where: str, items: Iterable[object]) -> None:
    for number, item in enumerate(items):
        if not isinstance(item, str):
            raise KubeconfigError(f"{where}[{number}]: {shown(item)} is not text: write it in quotes")


def _check(where: str, kind: str, body: Mapping[str, Any]) -> None:
    for field, expected in _FIELDS[kind].items():
        value = body.get(field)
        if value is None or isinstance(value, expected):
            continue
        text = f"{where}: {field}: {'' if field in _SECRET else f'{shown(value)} '}is not {_WORDS[expected]}"
        quotes = expected is str and isinstance(value, bool | int | float)
        raise KubeconfigError(f"{text}: write it in quotes" if quotes else text)
    for field in _REQUIRED.get(kind, ()):
        if not body.get(field):
            raise KubeconfigError(f"{where}: {field}: is required")
