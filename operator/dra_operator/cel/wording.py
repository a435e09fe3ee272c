"""Wording: what is wrong with an expression, so that whoever wrote it can mend it.

Upstream's texts name the parts of its compiler: containers, overloads, tokens. Here the common ones are said again in
the words of the expression, with what was probably meant. `CelError.message` stays as Kubernetes' own text; whatever
is not known here is shown as it is.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

from dra_operator.cel.environment import Environment
from dra_operator.cel.errors import CelError

_MACROS: Final = ("all", "exists", "exists_one", "filter", "has", "map")
_VARIABLE: Final = "device"
_SPELT: Final = {
    "=": "compare with ==",
    "and": "write &&",
    "or": "write ||",
    "not": "write !",
    ";": "a selector is one expression, without a semicolon",
    '"': "a string is not closed, or has an escape that CEL does not know",
    "'": "a string is not closed, or has an escape that CEL does not know",
}


def compile_text(error: CelError, expression: str, environment: Environment) -> str:
    """Return what is wrong with an expression that does not compile, with advice where there is any."""
    for pattern, tell in _TEXTS:
        if match := pattern.fullmatch(error.message):
            text, hint = tell(match, _rest(expression, error.position), environment)
            return f"{text}; {hint}" if hint else text
    return error.message


def meant(name: str, known: Iterable[str]) -> str:
    """Return the question whether a close name was meant, or nothing where none is close."""
    close = get_close_matches(name, list(known), 1, cutoff=0.7)
    return f'did you mean "{close[0]}"?' if close else ""


_Told = tuple[str, str]
"""What is wrong, and advice or nothing."""


def _rest(expression: str, position: int | None) -> str:
    return (
        ""
        if position is None
        else expression.encode(errors="surrogatepass")[position:].decode(errors="replace")
    )


def _undeclared(match: re.Match[str], rest: str, environment: Environment) -> _Told:
    name = match[1]
    functions = environment.function_names()
    if rest.startswith("("):
        return f'no such function "{name}"', meant(name, (*functions, *_MACROS))
    namespaces = {function.partition(".")[0] for function in functions if "." in function}
    hint = meant(name, (_VARIABLE, *namespaces)) or (
        f"did you mean device.{name}?" if name in environment.device_fields else ""
    )
    return f'no such name "{name}"', hint or f"the only variable is {_VARIABLE}"


def _field(match: re.Match[str], _rest: str, environment: Environment) -> _Told:
    fields = tuple(environment.device_fields)
    return f'device has no field "{match[1]}"', meant(match[1], fields) or f"it has {', '.join(fields)}"


def _operator(match: re.Match[str], _rest: str, _environment: Environment) -> _Told:
    operator = match[1].replace("_", "").replace("@", "")
    types = [_short(kind) for kind in _split(match[2])]
    if len(types) == 1:
        return f"{operator} cannot be applied to {types[0]}", ""
    hint = ""
    if "Quantity" in types and operator in ("<", "<=", ">", ">="):
        hint = f"compare quantities by a.compareTo(b) {operator} 0"
    elif "Quantity" in types and "string" in types:
        hint = 'write a quantity as quantity("10Gi")'
    elif "Semver" in types and "string" in types:
        hint = 'write a version as semver("1.2.3")'
    return f"{operator} cannot be applied to {' and '.join(types)}", hint


def _call(match: re.Match[str], _rest: str, _environment: Environment) -> _Told:
    function, receiver, arguments = match[1], _short(match[2] or ""), _split(match[3])
    taken = " and ".join(map(_short, arguments)) or "no arguments"
    of = f" of {receiver}" if receiver else ""
    hint = ""
    if receiver in ("Quantity", "Semver") and "string" in arguments:
        hint = f"wrap the text in {receiver.lower()}(...)"
    return f"{function}(){of} does not take {taken}", hint


def _type(match: re.Match[str], _rest: str, _environment: Environment) -> _Told:
    return f"must be a bool, not {_short(match[1])}", ""


def _syntax(match: re.Match[str], _rest: str, _environment: Environment) -> _Told:
    found = match[1]
    if found == "<EOF>":
        return "the expression ends too early", ""
    shown = found if found in ("'", '"') else f'"{found}"'
    return f"{shown} is not expected here", _SPELT.get(found, "")


def _split(types: str) -> list[str]:
    """Return types one by one; those with parameters of their own stay together."""
    return [types] if "(" in types else types.split(", ") if types else []


def _short(kind: str) -> str:
    return kind.strip().removeprefix("kubernetes.")


_TEXTS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, Environment], _Told]], ...]] = (
    (re.compile(r"undeclared reference to '(.+)' \(in container ''\)"), _undeclared),
    (re.compile(r"undefined field '(.+)'"), _field),
    (re.compile(r"found no matching overload for '([@_]*[^\w\s]+_?|@in)' applied to '\((.*)\)'"), _operator),
    (re.compile(r"found no matching overload for '([\w.]+)' applied to '(?:(.*)\.)?\((.*)\)'"), _call),
    (re.compile(r"must evaluate to bool or the unknown type, not (.+)"), _type),
    (
        re.compile(r"Syntax error: (?:mismatched input|extraneous input|token recognition error at:) '(.+)'"),
        _syntax,
    ),
)
