"""Wording: what is wrong with an expression, so that whoever wrote it can mend it.

Upstream's texts name the parts of its compiler: containers, overloads, tokens. Here the common ones are said again in
the words of the expression, with what was probably meant. `CelError.message` stays as Kubernetes' own text; whatever
is not known here is shown as it is.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

from dra_operator.cel.advice.syntax import AMOUNT, SUFFIX, Advice, Around, blotted, slip
from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import CelError
from dra_operator.cel.types import shown

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
