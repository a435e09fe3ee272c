"""`format`: values written into a text, clause by clause.

Numbers are written as upstream's printer for English writes them, peculiarities included: thousands are
grouped by commas in `%f`, and the number in `%.3e` is a width. Source: cel-go `ext/formatting.go`,
golang.org/x/text/message.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra_operator.api.text import quote
from dra_operator.cel.cost.prices import FORMATTED, Implementation, Row
from dra_operator.cel.errors import LONGEST_TEXT, cost_exceeded, runtime_error
from dra_operator.cel.library.conversions import bytes_to_string
from dra_operator.cel.library.times import duration_to_string, timestamp_to_string
from dra_operator.cel.values import (
    CelMap,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    format_double,
    format_double_positional,
    type_name,
)

_DEFAULT_PRECISION: Final = 6
_LARGEST_ATOI: Final = 2**63 - 1
_LARGEST_NUMBER: Final = 10_000_009
"""The largest number that upstream's printer reads between `%` and the letter; beyond, it sees no letter."""
_NO_LETTER: Final = "%!(NOVERB)"
_MOST_FRACTION_DIGITS: Final = 1074
"""No double has more digits behind the point."""
_CLAUSES: Final = frozenset("sdfebxXo")
_SUPERSCRIPTS: Final = str.maketrans(
    "0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
)
_DEEPEST: Final = 100
_WHOLE: Final = (int, Uint)


@dataclass(frozen=True, slots=True)
class Clause:
    """A place for one argument: `%.3f` has the letter f and the precision 3."""

    letter: str
    precision: int


Piece: TypeAlias = str | Clause


class FormatError(Exception):
    """What is wrong with a format or an argument, in upstream's words."""


def parse_format(text: str, arguments: int) -> Iterator[Piece]:
    """Yield the pieces of a format: texts, and clauses for its arguments, of which there are so many.

    Raises FormatError where it gets to what is wrong, so that an argument that cannot be written counts
    before a wrong clause behind it; a missing argument counts before what is wrong with its clause.
    """
    clauses = 0
    position = 0
    while (percent := text.find("%", position)) >= 0:
        yield text[position:percent]
        if text[percent + 1 : percent + 2] == "%":
            yield "%"
            position = percent + 2
            continue
        if clauses >= arguments:
            raise FormatError(f"index {clauses} out of range")
        if percent + 1 >= len(text):
            raise FormatError("unexpected end of string")
        clause, position = _parse_clause(text, percent + 1)
        yield clause
        clauses += 1
    yield text[position:]


def _parse_clause(text: str, start: int) -> tuple[Clause, int]:
    precision, position = _DEFAULT_PRECISION, start
    if text[start] == ".":
        position = start + 1
        while position < len(text) and text[position] in "0123456789":
            position += 1
        if position >= len(text):
            raise _unparsable("error while parsing precision: could not find end of precision specifier")
        digits = text[start + 1 : position]
        significant = digits.lstrip("0")
        if not digits or len(significant) > 19 or int(significant or "0") > _LARGEST_ATOI:
            problem = "value out of range" if digits else "invalid syntax"
            raise _unparsable(
                "error while parsing precision: error while converting precision to integer: "
                f"strconv.Atoi: parsing {quote(digits)}: {problem}"
            )
        precision = int(significant or "0")
    letter = text[position]
    if letter not in _CLAUSES:
        raise _unparsable(f'unrecognized formatting clause "{letter}"')
    return Clause(letter, precision), position + 1


def _unparsable(message: str) -> FormatError:
    return FormatError(f"could not parse formatting clause: {message}")


def check_type(clause: Clause, argument_type: str) -> None:
    """Raise FormatError if a value of that type (by its name) cannot be written by a clause."""
    refusal = _REFUSALS.get(clause.letter)
    if refusal is not None and argument_type not in refusal[0]:
        raise FormatError(f"error during formatting: {refusal[1]}, was given {argument_type}")


_HEX_REFUSAL: Final = (
    frozenset(("int", "uint", "string", "bytes")),
    "only integers, byte buffers, and strings can be formatted as hex",
)
_STRING_WORDS: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_WRITABLE: Final = frozenset(
    (
        "string", "bool", "bytes", "int", "uint", "double", "map", "list", "type", "google.protobuf.Duration",
        "google.protobuf.Timestamp", "null_type",
    )
)  # fmt: skip
_REFUSALS: Final = {
    "s": (_WRITABLE, _STRING_WORDS),
    "d": (frozenset(("int", "uint")), "decimal clause can only be used on integers"),
    "f": (frozenset(("double",)), "fixed-point clause can only be used on doubles"),
    "e": (frozenset(("double",)), "scientific clause can only be used on doubles"),
    "b": (frozenset(("int", "uint", "bool")), "only integers and bools can be formatted as binary"),
    "o": (frozenset(("int", "uint")), "octal clause can only be used on integers"),
    "x": _HEX_REFUSAL,
    "X": _HEX_REFUSAL,
}


def check_literal(text: str, arguments: Sequence[Sequence[str]]) -> None:
    """Raise FormatError if a format written as a literal cannot write a literal list of arguments.

    Each argument is given by the name of its type, followed, if it is a literal list or map itself, by those
    of what it holds. A type that is known only at run time is `dyn`, and passes.
    Source: cel-go `stringFormatValidator`.
    """
    seen = 0
    for piece in parse_format(text, len(arguments)):
        if isinstance(piece, str):
            continue
        names = arguments[seen] if piece.letter == "s" else arguments[seen][:1]
        seen += 1
        for name in names:
            # A string can be written as a double if it says NaN or Infinity, which shows at run time.
            if name != "dyn" and not (name == "string" and piece.letter in "fe"):
                check_type(piece, name)
    if seen < len(arguments):
        raise FormatError(
            f"too many arguments supplied to string.format (expected {seen}, got {len(arguments)})"
        )


def format_text(text: str, arguments: tuple[Any, ...]) -> str:
    """Return `text` with its clauses replaced by the arguments. Raises CelError."""
    try:
        return _written(parse_format(text, len(arguments)), arguments)
    except FormatError as error:
        raise runtime_error(str(error)) from None


def _written(pieces: Iterator[Piece], arguments: tuple[Any, ...]) -> str:
    remaining = iter(arguments)
    return "".join(
        _limited(piece if isinstance(piece, str) else _write(piece, next(remaining)) for piece in pieces)
    )


def _write(clause: Clause, value: Any) -> str:
    name = type_name(value)
    # Upstream lets texts that name a double without digits pass where a double is due.
    if clause.letter in "fe" and type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        value, name = float(value), "double"
    check_type(clause, name)
    return _WRITERS[clause.letter](value, clause.precision)


def _string(value: Any, depth: int, known: dict[int, str]) -> str:
    """Return the text of a value that stands by itself."""
    if depth > _DEEPEST:
        raise cost_exceeded()
    simple = _SIMPLE.get(type(value))
    if simple is not None:
        return simple(value)
    if type(value) is not tuple and not isinstance(value, CelMap):
        raise FormatError(f"error during formatting: no formatting function for {type_name(value)}")
    # What stands in a value many times is written once, and copied: it may be there more often than anybody can count.
    text = known.get(id(value))
    if text is None:
        text = known[id(value)] = _aggregate(value, depth + 1, known)
    return text


def _aggregate(value: tuple[Any, ...] | CelMap, depth: int, known: dict[int, str]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_limited(_element(item, depth, known) for item in value))}]"
    pairs = sorted((_key(key), _element(item, depth, known)) for key, item in _ordered(value))
    return f"{{{', '.join(_limited(f'{key}:{item}' for key, item in pairs))}}}"


def _ordered(value: CelMap) -> list[tuple[Any, Any]]:
    return sorted(value.items(), key=lambda entry: _key(entry[0]))


def _limited(parts: Iterable[str]) -> list[str]:
    """Return the parts. Raises CelError as soon as they are too long together."""
    result: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > LONGEST_TEXT:
            raise cost_exceeded()
        result.append(part)
    return result


def _element(value: Any, depth: int, known: dict[int, str]) -> str:
    """Return the text of a value within a list or map: as a literal of CEL."""
    kind = type(value)
    if kind is float:
        text = f"{value:.6f}" if abs(value) < float("inf") else format_double(value)
        return text if text[-1].isdigit() else f'"{text}"'
    if kind is str:
        return quote(value)
    if kind is bytes:
        return f"b{quote(bytes_to_string(value))}"
    if kind is Duration:
        return f'duration("{duration_to_string(value)}")'
    if kind is Timestamp:
        return f'timestamp("{timestamp_to_string(value)}")'
    return _string(value, depth, known)


def _key(key: Any) -> str:
    if type(key) in (str, bool, *_WHOLE):
        return _element(key, 0, {})
    raise FormatError(f"error during formatting: no formatting function for map key of type {type_name(key)}")


_SIMPLE: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: lambda value: str(int(value)),
    float: format_double,
    str: lambda value: value,
    bytes: bytes_to_string,
    TypeValue: lambda value: value.name,
    Duration: duration_to_string,
    Timestamp: timestamp_to_string,
}


def _as_fixed(value: float, precision: int) -> str:
    if precision > _LARGEST_NUMBER:
        return _NO_LETTER
    if abs(value) == float("inf") or value != value:  # noqa: PLR0124 - NaN
        return _without_digits(value)
    value = value or 0.0  # zero has no sign here
    return f"{value:,.{precision}f}" if precision < 2**8 else _as_very_fixed(value, precision)


def _as_very_fixed(value: float, precision: int) -> str:
    """Return a double with a precision that upstream's printer cannot hold.

    The digits to round to are an int16 there, and those to fill up with zeros a uint8. A negative number of digits
    stands for the shortest text. Source: golang.org/x/text `message/print.go`, `initDecimal`.
    """
    digits, filled = precision % 2**16, precision % 2**8
    if digits < 2**15:
        whole, _, fraction = f"{value:,.{min(digits, _MOST_FRACTION_DIGITS)}f}".partition(".")
    else:
        whole, _, fraction = format_double_positional(value).partition(".")
        whole = ("-" if whole.startswith("-") else "") + f"{int(whole.lstrip('-')):,}"
    fraction = fraction.rstrip("0").ljust(filled, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _as_scientific(value: float, precision: int) -> str:
    if precision > _LARGEST_NUMBER:
        return _NO_LETTER
    width = precision % 2**16  # upstream's printer holds no more
    if abs(value) == float("inf") or value != value:  # noqa: PLR0124 - NaN
        return _without_digits(value).rjust(width)
    digits, _, exponent = f"{value or 0.0:.6e}".partition("e")
    power = int(exponent)
    sign = "-" if power < 0 else ""
    return f"{digits}\u00d710{f'{sign}{abs(power):02d}'.translate(_SUPERSCRIPTS)}".rjust(width)


def _without_digits(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    return "∞" if value > 0 else "-∞"


def _as_hex(value: Any) -> str:
    if isinstance(value, int):
        return f"{int(value):x}"
    return (value.encode() if isinstance(value, str) else value).hex()


_WRITERS: Final[dict[str, Callable[[Any, int], str]]] = {
    "s": lambda value, _: _string(value, 0, {}),
    "d": lambda value, _: str(int(value)),
    "f": _as_fixed,
    "e": _as_scientific,
    "b": lambda value, _: f"{int(value):b}",
    "o": lambda value, _: f"{int(value):o}",
    "x": lambda value, _: _as_hex(value),
    "X": lambda value, _: _as_hex(value).upper(),
}

FUNCTIONS: Final[dict[str, Row]] = {
    "format string_format: string.(list(dyn)) -> string": Implementation(format_text, FORMATTED)
}
