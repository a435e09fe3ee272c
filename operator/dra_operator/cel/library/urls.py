"""URLs, as Go's `net/url` takes them apart: which texts are URLs, and what their parts are.

Kubernetes asks for an absolute URL or an absolute path. Source: k8s.io/apiserver/pkg/cel/library/urls.go; Go
`net/url`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeVar

from dra_operator.api.text import quote
from dra_operator.cel.cost.prices import TRANSFORMING, Implementation, Row
from dra_operator.cel.errors import runtime_error
from dra_operator.cel.library.network import version_of
from dra_operator.cel.values import CelMap, Opaque

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS: Final = frozenset("0123456789")
_UNRESERVED: Final = _LETTERS | _DIGITS | frozenset("-_.~")
_SAFE: Final = {
    # What need not be escaped beside letters, digits and -_.~, by the part of the URL.
    "path": frozenset("$&+,/:;=@"),
    "host": frozenset("!$&'()*+,;=:[]<>\""),
    "zone": frozenset("!$&'()*+,;=:[]<>\""),
    "userinfo": frozenset("$&+,;="),
    "query": frozenset(),
    "fragment": frozenset("$&+,/:;=?@!()*"),
}
_PATH_AS_WRITTEN: Final = frozenset("!'()*$&+,;=:@[]/%") | _UNRESERVED
_FRAGMENT_AS_WRITTEN: Final = _PATH_AS_WRITTEN | frozenset("?")
_USERINFO: Final = _UNRESERVED | frozenset("!$&'()*+,;=:%@")


_T = TypeVar("_T")


class UrlError(Exception):
    """Go's complaint about a URL."""


@dataclass(frozen=True, slots=True)
class URL(Opaque):
    """A URL in its parts. `path` is decoded, `escaped_path` and `fragment` are not; `host` has the port."""

    type_name: ClassVar[str] = "kubernetes.URL"
    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    escaped_path: str = ""
    query: str | None = None
    fragment: str = ""
    has_authority: bool = False

    def equals(self, other: Any) -> bool:
        """Return whether both are written alike."""
        if type(other) is not URL:
            raise runtime_error("no such overload")
        return str(self) == str(other)

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            text += self.opaque
        else:
            if self.host or self.user is not None or (self.has_authority and self.path):
                text += "//" + (f"{self.user}@" if self.user is not None else "") + _escape(self.host, "host")
            if self.escaped_path and not self.escaped_path.startswith("/") and self.host:
                text += "/"
            text += self.escaped_path
        if self.query is not None:
            text += f"?{self.query}"
        return text + (f"#{self.fragment}" if self.fragment else "")


@lru_cache(maxsize=1024)
def parse_url(text: str) -> URL:
    """Return the URL that `text` is. Raises CelError if it is none, or a relative one."""
    try:
        check_request_uri(text)
        return _parse_with_fragment(text)
    except UrlError as error:
        raise runtime_error(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    """Return whether `text` is an absolute URL or path."""
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


def check_request_uri(text: str) -> None:
    """Raise UrlError if a text is no URL in which `#` is no more than a character."""
    _named(text, lambda: _parse(text, via_request=True))


def _parse_with_fragment(text: str) -> URL:
    before, _, fragment = text.partition("#")
    url = _named(before, lambda: _parse(before, via_request=False))
    if not fragment:
        return url
    decoded = _named(text, lambda: _unescape(fragment, "fragment"))
    written = fragment if _FRAGMENT_AS_WRITTEN.issuperset(fragment) else _escape(decoded, "fragment")
    return replace(url, fragment=written)


def _named(text: str, parse: Callable[[], _T]) -> _T:
    try:
        return parse()
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def _parse(text: str, *, via_request: bool) -> URL:
    if any(character < " " or character == "\x7f" for character in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and via_request:
        raise UrlError("empty url")
    if text == "*":
        return URL(path="*", escaped_path="*")
    scheme, rest = _split_scheme(text)
    scheme = scheme.lower()
    query: str | None = None
    if "?" in rest:
        rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(scheme=scheme, opaque=rest, query=query)
        if via_request:
            raise UrlError("invalid URI for request")
        segment = rest.partition("/")[0]
        if ":" in segment:
            raise UrlError("first path segment in URL cannot contain colon")
    user, host, has_authority = None, "", False
    if (scheme or (not via_request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _parse_authority(authority, scheme)
        has_authority = True
    path = _unescape(rest, "path")
    return URL(scheme, "", user, host, path, _escaped_path(rest, path), query, "", has_authority)


def _split_scheme(text: str) -> tuple[str, str]:
    for i, character in enumerate(text):
        if character in _LETTERS:
            continue
        if character in _DIGITS or character in "+-.":
            if i == 0:
                return "", text
            continue
        if character == ":":
            if i == 0:
                raise UrlError("missing protocol scheme")
            return text[:i], text[i + 1 :]
        return "", text
    return "", text


def _parse_authority(authority: str, scheme: str) -> tuple[str | None, str]:
    userinfo, at, host_text = authority.rpartition("@")
    host = _parse_host(host_text, scheme)
    if not at:
        return None, host
    if not _USERINFO.issuperset(userinfo):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    parts = [_escape(_unescape(part, "userinfo"), "userinfo") for part in (name, password)]
    return parts[0] + (f":{parts[1]}" if colon else ""), host


def _parse_host(host: str, scheme: str) -> str:
    if host.startswith("["):
        return _parse_bracketed(host)
    if "[" in host:
        raise UrlError("invalid IP-literal")
    # In a URL of the web a host has one colon; elsewhere Go lets more of them pass, for old times' sake.
    position = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if position >= 0 and not _is_port(host[position:]):
        raise UrlError(f"invalid port {quote(host[position:])} after host")
    return _unescape(host, "host")


def _parse_bracketed(host: str) -> str:
    end = host.rfind("]")
    if "[" in host[1:]:
        raise UrlError("invalid IP-literal")
    if end < 0:
        raise UrlError("missing ']' in host")
    port = host[end + 1 :]
    if not _is_port(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    zone = host.find("%25", 0, end)
    if zone >= 0:
        address = _unescape(host[1:zone], "host") + _unescape(host[zone:end], "zone")
    else:
        address = _unescape(host[1:end], "host")
    try:
        version = version_of(address)
    except ValueError as error:
        raise UrlError(f"invalid host: {error}") from None
    if version == 4:
        raise UrlError("invalid IP-literal")
    return f"[{address}]{_unescape(port, 'host')}"


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and _DIGITS.issuperset(text[1:]))


def _unescape(text: str, part: str) -> str:
    """Return `text` without its percent escapes. Raises UrlError for a wrong one."""
    strict = part in ("host", "zone")
    if "%" not in text and not strict:
        return text.replace("+", " ") if part == "query" else text
    data = bytearray()
    position = 0
    while position < len(text):
        character = text[position]
        if character != "%":
            if strict and character < "\x80" and character not in _UNRESERVED | _SAFE[part]:
                raise UrlError(f"invalid character {quote(character)} in host name")
            data += b" " if character == "+" and part == "query" else character.encode()
            position += 1
            continue
        digits = text[position + 1 : position + 3]
        if len(digits) < 2 or not _HEX.issuperset(digits):
            raise UrlError(f"invalid URL escape {quote(text[position : position + 3])}")
        # In a host only what is beyond ASCII may be escaped, and the percent sign that starts a zone.
        if part == "host" and digits[0] in "01234567" and digits != "25":
            raise UrlError(f"invalid URL escape {quote(text[position : position + 3])}")
        data.append(int(digits, 16))
        position += 3
    return data.decode("utf-8", "replace")


def _escape(text: str, part: str) -> str:
    safe = _UNRESERVED | _SAFE[part]
    return "".join(
        character if character in safe else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in text
    )


def _escaped_path(written: str, path: str) -> str:
    """Return the path as it is written if that is a correct way to write it, else as Go would write it."""
    if _PATH_AS_WRITTEN.issuperset(written):
        return written
    return "*" if path == "*" else _escape(path, "path")


def hostname(url: URL) -> str:
    """Return the host without its port and without the brackets of an IPv6 address."""
    host = url.host
    if (colon := host.rfind(":")) >= 0 and _is_port(host[colon:]):
        host = host[:colon]
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def port(url: URL) -> str:
    """Return the port, or nothing."""
    colon = url.host.rfind(":")
    return url.host[colon + 1 :] if colon >= 0 and _is_port(url.host[colon:]) else ""


def query(url: URL) -> CelMap:
    """Return the parameters: a list of values for each name. What is not written correctly is left out."""
    values: dict[str, list[str]] = {}
    for pair in (url.query or "").split("&"):
        if not pair or ";" in pair:
            continue
        name, _, value = pair.partition("=")
        try:
            values.setdefault(_unescape(name, "query"), []).append(_unescape(value, "query"))
        except UrlError:
            continue
    return CelMap((name, tuple(found)) for name, found in values.items() if found)


FUNCTIONS: Final[dict[str, Row]] = {
    "url string_to_url: (string) -> kubernetes.URL": Implementation(parse_url, TRANSFORMING),
    "isURL is_url_string: (string) -> bool": is_url,
    "getScheme url_get_scheme: kubernetes.URL.() -> string": lambda url: url.scheme,
    "getHost url_get_host: kubernetes.URL.() -> string": lambda url: url.host,
    "getHostname url_get_hostname: kubernetes.URL.() -> string": hostname,
    "getPort url_get_port: kubernetes.URL.() -> string": port,
    "getEscapedPath url_get_escaped_path: kubernetes.URL.() -> string": lambda url: url.escaped_path,
    "getQuery url_get_query: kubernetes.URL.() -> map(string, list(string))": query,
}
