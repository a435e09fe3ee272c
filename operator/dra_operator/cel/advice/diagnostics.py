"""Diagnostics: errors as a person can act on them.

A message says what is wrong in upstream's words; here it gets the place in the expression, and for a missing
key the name that was probably meant and the way to say that an attribute may be absent.
Source: k8s.io/dynamic-resource-allocation `cel/errors.go` for the advice.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from dra_operator.cel.advice.wording import around, compile_text
from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.environment import STORED, Environment
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.library.semvers import parse_semver

_MISSING: Final = "no such key: "
_MOST_NAMES: Final = 8
_CUT: Final = "..."
WIDTH: Final = 100
"""The columns that a line is shown in where no terminal says how many it has."""
_KIND_BELOW: Final = re.compile(
    r"device\.attributes\[[^\]]+\](?:\.\w+|\[[^\]]+\])\.((?i:(?:string|int|bool|version)s?(?:value)?|value))\b"
)
"""A kind of value behind an attribute, as slices have it, or the fields of Go's type."""
_DOMAIN: Final = re.compile(r"device\.(?:attributes|capacity)\[[\"']([^\"']+)[\"']\]")
_WRITTEN: Final = re.compile(r"\b(quantity|semver)\(\s*(?:\"([^\"\\]*)\"|'([^'\\]*)')\s*\)")
ADVICE: Final = "guard what not every device has by has(), or by .? and orValue()"
DOMAIN_ADVICE: Final = "correct the domain, or guard it by has()"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an expression: row and column from 1, the line as it is shown, and the part of it before the place."""

    row: int
    column: int
    line: str
    before: str


def place_of(expression: str, position: int, width: int = WIDTH) -> Place:
    """Return the place at an offset into the encoded expression; its line is cut to `width` columns around it."""
    before = around(expression, position).before
    start = before.rfind("\n") + 1
    column = len(before) - start
    line = printable(expression[start:].split("\n", 1)[0].removesuffix("\r"))
    first, last = _window(line, column, width)
    shown = _CUT * (first > 0) + line[first:last] + _CUT * (last < len(line))
    return Place(before.count("\n") + 1, column + 1, shown, _CUT * (first > 0) + line[first:column])


def _window(line: str, column: int, width: int) -> tuple[int, int]:
    """Return from where to where a line is shown: all of it, or what fits around a column."""
    if columns(line) <= width:
        return 0, len(line)
    room = width - 2 * len(_CUT)
    first, used = column, 0
    while first > 0 and used + columns(line[first - 1]) <= room // 2:
        first -= 1
        used += columns(line[first])
    last = column
    while last < len(line) and used + columns(line[last]) <= room:
        used += columns(line[last])
        last += 1
    while first > 0 and used + columns(line[first - 1]) <= room:
        first -= 1
        used += columns(line[first])
    return first, last


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def printable(text: str) -> str:
    """Return a text that only writes: no tab, whose width nobody knows, and nothing that a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text)


def caret(expression: str, position: int | None, message: str) -> str:
    """Return a message with its place: line and column, the line itself and a caret under the place."""
    if position is None:
        return printable(message)
    at = place_of(expression, position)
    return f"{at.row}:{at.column}: {printable(message)}\n | {at.line}\n | {'.' * columns(at.before)}^"


def describe(
    expression: str,
    error: CelError,
    device: PreparedDevice | None = None,
    environment: Environment = STORED,
) -> str:
    """Return an error as a clause about its selector, in one line: what is wrong, where, and what to do about it.

    `does not compile at column 14: no such function "matchs"; did you mean "matches"?`
    """
    if error.kind == "compile":
        text = f"does not compile{_place(expression, error)}: {compile_text(error, expression, environment)}"
    else:
        hint = _kind_below(expression, error.message) or _dotted_domain(expression, error.message, device)
        hint = hint or _key_advice(expression, error, device)
        mistaken = (told for message, told in mistaken_texts(expression) if message == error.message)
        told = next(mistaken, error.message)
        text = f"{told}; {hint}" if hint else told
    return " ".join(text.split())


def _place(expression: str, error: CelError) -> str:
    if error.position is None:
        return ""
    at = place_of(expression, error.position)
    return f" at column {at.column}" if "\n" not in expression else f" at line {at.row}, column {at.column}"


def mistaken_texts(expression: str) -> Iterator[tuple[str, str]]:
    """Yield, for each text in an expression that is no quantity or no version, the error it makes and what to say."""
    for match in _WRITTEN.finditer(expression):
        kind, text = match[1], match[2] or match[3] or ""
        try:
            parse_quantity(text) if kind == "quantity" else parse_semver(text)
        except CelError as error:
            if kind == "quantity":
                told = f'{match[0]} is no quantity; write one as quantity("10G") or quantity("10Gi")'
            else:
                told = f'{match[0]} is no version ({error.message}); write one as semver("1.2.3"), '
                told += 'or as semver("1.2", true)'
            yield error.message, told


def _key_advice(expression: str, error: CelError, device: PreparedDevice | None) -> str:
    if not error.message.startswith(_MISSING):
        return ""
    if device is None:
        return ADVICE
    name = error.message.removeprefix(_MISSING)
    full_names = sorted({*device.attributes, *device.capacity})
    if not full_names:
        return f"this device has no attributes; {ADVICE}"
    meant = [full for full in full_names if full.partition("/")[2].lower() == name.lower()]
    # The name is right but for its case; or the domain before it is not, or the table; or the name stands where
    # the domain should. No guard would mend that.
    written = domains(expression)
    meant = meant or [full for full in full_names if written & {full, full.partition("/")[2]}]
    there = ", ".join(_where(full, device) for full in meant)
    domain = _asked_domain(expression, error)
    if domain and not any(
        domain in (full.partition("/")[0], full.partition("/")[2], full) for full in full_names
    ):
        # The domain may be written wrong, or right and the device is none of those that the expression is about.
        only = ", ".join(dict.fromkeys(full.partition("/")[0] for full in full_names))
        has = f"but {there}" if meant else f"only in {only}"
        return f"this device has nothing in domain {domain}, {has}; {DOMAIN_ADVICE}"
    if meant:
        return f"this device has {there}"
    known = sorted({full.partition("/")[2] for full in full_names})
    known.sort(key=lambda known_name: -SequenceMatcher(None, name, known_name).ratio())
    attributes = {full.partition("/")[2] for full in device.attributes}
    shown = [one if one in attributes else f"{one} (capacity)" for one in known[:_MOST_NAMES]]
    more = ", ..." if len(known) > _MOST_NAMES else ""
    return f"this device has {', '.join(shown)}{more}; {ADVICE}"


def _asked_domain(expression: str, error: CelError) -> str:
    """Return the domain in which a key is missing, or nothing if it is not written before it."""
    if error.position is None:
        return ""
    before = around(expression, error.position).before.rstrip()
    return next((match[1] for match in _DOMAIN.finditer(before) if match.end() == len(before)), "")


def _kind_below(expression: str, message: str) -> str:
    """Return what to leave out where the kind of a value stands behind an attribute, as it does in a slice."""
    for match in _KIND_BELOW.finditer(expression):
        if message == f"{_MISSING}{match[1]}":
            return f"an attribute is its value: leave out .{match[1]}"
    return ""


def _dotted_domain(expression: str, message: str, device: PreparedDevice | None) -> str:
    """Return how to write a domain of the device that is written with dots, which reads a map of the first word."""
    if device is None or not message.startswith(_MISSING):
        return ""
    for domain in sorted({full.partition("/")[0] for full in device.attributes}):
        if "." in domain and f"device.attributes.{domain}." in expression:
            return f'write device.attributes["{domain}"], as a domain has dots of its own'
    return ""


def domains(expression: str) -> set[str]:
    """Return the domains that an expression names."""
    return set(_DOMAIN.findall(expression))


def _where(full: str, device: PreparedDevice) -> str:
    domain, _, name = full.partition("/")
    table = "attributes" if full in device.attributes else "capacity"
    return f'{table}["{domain}"].{name}'
