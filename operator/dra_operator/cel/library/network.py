"""IP addresses and networks, version 4 and 6, without zones and without addresses of one version inside the other.

The parsers are those of Go's `net/netip`: which texts are addresses, and in which words the others are
refused.
Source: k8s.io/apiserver/pkg/cel/library/ip.go, cidr.go; Go `net/netip`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar, Final

from dra_operator.api.text import quote
from dra_operator.cel.cost.prices import (
    CONTAINS_CIDR,
    CONTAINS_CIDR_TEXT,
    CONTAINS_IP,
    CONTAINS_IP_TEXT,
    ONE,
    READING,
    READING_TWICE,
    Implementation,
    Row,
)
from dra_operator.cel.errors import CelError, runtime_error, succeeds
from dra_operator.cel.values import Opaque

_BITS: Final = {4: 32, 6: 128}
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")
_MAPPED_PREFIX: Final = 0xFFFF


class _ParseError(Exception):
    """Go's complaint about an address."""


@dataclass(frozen=True, slots=True)
class IP(Opaque):
    """An address: its version, 4 or 6, and its bits as a number."""

    type_name: ClassVar[str] = "net.IP"
    version: int
    value: int

    def cost_size(self) -> int:
        """Return the bytes of the address."""
        return 4 if self.version == 4 else 16

    def __str__(self) -> str:
        return str(IPv4Address(self.value) if self.version == 4 else IPv6Address(self.value))


@dataclass(frozen=True, slots=True)
class CIDR(Opaque):
    """A network, or an address in it: `address` keeps the bits beyond `length`."""

    type_name: ClassVar[str] = "net.CIDR"
    address: IP
    length: int

    def cost_size(self) -> int:
        """Return the bytes of the prefix."""
        return -(-self.length // 8)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


# --- parsing


@lru_cache(maxsize=4096)
def parse_ip(text: str) -> IP:
    """Return the address that `text` is. Raises CelError if it is none."""
    try:
        version, value, zone = _parse_address(text)
    except _ParseError as error:
        raise runtime_error(
            f"IP Address {quote(text)} parse error during conversion from string: {error}"
        ) from None
    if zone:
        raise runtime_error(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(version, value):
        raise runtime_error(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(version, value)


@lru_cache(maxsize=4096)
def parse_cidr(text: str) -> CIDR:
    """Return the network that `text` is. Raises CelError if it is none."""
    prefix = "network address parse error during conversion from string: "
    try:
        version, value, length = _parse_prefix(text)
    except _ParseError as error:
        raise runtime_error(f"{prefix}{prefix}netip.ParsePrefix({quote(text)}): {error}") from None
    if _is_mapped(version, value):
        raise runtime_error(f"{prefix}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(IP(version, value), length)


def _is_mapped(version: int, value: int) -> bool:
    return version == 6 and value >> 32 == _MAPPED_PREFIX


def _parse_prefix(text: str) -> tuple[int, int, int]:
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise _ParseError("no '/'")
    version, value, zone = _parse_address(address)
    if zone:
        raise _ParseError("IPv6 zones cannot be present in a prefix")
    if not bits or not _DIGITS.issuperset(bits) or (len(bits) > 1 and bits[0] == "0"):
        raise _ParseError(f"bad bits after slash: {quote(bits)}")
    if len(bits) > 18:
        raise _ParseError(f"bad bits after slash: {quote(bits)}")
    if int(bits) > _BITS[version]:
        raise _ParseError("prefix length out of range")
    return version, value, int(bits)


def _refused(text: str, message: str, at: str = "") -> _ParseError:
    place = f" (at {quote(at)})" if at else ""
    return _ParseError(f"ParseAddr({quote(text)}): {message}{place}")


def _parse_address(text: str) -> tuple[int, int, str]:
    """Return version, value and zone of an address."""
    for character in text:
        if character == ".":
            return 4, _parse_v4(text, text), ""
        if character == ":":
            return _parse_v6(text)
        if character == "%":
            raise _refused(text, "missing IPv6 address")
    raise _refused(text, "unable to parse IP")


def _parse_v4(text: str, part: str) -> int:
    """Return the value of four numbers with points, which are `part` of the address `text`."""
    fields: list[int] = []
    value, digits = 0, 0
    for i, character in enumerate(part):
        if character in _DIGITS:
            if digits == 1 and value == 0:
                raise _refused(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(character)
            digits += 1
            if value > 255:
                raise _refused(text, "IPv4 field has value >255")
        elif character == ".":
            if i in (0, len(part) - 1) or part[i - 1] == ".":
                raise _refused(text, "IPv4 field must have at least one digit", part[i:])
            if len(fields) == 3:
                raise _refused(text, "IPv4 address too long")
            fields.append(value)
            value, digits = 0, 0
        else:
            raise _refused(text, "unexpected character", part[i:])
    if len(fields) < 3:
        raise _refused(text, "IPv4 address too short")
    return int.from_bytes((*fields, value), "big")


def _parse_v6(text: str) -> tuple[int, int, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _refused(text, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis = 0
        rest = rest[2:]
        if not rest:
            return 6, 0, zone
    while len(groups) < 8:
        length = _group_length(text, rest)
        if rest[length : length + 1] == ".":
            groups += _embedded_v4(text, rest, groups, ellipsis)
            rest = ""
            break
        groups.append(int(rest[:length], 16))
        rest = rest[length:]
        if not rest:
            break
        if rest[0] != ":":
            raise _refused(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _refused(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _refused(text, "multiple :: in address", rest)
            ellipsis = len(groups)
            rest = rest[1:]
            if not rest:
                break
    if rest:
        raise _refused(text, "trailing garbage after address", rest)
    return 6, _joined(text, groups, ellipsis), zone


def _group_length(text: str, rest: str) -> int:
    length = 0
    while length < len(rest) and rest[length] in _HEX:
        length += 1
        if length > 4:
            raise _refused(text, "each group must have 4 or less digits", rest)
    if length == 0:
        raise _refused(text, "each colon-separated field must have at least one digit", rest)
    return length


def _embedded_v4(text: str, rest: str, groups: list[int], ellipsis: int) -> tuple[int, int]:
    if ellipsis < 0 and len(groups) != 6:
        raise _refused(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if len(groups) > 6:
        raise _refused(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    value = _parse_v4(text, rest)
    return value >> 16, value & 0xFFFF


def _joined(text: str, groups: list[int], ellipsis: int) -> int:
    missing = 8 - len(groups)
    if missing and ellipsis < 0:
        raise _refused(text, "address string too short")
    if not missing and ellipsis >= 0:
        raise _refused(text, "the :: must expand to at least one field of zeros")
    if missing:
        groups = [*groups[:ellipsis], *([0] * missing), *groups[ellipsis:]]
    value = 0
    for group in groups:
        value = value << 16 | group
    return value


def version_of(text: str) -> int:
    """Return the version of an address, with or without a zone. Raises ValueError with Go's complaint."""
    try:
        return _parse_address(text)[0]
    except _ParseError as error:
        raise ValueError(str(error)) from None


# --- functions


def is_unspecified(ip: IP) -> bool:
    """Return whether it is 0.0.0.0 or ::."""
    return ip.value == 0


def is_loopback(ip: IP) -> bool:
    """Return whether it is of 127.0.0.0/8, or ::1."""
    return ip.value >> 24 == 127 if ip.version == 4 else ip.value == 1


def is_link_local_unicast(ip: IP) -> bool:
    """Return whether it is of 169.254.0.0/16 or fe80::/10."""
    return ip.value >> 16 == 0xA9FE if ip.version == 4 else ip.value >> 118 == 0xFE80 >> 6


def _is_multicast(ip: IP) -> bool:
    return ip.value >> 28 == 0xE if ip.version == 4 else ip.value >> 120 == 0xFF


def is_global_unicast(ip: IP) -> bool:
    """Return whether it is an ordinary address of one host; private ones are."""
    if ip.version == 4 and ip.value in (0, 0xFFFFFFFF):
        return False
    return not (is_unspecified(ip) or is_loopback(ip) or _is_multicast(ip) or is_link_local_unicast(ip))


def masked(cidr: CIDR) -> CIDR:
    """Return the network itself: the address without the bits beyond its length."""
    return CIDR(IP(cidr.address.version, _network(cidr.address, cidr.length)), cidr.length)


def _network(ip: IP, length: int) -> int:
    host_bits = _BITS[ip.version] - length
    return ip.value >> host_bits << host_bits


def contains_ip(cidr: CIDR, ip: IP) -> bool:
    """Return whether an address is in a network."""
    return ip.version == cidr.address.version and _network(ip, cidr.length) == masked(cidr).address.value


def contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    """Return whether a network is in another, or is it."""
    return cidr.length <= other.length and contains_ip(cidr, other.address)


def _argument(parse: Callable[[str], Any], text: str) -> Any:
    # Upstream hands the error of the text on as if it were the argument, and no overload takes an error.
    try:
        return parse(text)
    except CelError:
        raise runtime_error("no such overload") from None


def _contains_ip_text(cidr: CIDR, text: str) -> bool:
    return contains_ip(cidr, _argument(parse_ip, text))


def _contains_text(cidr: CIDR, text: str) -> bool:
    return contains_cidr(cidr, _argument(parse_cidr, text))


FUNCTIONS: Final[dict[str, Row]] = {
    "ip string_to_ip: (string) -> net.IP": Implementation(parse_ip, READING),
    "isIP is_ip: (string) -> bool": Implementation(succeeds(parse_ip), READING),
    "ip.isCanonical ip_is_canonical: (string) -> bool": Implementation(
        lambda text: str(parse_ip(text)) == text, READING_TWICE
    ),
    "family ip_family: net.IP.() -> int": lambda ip: ip.version,
    "isUnspecified ip_is_unspecified: net.IP.() -> bool": is_unspecified,
    "isLoopback ip_is_loopback: net.IP.() -> bool": is_loopback,
    "isLinkLocalUnicast ip_is_link_local_unicast: net.IP.() -> bool": is_link_local_unicast,
    "isLinkLocalMulticast ip_is_link_local_multicast: net.IP.() -> bool": lambda ip: (
        ip.value >> 8 == 0xE00000 if ip.version == 4 else (ip.value >> 112) & 0xFF0F == 0xFF02
    ),
    "isGlobalUnicast ip_is_global_unicast: net.IP.() -> bool": is_global_unicast,
    "string ip_to_string: (net.IP) -> string": str,
    "cidr string_to_cidr: (string) -> net.CIDR": Implementation(parse_cidr, READING),
    "isCIDR is_cidr: (string) -> bool": Implementation(succeeds(parse_cidr), READING),
    "ip cidr_ip: net.CIDR.() -> net.IP": Implementation(lambda cidr: cidr.address, ONE),
    "isMask cidr_is_mask: net.CIDR.() -> bool": lambda cidr: masked(cidr) == cidr,
    "masked cidr_masked: net.CIDR.() -> net.CIDR": masked,
    "prefixLength cidr_prefix_length: net.CIDR.() -> int": lambda cidr: cidr.length,
    "containsIP cidr_contains_ip_string: net.CIDR.(string) -> bool": Implementation(
        _contains_ip_text, CONTAINS_IP_TEXT
    ),
    "containsIP cidr_contains_ip_ip: net.CIDR.(net.IP) -> bool": Implementation(contains_ip, CONTAINS_IP),
    "containsCIDR cidr_contains_cidr_string: net.CIDR.(string) -> bool": Implementation(
        _contains_text, CONTAINS_CIDR_TEXT
    ),
    "containsCIDR cidr_contains_cidr: net.CIDR.(net.CIDR) -> bool": Implementation(
        contains_cidr, CONTAINS_CIDR
    ),
    "string cidr_to_string: (net.CIDR) -> string": str,
}
