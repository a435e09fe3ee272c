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
from dra_operator.cel.types.types import shown

Advice: TypeAlias = tuple[str, str]
"""What is wrong, and advice or nothing."""

_STRING: Final = r'''[rR]?(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')'''
"""A string as it is written, nearly: advice may be wrong where a raw string ends in a backslash."""
_PASSED: Final = re.compile(rf"{_STRING}|//[^\n]*")
_COMMENT: Final = re.compile(r"//[^\n]*")
_CALLEE: Final = re.compile(r"([A-Za-z_]\w*)\s*\($")
_WORD: Final = re.compile(r"([A-Za-z_]\w*)\s+$")
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}
_LONGEST: Final = 40
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
    "\N{NO-BREAK SPACE}": "write a plain space",
    **dict.fromkeys("\u2018\u2019\u201c\u201d", "write straight quotes"),
}
SUFFIX: Final = re.compile(r"[nmkMGTPE]|[KMGTPE](?:i|B|iB)")
"""What makes an amount of a number where CEL knows numbers only."""
AMOUNT: Final = 'write a quantity as quantity("10Gi")'
_WORDS_BEFORE: Final = {"not": "write !", "if": "write condition ? one : other"}
_TWO_CHARACTERS: Final = {"=>": "write >=", "=<": "write <=", "<>": "write !="}


@dataclass(frozen=True, slots=True)
class Around:
    """The text before the place of an error, and the text from there on."""

    before: str
    rest: str

    @property
    def opened(self) -> str:
        """The text before the place up to the innermost bracket that is still open; empty if none is.

        Strings and comments are blotted out.
        """
        text, open_brackets = blotted(self.before), list[int]()
        for index, character in enumerate(text):
            if character in "([{":
                open_brackets.append(index)
            elif character in ")]}" and open_brackets:
                open_brackets.pop()
        return text[: open_brackets[-1] + 1] if open_brackets else ""

    @property
    def callee(self) -> str:
        """The name of the function among whose arguments the place is, or nothing."""
        found = _CALLEE.search(self.opened)
        return found[1] if found and found[1] != "in" else ""


def blotted(text: str) -> str:
    """Return a text of the same length, with zeros for what stands in strings and comments."""
    return _PASSED.sub(lambda match: "0" * len(match[0]), text)


def slip(found: str, around: Around) -> Advice:
    """Return what is wrong where the parser met `found`, and what to write instead."""
    if found == "<EOF>":
        return _end(around)
    if found in ('"', "'"):
        return "a string is not closed, or has an escape that CEL does not know", ""
    word = _WORD.search(around.before)
    if word and word[1].lower() in _WORDS_BEFORE:
        return f'"{word[1]}" is not expected here', _WORDS_BEFORE[word[1].lower()]
    return f"{_shown(found)} is not expected here", _hint(found, around)


def _hint(found: str, around: Around) -> str:
    for two in (around.rest[:2], around.before[-1:] + found):
        if two in _TWO_CHARACTERS:
            return _TWO_CHARACTERS[two]
    if found in _CLOSING:
        opened = around.opened[-1:]
        if not opened:
            return "it closes nothing"
        if opened == _CLOSING[found]:
            return "something is missing before it"
        return f'"{opened}" is still open'
    if found == "," and around.opened.endswith("(") and not around.callee:
        return "write a list as [1, 2]"
    if SUFFIX.fullmatch(found) and around.before[-1:].isdigit():
        return AMOUNT
    return _WRITTEN.get(found.lower(), "")


def _end(around: Around) -> Advice:
    if not _COMMENT.sub("", around.before).strip():
        return "the expression is empty", 'write a condition, such as device.driver == "gpu.example.com"'
    opened = around.opened[-1:]
    return "the expression ends too early", f'"{opened}" is not closed' if opened else ""


def _shown(found: str) -> str:
    text = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in found[:_LONGEST]
    )
    if len(found) > _LONGEST:
        text += "..."
    return text if text[0] in "'\"" else f'"{text}"'


_VARIABLE: Final = "device"
_USAGE: Final = {
    **{name: f"list.{name}(x, condition)" for name in ("all", "exists", "exists_one", "filter")},
    "existsOne": "list.existsOne(x, condition)",
    "map": "list.map(x, value)",
    "sortBy": "list.sortBy(x, value)",
    "has": "has(device.attributes[domain].name)",
    "bind": "cel.bind(x, value, expression)",
    "optMap": "optional.optMap(x, value)",
    "optFlatMap": "optional.optFlatMap(x, optional)",
    "transformList": "map.transformList(key, value, result)",
    "transformMap": "map.transformMap(key, value, result)",
    "transformMapEntry": "map.transformMapEntry(key, value, {key: value})",
}
"""How the macros are written: those that have names of their own in brackets, which are no functions."""
_BOUND: Final = re.compile(rf"\b(?:{'|'.join(_USAGE)})\(\s*([A-Za-z_]\w*)\s*,(?:\s*([A-Za-z_]\w*)\s*,)?")
_SLASHED: Final = re.compile(r"""\b(device\.(?:attributes|capacity))\[["']([^"'/\]]+)/(\w+)["']\]""")
"""A name written with its domain in one, as it is written everywhere but in CEL."""
_BARE: Final = re.compile(
    r"""\bdevice\.(attributes|capacity)(?:\.(\w+)|\[["'](\w+)["']\])(?=\.\w+(?:\(|$)|[^\w.\[(]|$)"""
)
"""A name that stands where its domain should, and nothing behind it but a call."""
_OF_VERSIONS: Final = ("compareTo", "isGreaterThan", "isLessThan")
"""What compares an attribute: none is a quantity."""
_OTHER_LANGUAGES: Final = {
    "none": "null",
    "nil": "null",
    "undefined": "null",
    "len": "size",
    "length": "size",
    "count": "size",
    "any": "exists",
    "some": "exists",
    "every": "all",
    **dict.fromkeys(("tolower", "tolowercase", "lower", "lowercase"), "lowerAscii"),
    **dict.fromkeys(("toupper", "touppercase", "upper", "uppercase"), "upperAscii"),
    "version": "semver",
}


def advise(error: CelError, expression: str, environment: Environment) -> Advice:
    """Return what is wrong with an expression that does not compile, and advice or nothing."""
    for words, tell in _TEXTS:
        if match := words.fullmatch(error.message):
            return tell(match, around(expression, error.position), environment)
    return error.message, ""


def compile_text(error: CelError, expression: str, environment: Environment) -> str:
    """Return what is wrong with an expression that does not compile, with advice where there is any."""
    text, hint = advise(error, expression, environment)
    return f"{text}; {hint}" if hint else text


def meant(name: str, known: Iterable[str]) -> str:
    """Return the question whether a close name was meant, or nothing where none is close."""
    names = list(known)
    other = _OTHER_LANGUAGES.get(name.lower())
    close = [each for each in names if each.lower() == name.lower() or each == other]
    close = close or get_close_matches(name, names, 1, cutoff=0.7)
    return f'did you mean "{close[0]}"?' if close else ""


def around(expression: str, position: int | None) -> Around:
    """Return the text before a place and from there on; the place is an offset into the encoded expression."""
    if position is None:
        return Around("", "")
    encoded = expression.encode(errors="surrogatepass")
    return Around(*(part.decode(errors="replace") for part in (encoded[:position], encoded[position:])))


def _undeclared(match: re.Match[str], around: Around, environment: Environment) -> Advice:
    name, callee = match[1], around.callee
    functions = environment.function_names()
    if around.rest.startswith("("):
        return _no_function(name, functions)
    if callee and callee not in _USAGE and callee not in {each.rpartition(".")[2] for each in functions}:
        # What stands in its brackets may have been meant for a macro, so this comes first.
        return _no_function(callee, functions)
    if callee in _USAGE and callee != "has" and _misplaced(callee, around):
        return _no_function(callee, functions)
    bound = [each for names in _BOUND.findall(blotted(around.before)) for each in names if each]
    namespaces = {function.partition(".")[0] for function in functions if "." in function}
    hint = meant(name, (_VARIABLE, *bound, "true", "false", "null", *sorted(namespaces)))
    if not hint and name in environment.device_fields:
        hint = f"did you mean device.{name}?"
    return f'no such name "{name}"', hint or ("" if bound else f"the only variable is {_VARIABLE}")


def _no_function(name: str, functions: tuple[str, ...]) -> Advice:
    if name in _USAGE:
        return f"{name}() is used wrongly", f"write {_USAGE[name]}"
    return f'no such function "{name}"', meant(name, (*functions, *_USAGE))


def _misplaced(macro: str, around: Around) -> bool:
    """Return whether a macro is not one here: it stands behind no dot, or what should be its name is undeclared."""
    opened = around.opened
    return not opened.removesuffix("(").rstrip().removesuffix(macro).endswith(".") or not (
        blotted(around.before)[len(opened) :].strip()
    )


def _field(match: re.Match[str], _around: Around, environment: Environment) -> Advice:
    fields = tuple(environment.device_fields)
    return f'device has no field "{match[1]}"', meant(match[1], fields) or f"it has {', '.join(fields)}"


def _operator(match: re.Match[str], around: Around, _environment: Environment) -> Advice:
    operator = match[1].replace("_", "").replace("@", "")
    types = [_short(kind) for kind in _split(match[2])]
    if len(types) == 1:
        return f"{operator} cannot be applied to {types[0]}", ""
    hint = ""
    ordered = operator in ("<", "<=", ">", ">=")
    if any(kind.startswith("map(") for kind in types) and (domain := _domain(around)):
        hint = domain
    elif "Quantity" in types and ordered:
        hint = f"compare quantities by a.compareTo(b) {operator} 0"
    elif "Semver" in types and ordered:
        hint = f"compare versions by a.compareTo(b) {operator} 0"
    elif "Quantity" in types and "string" in types:
        hint = 'write a quantity as quantity("10Gi")'
    elif "Semver" in types and "string" in types:
        hint = 'write a version as semver("1.2.3")'
    elif types == ["string", "string"] and operator == "in":
        hint = "write text.contains(part)"
    elif operator == "+" and "string" in types:
        hint = "make a text of a value by string(...)"
    elif set(types) in ({"int", "double"}, {"int", "uint"}, {"uint", "double"}):
        hint = f"make one of them {types[0]} by {types[0]}(...)"
    return f"{operator} cannot be applied to {' and '.join(types)}", hint


def _domain(around: Around) -> str:
    """Return how to write a name that is written with its domain in one, or without a domain, or nothing."""
    if found := _nearest(_SLASHED, around):
        return f'write {found[1]}["{found[2]}"].{found[3]}'
    bare = _nearest(_BARE, around)
    return f"write device.{bare[1]}[domain].{bare[2] or bare[3]}" if bare else ""


def _nearest(words: re.Pattern[str], around: Around) -> re.Match[str] | None:
    """Return the last match before a place, or else the first one from there on."""
    before = list(words.finditer(around.before))
    return before[-1] if before else words.search(around.rest)


def _call(match: re.Match[str], around: Around, environment: Environment) -> Advice:
    function, receiver, arguments = match[1], _short(match[2] or ""), _split(match[3])
    taken = " and ".join(map(_short, arguments))
    of = f" of {receiver}" if receiver else ""
    hint = _domain(around) if receiver.startswith("map(") else ""
    overloads = environment.functions.get(function, ())
    owners = {_short(shown(each.arguments[0])).partition("(")[0] for each in overloads if each.member}
    has_none = owners.isdisjoint(("dyn", receiver.partition("(")[0]))
    if has_none and not hint and receiver not in ("", "dyn", "any"):
        return f"{receiver} has no {function}()", ""
    if receiver in ("Quantity", "Semver") and "string" in arguments:
        hint = f"wrap the text in {receiver.lower()}(...)"
    elif receiver == "dyn" and function in _OF_VERSIONS and arguments == ["string"]:
        hint = "wrap the text in semver(...)"
    elif receiver == "Quantity" and {"int", "double"}.intersection(arguments):
        hint = 'write an amount as quantity("10Gi")'
    elif function == "quantity" and taken == "Quantity":
        hint = "it is one already"
    elif function == "quantity" and taken == "int":
        hint = "write the amount in quotes"
    return f"{function}(){of} {f'does not take {taken}' if taken else 'needs arguments'}", hint


def _type(match: re.Match[str], _around: Around, _environment: Environment) -> Advice:
    return f"must be a bool, not {_short(match[1])}", ""


def _syntax(match: re.Match[str], around: Around, _environment: Environment) -> Advice:
    return slip(match[1], around)


def _no_fields(match: re.Match[str], around: Around, _environment: Environment) -> Advice:
    kind = _short(match[1] or match[2])
    field = re.match(r"\.(\w+)", around.rest)
    usage = {
        "int": AMOUNT if field and SUFFIX.fullmatch(field[1]) else "",
        "Quantity": 'compare it as it is: a.isGreaterThan(quantity("10Gi"))',
        "Semver": 'compare it as it is: a.isGreaterThan(semver("1.2.3"))',
    }
    return f"{kind} has no fields", usage.get(kind, "")


def _has(_match: re.Match[str], _around: Around, _environment: Environment) -> Advice:
    return "has() asks for a field behind a dot", f"write {_USAGE['has']}"


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


_TEXTS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Around, Environment], Advice]], ...]] = (
    (re.compile(r"undeclared reference to '(.+)' \(in container ''\)"), _undeclared),
    (re.compile(r"undefined field '(.+)'"), _field),
    (re.compile(r"found no matching overload for '([@_]*[^\w\s]+_?|@in)' applied to '\((.*)\)'"), _operator),
    (re.compile(r"found no matching overload for '([\w.]+)' applied to '(?:(.*)\.)?\((.*)\)'"), _call),
    (re.compile(r"must evaluate to bool or the unknown type, not (.+)"), _type),
    (
        re.compile(
            r"Syntax error: (?:mismatched input|extraneous input|token recognition error at:) '(.+)'",
            re.DOTALL,
        ),
        _syntax,
    ),
    (
        re.compile(r"unexpected failed resolution of '(.+)'|type '(.+)' does not support field selection"),
        _no_fields,
    ),
    (re.compile(r"invalid argument to has\(\) macro"), _has),
)


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
_CALLS_WITH_TEXT: Final = re.compile(r"\b(quantity|semver)\(\s*(?:\"([^\"\\]*)\"|'([^'\\]*)')\s*\)")
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
    for match in _CALLS_WITH_TEXT.finditer(expression):
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
