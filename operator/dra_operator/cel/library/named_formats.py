"""Named formats: checks of texts by name, with Kubernetes' own words for what is wrong.

Source: k8s.io/apiserver/pkg/cel/library/format.go, k8s.io/apimachinery/pkg/util/validation.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from dra_operator.api.validation.checks import (
    LABEL_1035,
    SUBDOMAIN,
    VALUE,
    Rule,
    problems_of_label,
    problems_of_qualified_name,
)
from dra_operator.cel.cost.prices import (
    CHARACTER,
    PATTERN_CHARACTER,
    AstNode,
    Estimate,
    Implementation,
    Price,
    Row,
    matched,
    size,
    size_of,
)
from dra_operator.cel.errors import cost_exceeded
from dra_operator.cel.library.times import scan_timestamp
from dra_operator.cel.library.urls import UrlError, check_request_uri
from dra_operator.cel.values import NONE, Opaque, Optional_

_LONGEST: Final = 100_000
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


@dataclass(frozen=True, slots=True)
class Format(Opaque):
    """A named check; `check` returns what is wrong with a text, line by line."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    hashable: ClassVar[bool] = False
    name: str
    check: Callable[[str], tuple[str, ...]] = field(compare=False)

    def __str__(self) -> str:
        return self.name


def _by(rule: Rule, unit: str = "bytes") -> Callable[[str], tuple[str, ...]]:
    def check(text: str) -> tuple[str, ...]:
        _check_length(text)
        return rule.problems(text, unit)

    return check


def _check_length(text: str) -> None:
    # A text too long for the rule is not worth a match: no text of that length passes.
    if len(text) > _LONGEST:
        raise cost_exceeded()


_subdomain = _by(SUBDOMAIN, "characters")
_label_1035 = _by(LABEL_1035, "characters")


def _label(text: str) -> tuple[str, ...]:
    _check_length(text)
    return problems_of_label(text, "characters")


def _qualified_name(text: str) -> tuple[str, ...]:
    for part in text.split("/") if text.count("/") < 2 else ():
        _check_length(part)
    return problems_of_qualified_name(text)


def _as_prefix(check: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    """Return the check of a text to which more will be added: a dash at its end is fine."""

    def checked(text: str) -> tuple[str, ...]:
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return checked


def _uri(text: str) -> tuple[str, ...]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return (str(error),)
    return ()


def _uuid(text: str) -> tuple[str, ...]:
    return () if _UUID.fullmatch(text) else ("does not match the UUID format",)


def _byte(text: str) -> tuple[str, ...]:
    return () if _BASE64.fullmatch(text) else ("invalid base64",)


def _date(text: str) -> tuple[str, ...]:
    return () if scan_timestamp(f"{text}T00:00:00Z") and len(text) == 10 else ("invalid date",)


def _datetime(text: str) -> tuple[str, ...]:
    return () if _is_datetime(text) else ("invalid datetime",)


def _is_datetime(text: str) -> bool:
    # The format of OpenAPI, which is laxer than RFC 3339: case, the sign before a fraction, and offsets do
    # not matter.
    date, _, rest = text.lower().partition("t")
    clock = _CLOCK.fullmatch(rest.partition("t")[0])
    if _date(date) or clock is None:
        return False
    return clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


FORMATS: Final = {
    name: Format(name, check)
    for name, check in (
        ("dns1123Label", _label),
        ("dns1123Subdomain", _subdomain),
        ("dns1035Label", _label_1035),
        ("qualifiedName", _qualified_name),
        ("dns1123LabelPrefix", _as_prefix(_label)),
        ("dns1123SubdomainPrefix", _as_prefix(_subdomain)),
        ("dns1035LabelPrefix", _as_prefix(_label_1035)),
        ("labelValue", _by(VALUE)),
        ("uri", _uri),
        ("uuid", _uuid),
        ("byte", _byte),
        ("date", _date),
        ("datetime", _datetime),
    )
}
"""Every format by its name."""


def named(name: str) -> Optional_:
    """Return the format of that name, if there is one."""
    found = FORMATS.get(name)
    return NONE if found is None else Optional_(found)


def validate(named_format: Format, text: str) -> Optional_:
    """Return what is wrong with `text`, or none if nothing is."""
    problems = named_format.check(text)
    return Optional_(problems) if problems else NONE


def _constant(named_format: Format) -> Callable[[], Format]:
    return lambda: named_format


_PATTERN_LENGTHS: Final = {
    "dns1123Label": 30, "dns1123Subdomain": 60, "dns1035Label": 30, "qualifiedName": 60, "dns1123LabelPrefix": 30,
    "dns1123SubdomainPrefix": 60, "dns1035LabelPrefix": 30, "labelValue": 40, "uri": 1103, "uuid": 70, "byte": 84,
    "date": 71, "datetime": 71,
}  # fmt: skip
"""How long the pattern behind a format is taken to be, for what validating costs."""
_LONGEST_PATTERN: Final = 128


def _validation_cost(arguments: list[Any], _result: Any) -> int:
    named_format = arguments[0]
    if type(named_format) is not Format:
        return 1
    return matched(size(arguments[1]), _PATTERN_LENGTHS[named_format.name])


def _validation_estimate(_format: AstNode, text: AstNode) -> Estimate:
    return Estimate(size_of(text).scaled(CHARACTER).scaled(_LONGEST_PATTERN * PATTERN_CHARACTER))


_VALIDATION: Final = Price(_validation_cost, _validation_estimate, by_name=True)
FUNCTIONS: Final[dict[str, Row]] = {
    **{
        f"format.{name} format.{name}: () -> kubernetes.NamedFormat": _constant(named_format)
        for name, named_format in FORMATS.items()
    },
    "format.named format-named: (string) -> optional_type(kubernetes.NamedFormat)": named,
    "validate format-validate: kubernetes.NamedFormat.(string) -> optional_type(list(string))": Implementation(
        validate, _VALIDATION
    ),
}
