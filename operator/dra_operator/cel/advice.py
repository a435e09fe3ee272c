"""Advice: what a person is told about an expression that does not compile, or fails on a device.

Upstream's texts name the parts of its compiler: containers, overloads, tokens. Here the common ones are said again in
the words of the expression, with the place, what was probably meant, and for a missing key what the device at hand has.
`CelError.message` stays as Kubernetes' own text; whatever is not known here is shown as it is.
Source: k8s.io/dynamic-resource-allocation `cel/errors.go` for the advice on keys.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import Final, TypeAlias

from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.quantities import parse_quantity, parse_semver
from dra_operator.cel.types.environment import STORED, Environment

Advice: TypeAlias = tuple[str, str]
"""What is wrong, and advice or nothing."""
ADVICE: Final = "guard what not every device has by has(), or by .? and orValue()"
DOMAIN_ADVICE: Final = "correct the domain, or guard it by has()"
WIDTH: Final = 100
"""The columns that a line is shown in where no terminal says how many it has."""
_CUT: Final = "..."
_MISSING: Final = "no such key: "
_MOST_NAMES: Final = 8
_LONGEST: Final = 40
_QUANTITY: Final = 'write a quantity as quantity("10Gi")'
_SUFFIX: Final = re.compile(r"[nmkMGTPE]|[KMGTPE](?:i|B|iB)")
"""What makes an amount of a number where CEL knows numbers only."""
_WRITTEN: Final = {
    "=": "write ==",
    "&": "write &&",
    "|": "write ||",
    "and": "write &&",
    "or": "write ||",
    "not": "write !",
    "is": "write ==",
    ";": "a selector is one expression, without a semicolon",
    "#": "a comment begins with //",
}
_MACROS: Final = {
    **{name: f"list.{name}(x, condition)" for name in ("all", "exists", "exists_one", "existsOne", "filter")},
    **{name: f"list.{name}(x, value)" for name in ("map", "sortBy")},
    **{
        f"transform{name}": f"map.transform{name}(key, value, result)" for name in ("List", "Map", "MapEntry")
    },
    "has": "has(device.attributes[domain].name)",
    "bind": "cel.bind(x, value, expression)",
    "optMap": "optional.optMap(x, value)",
    "optFlatMap": "optional.optFlatMap(x, optional)",
}
"""How the macros are written, which are no functions."""
_OTHER_LANGUAGES: Final = {
    "none": "null", "nil": "null", "len": "size", "length": "size", "count": "size", "any": "exists", "every": "all",
    "tolower": "lowerAscii", "tolowercase": "lowerAscii", "toupper": "upperAscii", "touppercase": "upperAscii",
    "version": "semver",
}  # fmt: skip
_OF_VERSIONS: Final = ("compareTo", "isGreaterThan", "isLessThan")
"""What compares an attribute: none is a quantity."""
_DOMAIN: Final = re.compile(r"device\.(?:attributes|capacity)\[[\"']([^\"']+)[\"']\]")
_SLASHED: Final = re.compile(r"""\b(device\.(?:attributes|capacity))\[["']([^"'/\]]+)/(\w+)["']\]""")
"""A name written with its domain in one, as it is written everywhere but in CEL."""
_BARE: Final = re.compile(
    r"""\bdevice\.(attributes|capacity)(?:\.(\w+)|\[["'](\w+)["']\])(?=\.\w+(?:\(|$)|[^\w.\[(]|$)"""
)
"""A name that stands where its domain should, and nothing behind it but a call."""
_MADE: Final = re.compile(r"\b(quantity|semver)\(\s*(?:\"([^\"\\]*)\"|'([^'\\]*)')\s*\)")


# --- expressions that do not compile --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Context:
    """An expression, the text of it from the place of the error on, and what it may use."""

    expression: str
    rest: str
    environment: Environment


def advise(error: CelError, expression: str, environment: Environment) -> Advice:
    """Return what is wrong with an expression that does not compile, and advice or nothing."""
    rest = "" if error.position is None else expression[len(_before(expression, error.position)) :]
    for words, tell in _TEXTS:
        if match := words.fullmatch(error.message):
            return tell(match, _Context(expression, rest, environment))
    return error.message, ""


def _before(expression: str, position: int) -> str:
    """Return the text before a place, which is an offset into the encoded expression."""
    return expression.encode(errors="surrogatepass")[:position].decode(errors="replace")


def _meant(name: str, known: Iterable[str]) -> str:
    names = list(known)
    other = _OTHER_LANGUAGES.get(name.lower())
    close = [each for each in names if each.lower() == name.lower() or each == other]
    close = close or get_close_matches(name, names, 1, cutoff=0.7)
    return f'did you mean "{close[0]}"?' if close else ""


def _undeclared(match: re.Match[str], context: _Context) -> Advice:
    name, functions = match[1], context.environment.function_names()
    if context.rest.startswith("("):
        if name in _MACROS:
            return f"{name}() is used wrongly", f"write {_MACROS[name]}"
        return f'no such function "{name}"', _meant(name, (*functions, *_MACROS))
    if name in context.environment.device_fields:
        return f'no such name "{name}"', f"did you mean device.{name}?"
    return f'no such name "{name}"', _meant(name, ("device", "true", "false", "null"))


def _field(match: re.Match[str], context: _Context) -> Advice:
    fields = tuple(context.environment.device_fields)
    return f'device has no field "{match[1]}"', _meant(match[1], fields) or f"it has {', '.join(fields)}"


def _operator(match: re.Match[str], context: _Context) -> Advice:
    operator = match[1].replace("_", "").replace("@", "")
    types = list(map(_short, _split(match[2])))
    hint = ""
    if any(kind.startswith("map(") for kind in types):
        hint = _domain(context.expression)
    elif operator in ("<", "<=", ">", ">=") and {"Quantity", "Semver"}.intersection(types):
        hint = f"compare {'quantities' if 'Quantity' in types else 'versions'} by a.compareTo(b) {operator} 0"
    elif "Quantity" in types and "string" in types:
        hint = _QUANTITY
    elif "Semver" in types and "string" in types:
        hint = 'write a version as semver("1.2.3")'
    elif types == ["string", "string"] and operator == "in":
        hint = "write text.contains(part)"
    return f"{operator} cannot be applied to {' and '.join(types)}", hint


def _domain(expression: str) -> str:
    """Return how to write a name that is written with its domain in one, or without a domain, or nothing."""
    if found := _SLASHED.search(expression):
        return f'write {found[1]}["{found[2]}"].{found[3]}'
    bare = _BARE.search(expression)
    return f"write device.{bare[1]}[domain].{bare[2] or bare[3]}" if bare else ""


def _call(match: re.Match[str], context: _Context) -> Advice:
    function, receiver, arguments = match[1], _short(match[2] or ""), _split(match[3])
    taken = " and ".join(map(_short, arguments))
    of = f" of {receiver}" if receiver else ""
    hint = _domain(context.expression) if receiver.startswith("map(") else ""
    if arguments == ["string"] and function in _OF_VERSIONS:
        hint = f"wrap the text in {'quantity' if receiver == 'Quantity' else 'semver'}(...)"
    elif receiver == "Quantity" or (function, taken) == ("quantity", "int"):
        hint = _QUANTITY
    return f"{function}(){of} {f'does not take {taken}' if taken else 'needs arguments'}", hint


def _syntax(match: re.Match[str], context: _Context) -> Advice:
    found = match[1]
    if found == "<EOF>":
        return (
            "the expression is empty" if not context.expression.strip() else "the expression ends too early",
            "",
        )
    if found in ('"', "'"):
        return "a string is not closed, or has an escape that CEL does not know", ""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in found[:_LONGEST])
    shown += _CUT * (len(found) > _LONGEST)
    hint = _QUANTITY if _SUFFIX.fullmatch(found) else _WRITTEN.get(found.lower(), "")
    quoted = shown if shown[0] in "'\"" else f'"{shown}"'
    return f"{quoted} is not expected here", hint


def _split(types: str) -> list[str]:
    """Return types one by one, each with the parameters of its own."""
    parts, depth = [""], 0
    for character in types:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if types else []


def _short(kind: str) -> str:
    return kind.strip().removeprefix("kubernetes.")


_TEXTS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _Context], Advice]], ...]] = (
    (re.compile(r"undeclared reference to '(.+)' \(in container ''\)"), _undeclared),
    (re.compile(r"undefined field '(.+)'"), _field),
    (re.compile(r"found no matching overload for '([@_]*[^\w\s]+_?|@in)' applied to '\((.*)\)'"), _operator),
    (re.compile(r"found no matching overload for '([\w.]+)' applied to '(?:(.*)\.)?\((.*)\)'"), _call),
    (
        re.compile(r"must evaluate to bool or the unknown type, not (.+)"),
        lambda match, _: (f"must be a bool, not {_short(match[1])}", ""),
    ),
    (
        re.compile(
            r"Syntax error: (?:mismatched input|extraneous input|token recognition error at:) '(.+)'",
            re.DOTALL,
        ),
        _syntax,
    ),
    (
        re.compile(r"unexpected failed resolution of '(.+)'|type '(.+)' does not support field selection"),
        lambda match, _: (f"{_short(match[1] or match[2])} has no fields", ""),
    ),
    (
        re.compile(r"invalid argument to has\(\) macro"),
        lambda _match, _: ("has() asks for a field behind a dot", f"write {_MACROS['has']}"),
    ),
)


# --- places ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an expression: row and column from 1, the line as it is shown, and the part of it before the place."""

    row: int
    column: int
    line: str
    before: str


def place_of(expression: str, position: int, width: int = WIDTH) -> Place:
    """Return the place at an offset into the encoded expression; its line is cut to `width` columns around it."""
    before = _before(expression, position)
    start = before.rfind("\n") + 1
    column = len(before) - start
    line = printable(expression[start:].split("\n", 1)[0].removesuffix("\r"))
    first, last = 0, len(line)
    if columns(line) > width:
        # A character takes two columns at the most.
        room = (width - 2 * len(_CUT)) // (1 if line.isascii() else 2)
        first = max(0, min(column - room // 2, len(line) - room))
        last = min(len(line), first + room)
    cut = _CUT * (first > 0)
    shown = cut + line[first:last] + _CUT * (last < len(line))
    return Place(before.count("\n") + 1, column + 1, shown, cut + line[first:column])


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


# --- errors in one line ---------------------------------------------------------------------------------------------


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
        where = ""
        if error.position is not None:
            at = place_of(expression, error.position)
            line = f"line {at.row}, " if "\n" in expression else ""
            where = f" at {line}column {at.column}"
        text, hint = advise(error, expression, environment)
        text = f"does not compile{where}: {text}"
    else:
        hint = _key_advice(expression, error, device)
        mistaken = (told for message, told in mistaken_texts(expression) if message == error.message)
        text = next(mistaken, error.message)
    return " ".join((f"{text}; {hint}" if hint else text).split())


def mistaken_texts(expression: str) -> Iterator[tuple[str, str]]:
    """Yield, for each text in an expression that is no quantity or no version, the error it makes and what to say."""
    for match in _MADE.finditer(expression):
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
    """Return what a device has instead of a key that it lacks."""
    if not error.message.startswith(_MISSING):
        return ""
    if device is None:
        return ADVICE
    name = error.message.removeprefix(_MISSING)
    there = {
        full: f'{table}["{full.partition("/")[0]}"].{full.partition("/")[2]}'
        for table in ("capacity", "attributes")
        for full in getattr(device, table)
    }
    if not there:
        return f"this device has no attributes; {ADVICE}"
    # The name is right but for its case; or the domain before it is not, or the table; or the name stands where the
    # domain should. No guard would mend that.
    written = domains(expression)
    meant = [full for full in sorted(there) if full.partition("/")[2].lower() == name.lower()]
    meant = meant or [full for full in sorted(there) if written & {full, full.partition("/")[2]}]
    shown = ", ".join(there[full] for full in meant)
    domain = _asked_domain(expression, error)
    parts = {part for full in there for part in (full, *full.split("/", 1))}
    if domain and domain not in parts:
        # The domain may be written wrong, or right and the device is none of those that the expression is about.
        only = ", ".join(sorted({full.partition("/")[0] for full in there}))
        has = f"but {shown}" if meant else f"only in {only}"
        return f"this device has nothing in domain {domain}, {has}; {DOMAIN_ADVICE}"
    if meant:
        return f"this device has {shown}"
    known = sorted({full.partition("/")[2] for full in there})
    known.sort(key=lambda each: -SequenceMatcher(None, name, each).ratio())
    of_capacity = {full.partition("/")[2] for full in device.capacity}
    names = [f"{one} (capacity)" if one in of_capacity else one for one in known[:_MOST_NAMES]]
    return f"this device has {', '.join([*names, *([_CUT] if len(known) > _MOST_NAMES else [])])}; {ADVICE}"


def _asked_domain(expression: str, error: CelError) -> str:
    """Return the domain in which a key is missing, or nothing if it is not written before it."""
    if error.position is None:
        return ""
    before = _before(expression, error.position).rstrip()
    return next((match[1] for match in _DOMAIN.finditer(before) if match.end() == len(before)), "")


def domains(expression: str) -> set[str]:
    """Return the domains that an expression names."""
    return set(_DOMAIN.findall(expression))
