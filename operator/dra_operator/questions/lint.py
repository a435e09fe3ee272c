"""Lint of selectors: what is wrong with those of classes, claims and templates, held against what is published.

A selector is asked about the devices that the selectors before it leave, as in Kubernetes: those of the class first. All
facts are evaluations on published devices, or on copies of them that lack one attribute.
Source: docs/library.md, "Lint".
"""

from dataclasses import dataclass
from enum import StrEnum

from dra_operator.cel.costs.meter import COST_LIMIT


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The API server refuses the object, or an attempt to allocate ends with an error."""
    WARNING = "warning"
    """It selects nothing, or hardly what was meant; or it will fail once other devices are published."""
    NOTE = "note"
    """Worth knowing."""


class LintRule(StrEnum):
    """What a finding is about."""

    INVALID = "Invalid"
    """The expression does not compile, or holds a quantity or version that is none."""
    TOO_COMPLEX = "TooComplex"
    """It can cost more, or is longer, than the API server admits; as a note: more than half of that."""
    FAILS = "Fails"
    """It fails on devices, neither for a missing attribute nor for a type."""
    UNGUARDED_ATTRIBUTE = "UnguardedAttribute"
    """It reads an attribute or a capacity that devices lack, or of another driver, and does not guard it."""
    TYPE_CLASH = "TypeClash"
    """It compares an attribute with a value of another type, or devices have the attribute in several types."""
    UNKNOWN_NAME = "UnknownName"
    """It names an attribute, a capacity or a driver that no device has."""
    MATCHES_NONE = "MatchesNone"
    """It matches none of the devices that it is asked about."""
    MATCHES_ALL = "MatchesAll"
    """It matches all of the devices that it is asked about, so it excludes none."""
    CLASS_NOT_FOUND = "ClassNotFound"
    """The request names a class that does not exist."""
    UNFINISHED = "Unfinished"
    """It takes so long that not all devices were asked."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong, or worth knowing: the object, the field, what it is and what to do about it."""

    rule: LintRule
    severity: Severity
    kind: str
    namespace: str
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        """Return it in one line, as `DeviceClass "gpu": spec.selectors[0].cel.expression: matches none of 8 devices`."""
        full_name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f'{self.kind} "{full_name}": {self.field}: {self.message}'


@dataclass(frozen=True, slots=True)
class TypeCount:
    """A type of an attribute, as a ResourceSlice writes it or `quantity`, and how many devices have it in this type."""

    type: str
    devices: int


@dataclass(frozen=True, slots=True)
class AttributeUse:
    """An attribute or a capacity that a selector reads.

    `table` is `attributes` or `capacity`, `name` is `domain/name`. `present` of `devices` have it: of those that reach
    the part of the expression which reads it first, where `&&` joins parts. `is_guarded`: the selector does not fail on
    a device without it; None if no device is reached.
    """

    table: str
    name: str
    present: int
    devices: int
    types: tuple[TypeCount, ...]
    is_guarded: bool | None


@dataclass(frozen=True, slots=True)
class SelectorReport:
    """A selector of an object, and what it does on published devices.

    `request` is the request, or `request/subrequest`, that the selector belongs to; empty for a class. It was `asked`
    about the devices that the selectors before it leave, `matched` some and `failed` on some. `reads` as in
    `SelectorProgram`; `attributes` are those of them that devices may lack. `cost` is None if it does not compile.
    """

    kind: str
    namespace: str
    name: str
    field: str
    request: str
    expression: str
    asked: int
    matched: int
    failed: int
    reads: tuple[str, ...] | None
    attributes: tuple[AttributeUse, ...]
    cost: int | None
    cost_limit: int = COST_LIMIT


@dataclass(frozen=True, slots=True)
class LintReport:
    """What there is to say of the selectors of some objects, against so many published devices.

    `unread` are the kinds that could not be read, each with the reason: what depends on them is not said.
    """

    devices: int
    selectors: tuple[SelectorReport, ...]
    findings: tuple[LintFinding, ...]
    unread: tuple[str, ...] = ()

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding; None without findings."""
        return min((item.severity for item in self.findings), key=list(Severity).index, default=None)
