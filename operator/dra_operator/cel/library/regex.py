"""Regular expressions: RE2, whose matching takes time linear in the text whatever the pattern is.

The words of errors are those of Go's parser.
Source: cel-go `String.Match`, k8s.io/apiserver/pkg/cel/library/regex.go.
"""

from functools import lru_cache
from typing import Any, Final

import re2

from dra_operator.cel.cost.prices import FIND, MATCH, Implementation, Row
from dra_operator.cel.errors import Abort, CelError, cost_exceeded, runtime_error

SEARCHING: Final = frozenset(("matches", "find", "findAll"))
"""What takes a text and a pattern, in this order."""
_LONGEST_PATTERN: Final = 10_240
_MOST_WORK: Final = 10_000_000
"""Length of the text times instructions of the program: the most steps that RE2 can take."""
_MOST_WORK_FOR_ALL: Final = 2_000_000
"""The same for all occurrences, where RE2 starts again behind each."""
_MOST_MATCHES: Final = 10_000
_MOST_INSTRUCTIONS: Final = 200_000
"""Of all patterns that are written in one expression."""
_REFUSED: Final = 10_000
"""As many instructions take as long to compile as a pattern that is refused for its size."""
_WORDS: Final = (
    # RE2's words, Go's words, whether Go shows the offending part
    ("missing ): ", "missing closing ): "),
    ("missing ]: ", "missing closing ]: "),
    ("no argument for repetition operator: ", "missing argument to repetition operator: "),
    ("bad repetition operator: ", "invalid nested repetition operator: "),
    ("invalid character class range: ", "invalid character class range: "),
    ("invalid perl operator: ", "invalid or unsupported Perl syntax: "),
    ("invalid named capture group: ", "invalid named capture: "),
    ("invalid repetition size: ", "invalid repeat count: "),
    ("unexpected ): ", "unexpected ): "),
    ("invalid escape sequence: ", "invalid escape sequence: "),
)


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    # What is larger, a few dozen classes of Unicode, takes tens of milliseconds to compile.
    options.max_mem = 512 << 10
    return options


_OPTIONS: Final = _options()


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        self._compiled = _compile(text)

    def matches(self, text: str) -> bool:
        """Return whether the pattern occurs in `text`."""
        return self._search(text) is not None

    @property
    def instructions(self) -> int:
        """How many instructions it was compiled to."""
        return int(self._compiled.programsize)

    def find(self, text: str) -> str:
        """Return the first occurrence in `text`, or nothing."""
        found = self._search(text)
        return "" if found is None else str(found.group(0))

    def find_all(self, text: str, limit: int = -1) -> tuple[str, ...]:
        """Return the occurrences in `text` that do not overlap, at most `limit` (negative is all)."""
        if limit == 0:
            return ()
        self._check_work(text, _MOST_WORK_FOR_ALL)
        occurrences: list[str] = []
        previous_end = -1
        for found in self._compiled.finditer(text):
            start, end = found.span()
            # An empty match right behind another match does not count in Go.
            if start == end == previous_end:
                continue
            previous_end = end
            occurrences.append(found.group(0))
            if len(occurrences) == limit:
                break
            if len(occurrences) > _MOST_MATCHES:
                raise cost_exceeded()
        return tuple(occurrences)

    def _search(self, text: str) -> Any:
        self._check_work(text, _MOST_WORK)
        return self._compiled.search(text)

    def _check_work(self, text: str, most: int) -> None:
        if len(text) * self._compiled.programsize > most:
            raise cost_exceeded()


def _compile(text: str) -> Any:
    if len(text) > _LONGEST_PATTERN:
        raise cost_exceeded()
    if _has_any_byte(text):
        raise runtime_error("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise runtime_error(f"error parsing regexp: {_go_words(error)}") from None


def _has_any_byte(text: str) -> bool:
    """Return whether a pattern asks for any byte (a backslash and C), which RE2 knows and Go does not."""
    position = text.find("\\")
    while position >= 0:
        if text[position + 1 : position + 2] == "C":
            return True
        position = text.find("\\", position + 2)
    return False


def _go_words(error: Exception) -> str:
    message = error.args[0] if error.args else ""
    words = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    if words.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    if words.startswith("pattern too large"):
        return "expression too large"
    for ours, theirs in _WORDS:
        if words.startswith(ours):
            return f"{theirs}`{words[len(ours) :]}`"
    return words


def pattern(text: str) -> Pattern:
    """Return the pattern that `text` stands for. Raises CelError if it is none."""
    known = _known(text)
    if isinstance(known, str):
        raise runtime_error(known)
    return known


@lru_cache(maxsize=512)
def _known(text: str) -> Pattern | str:
    """Return a pattern, or what is wrong with it: finding that out takes as long."""
    try:
        return Pattern(text)
    except Abort:
        raise
    except CelError as error:
        return error.message


class Patterns:
    """The patterns written in one expression, which together have so many instructions and no more."""

    __slots__ = ("_instructions", "_texts")

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._instructions = 0

    def add(self, text: str) -> None:
        """Compile a pattern; raises CelError if it is none, or too much with those before it."""
        if text not in self._texts:
            if self._instructions <= _MOST_INSTRUCTIONS:
                self._texts.add(text)
                self._instructions += _instructions(text)
            if self._instructions > _MOST_INSTRUCTIONS:
                raise runtime_error("error parsing regexp: expression too large")
        pattern(text)


def _instructions(text: str) -> int:
    try:
        return pattern(text).instructions
    except CelError:
        return _REFUSED


def matches(text: str, expression: str) -> bool:
    """Return whether a regular expression matches a part of `text`."""
    return pattern(expression).matches(text)


def find(text: str, expression: str) -> str:
    """Return the first match, or nothing."""
    return _legal(expression).find(text)


def find_all(text: str, expression: str, limit: int = -1) -> tuple[str, ...]:
    """Return the matches that do not overlap."""
    return _legal(expression).find_all(text, limit)


def _legal(expression: str) -> Pattern:
    """Return the pattern; the functions of Kubernetes put two words before what is wrong with one."""
    try:
        return pattern(expression)
    except Abort:
        raise
    except CelError as error:
        raise runtime_error(f"Illegal regex: {error.message}") from None


FUNCTIONS: Final[dict[str, Row]] = {
    "matches matches: (string, string) -> bool": Implementation(matches, MATCH),
    "matches matches_string: string.(string) -> bool": Implementation(matches, MATCH),
    "find string_find_string: string.(string) -> string": Implementation(find, FIND),
    "findAll string_find_all_string: string.(string) -> list(string)": Implementation(find_all, FIND),
    "findAll string_find_all_string_int: string.(string, int) -> list(string)": Implementation(
        find_all, FIND
    ),
}
