"""Devices at random: every type of attribute, unknown ones, texts and numbers at their ends.

In wire form, so that a finding can be written down; most of it the API server would admit, some of it would come only
from an older or a newer one.
"""

import random
from typing import Any

DRIVERS = ("dra.example.com", "gpu.example.com", "other.example.com", "", "x")
NAMES = ("model", "index", "healthy", "version", "links", "s", "i", "b", "v", "ls", "li", "lb", "lv")
TEXTS = (
    "", "a", "h100", "1.2.3", "v1", "gpu", "10Gi", "true", "5", "\u00e9", "\U0001f600", "\x00", "\ufeff", "\ud800",
    "a" * 64, "a,b;c", "10.0.0.1", "fe80::1%eth0", "2001:db8::/32", "https://h:80/p?q=1#f", "1h", "2020-01-01T00:00:00Z",
    "%s %d", "(a+)+$", "\u0130", "\u212a", "e\u0301", "\r\n", '"', "\\",
)  # fmt: skip
INTS = (0, 1, -1, 2, 3, 7, 63, 64, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
VERSIONS = (
    "0.0.0", "1.0.0", "1.2.3", "2.0.0-rc.1", "1.0.0-alpha.1.b", "1.0.0+build", "9223372036854775807.0.0",
    "18446744073709551615.1.2", "v1.0.0", "1", "", "01.2.3", "1.0.0-" + "9" * 40,
)  # fmt: skip
QUANTITIES = (
    "0", "1", "-1", "80Gi", "1.5Ki", "100m", "1n", "0.0000000001", "9223372036854775807", "9223372036854775808", "8Ei",
    "1e3", "1E", "12e18", "1e400", "-0", "+5", ".5", "5.", "123456789012345678901234567890", "1000Ei",
)  # fmt: skip


def random_driver(source: random.Random) -> str:
    """Return the name of a driver."""
    return source.choice(DRIVERS[:2]) if source.random() < 0.8 else source.choice(DRIVERS)


def random_device(source: random.Random) -> dict[str, Any]:
    """Return a device in wire form."""
    attributes = {}
    for name in source.sample(NAMES, source.randint(0, 8)):
        domain = source.choice(("", "", "", "other.example.com/", "dra.example.com/"))
        attributes[domain + name] = _attribute(source, name)
    capacity = {
        source.choice(("", "other.example.com/")) + name: {"value": source.choice(QUANTITIES)}
        for name in source.sample(("memory", "cores", "slots"), source.randint(0, 3))
    }
    device: dict[str, Any] = {"name": "x", "attributes": attributes, "capacity": capacity}
    if source.random() < 0.5:
        device["allowMultipleAllocations"] = source.random() < 0.5
    return device


def _attribute(source: random.Random, name: str) -> dict[str, Any]:
    usual = {
        "model": "string", "index": "int", "healthy": "bool", "version": "version", "links": "strings", "s": "string",
        "i": "int", "b": "bool", "v": "version", "ls": "strings", "li": "ints", "lb": "bools", "lv": "versions",
    }  # fmt: skip
    kind = usual[name] if source.random() < 0.8 else source.choice(tuple(usual.values()))
    if source.random() < 0.02:
        return {} if source.random() < 0.5 else {"float": 1.5}
    if kind.endswith("s"):
        return {kind: [_scalar(source, kind[:-1]) for _ in range(source.choice((0, 1, 2, 3, 3, 64)))]}
    return {kind: _scalar(source, kind)}


def _scalar(source: random.Random, kind: str) -> Any:
    match kind:
        case "int":
            return source.choice(INTS)
        case "bool":
            return source.random() < 0.5
        case "version":
            # One that cannot be read breaks the whole device: rarely.
            return source.choice(VERSIONS[:8] if source.random() < 0.97 else VERSIONS)
        case _:
            return source.choice(TEXTS)
