"""Versions: semantic versioning 2.0.0 as Kubernetes reads it, with a total order.

A version compares by its `key`, a plain tuple, so that a comparison in a selector costs as much as one of
tuples. The order ignores build metadata, and so does equality: `1.0.0+a` and `1.0.0+b` are the same version.
Source: github.com/blang/semver/v4, and k8s.io/apiserver/pkg/cel/library, `semver`, for the normalising
parser.
"""

from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from typing import TypeAlias

from dra_operator.api.text import quote

_MAX_UINT64 = 2**64 - 1
_LONGEST = (
    1024  # far above the 64 bytes of an attribute; comparing must stay cheap whatever a selector builds
)
_DIGITS = frozenset("0123456789")
_IDENTIFIER = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")

_Identifier: TypeAlias = tuple[int, int, str]
"""A part of a pre-release: (0, number, "") sorts before (1, 0, text)."""
_Key: TypeAlias = tuple[int, int, int, bool, tuple[_Identifier, ...]]


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version. `text` is how it is written canonically; `key` is its place in the order."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    key: _Key = field(init=False, repr=False)

    def __post_init__(self) -> None:
        identifiers = tuple(
            (0, int(part), "") if _only(part, _DIGITS) else (1, 0, part) for part in self.prerelease
        )
        # A release comes after its pre-releases; fewer identifiers come before more.
        object.__setattr__(self, "key", (self.major, self.minor, self.patch, not identifiers, identifiers))

    @property
    def text(self) -> str:
        """The version as text, with pre-release and build metadata."""
        prerelease = "-" + ".".join(self.prerelease) if self.prerelease else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.key < other.key if isinstance(other, Semver) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=4096)
def parse_semver(text: str) -> Semver:
    """Return the version that `text` stands for.

    Raises ValueError, with the words of upstream's parser, if it is not one.
    """
    if not text:
        raise ValueError("Version string empty")
    if len(text) > _LONGEST:
        raise ValueError(f"Version string longer than {_LONGEST} characters")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major", "Major")
    minor = _number(parts[1], "minor", "Minor")
    rest, plus, build_text = parts[2].partition("+")
    patch_text, dash, prerelease_text = rest.partition("-")
    patch = _number(patch_text, "patch", "Patch")
    prerelease = tuple(prerelease_text.split(".")) if dash else ()
    for part in prerelease:
        _check_prerelease(part)
    build = tuple(build_text.split(".")) if plus else ()
    for part in build:
        if not part:
            raise ValueError("Build meta data is empty")
        if not _only(part, _IDENTIFIER):
            raise ValueError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(major, minor, patch, prerelease, build)


def is_semver(text: str) -> bool:
    """Return whether `text` is a version."""
    try:
        parse_semver(text)
    except ValueError:
        return False
    return True


def parse_semver_normalizing(text: str) -> Semver:
    """Return the version that `text` stands for after one leading `v` and leading zeros were dropped.

    Missing minor and patch numbers become 0, unless the text has a pre-release or build metadata.
    Raises ValueError if the rest is no version.
    """
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in _DIGITS else "0" + stripped


def _number(text: str, name: str, title: str) -> int:
    if not _only(text, _DIGITS):
        raise ValueError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{title} number must not contain leading zeroes {quote(text)}")
    return _unsigned(text)


def _check_prerelease(part: str) -> None:
    if not part:
        raise ValueError("Prerelease is empty")
    if _only(part, _DIGITS):
        if len(part) > 1 and part[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote(part)}")
        _unsigned(part)
    elif not _only(part, _IDENTIFIER):
        raise ValueError(f"Invalid character(s) found in prerelease {quote(part)}")


def _unsigned(text: str) -> int:
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    number = int(text)
    if number > _MAX_UINT64:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number


def _only(text: str, allowed: frozenset[str]) -> bool:
    return allowed.issuperset(text)
