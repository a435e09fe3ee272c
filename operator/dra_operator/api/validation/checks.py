"""Checks of one field: each returns a function of a value and its path that yields what is refused of it."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

_MOST_BYTES: Final = 10 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field that the API server refuses: its path in v1, its value or length, what is wrong and what to do."""

    path: str
    value: str | int | None
    text: str

    @property
    def message(self) -> str:
        """The value and what is wrong with it, for people."""
        return (
            self.text if self.value is None else f"{json.dumps(self.value, ensure_ascii=False)} {self.text}"
        )


Pattern: TypeAlias = "re.Pattern[str] | Rule"
"""What texts are allowed."""
Check = Callable[[Any, str], Iterator[Refusal]]


def name(pattern: Pattern, wrong: str, *, in_capitals: bool = False, is_required: bool = False) -> Check:
    """Return the check of a text, or none; an empty one is refused if it `is_required`."""

    def check(value: str | None, path: str) -> Iterator[Refusal]:
        if value is None or not (value or is_required):
            return
        if not pattern.fullmatch(value.lower() if in_capitals else value):
            yield Refusal(path, value, wrong)

    return check


def names(pattern: Pattern, wrong: str, again: str, field: str = "") -> Check:
    """Return the check of a list of names, or of items by the field that names them: each is right, and there once."""

    def check(items: Sequence[Any], path: str) -> Iterator[Refusal]:
        seen: set[str] = set()
        for index, item in enumerate(items):
            text = getattr(item, "counter_set" if field == "counterSet" else field) if field else item
            at = f"{path}[{index}].{field}".rstrip(".")
            if not pattern.fullmatch(text):
                yield Refusal(at, text, wrong)
            elif text in seen:
                yield Refusal(at, text, again)
            seen.add(text)

    return check


def keys(pattern: Pattern, wrong: str) -> Check:
    """Return the check of the keys of a map."""

    def check(items: Mapping[str, Any], path: str) -> Iterator[Refusal]:
        yield from [Refusal(path, key, wrong) for key in items if not pattern.fullmatch(key)]

    return check


def one_of(allowed: Collection[str], wrong: str, again: str = "") -> Check:
    """Return the check of a text, or of a list of them, that must be of a few."""

    def check(value: str | Sequence[str], path: str) -> Iterator[Refusal]:
        if isinstance(value, str):
            if value not in allowed:
                yield Refusal(path, value, wrong)
            return
        for index, item in enumerate(value):
            if item not in allowed or item in value[:index]:
                yield Refusal(f"{path}[{index}]", item, again if item in allowed else wrong)

    return check


def items(most: int, remedy: str) -> Check:
    """Return the check of how many items there may be."""

    def check(value: Sized, path: str) -> Iterator[Refusal]:
        if len(value) > most:
            yield Refusal(path, len(value), f"are too many, {most} at most: {remedy}")

    return check


def must(is_right: Callable[[Any], bool], wrong: str, *, is_shown: bool = False) -> Check:
    """Return the check that a value is right; a wrong one is part of the message if it `is_shown`."""

    def check(value: Any, path: str) -> Iterator[Refusal]:
        if not is_right(value):
            yield Refusal(path, value if is_shown else None, wrong)

    return check


def size(remedy: str) -> Check:
    """Return the check of how long a text, or a JSON value, may be."""

    def check(value: Any, path: str) -> Iterator[Refusal]:
        # The API server counts the bytes that it is sent, and compact JSON has the fewest.
        compact = (",", ":")
        text = value if isinstance(value, str) else json.dumps(value, separators=compact, ensure_ascii=False)
        length = len(text.encode(errors="surrogatepass"))
        if length > _MOST_BYTES:
            yield Refusal(path, length, f"bytes are too many, {_MOST_BYTES} at most: {remedy}")

    return check


# --- Names: which ones the API server takes for objects, drivers, taints and attributes, and what is wrong with others.
# A `Rule` says it in Kubernetes' words; the words for files stand beside the patterns. Patterns that are texts are
# parts of others, and know no length.
# Source: k8s.io/apimachinery/pkg/util/validation, k8s.io/kubernetes/pkg/apis/resource/validation.

SEGMENT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DOMAIN = rf"{SEGMENT}(\.{SEGMENT})*"
DRIVER = re.compile(rf"(?=.{{1,63}}$){DOMAIN}")
_BARE = r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
KEY = re.compile(rf"((?=.{{1,253}}/){DOMAIN}/)?{_BARE}")

DOMAIN_PREFIX = rf"(?=.{{1,63}}/){DOMAIN}/"
PREFIX = rf"(?i:{DOMAIN_PREFIX})"
IDENTIFIER = r"(?=.{1,32}$)[A-Za-z_][A-Za-z0-9_]*"
NOT_LOOKED_AT = ".*/.*/.*"
"""Names of attributes and capacities of more than one slash, of which the API server looks at no part."""
# As of 1.37; before, the domain might have capitals.
QUALIFIED = re.compile(rf"{DOMAIN_PREFIX}{IDENTIFIER}|{NOT_LOOKED_AT}", re.ASCII | re.DOTALL)

NO_DRIVER = "is no name of a driver: write a domain, such as gpu.example.com"
NO_NODE = "is no name of a node: use lower case letters, digits, - and ., at most 253 of them"
NO_KEY = "is no key of a taint: write domain/name or name, of letters, digits, -, _ and ."
NO_VALUE = "is no value of a taint: use letters, digits, -, _ and ., at most 63 of them"


_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


class Rule:
    """A longest length and a pattern; the patterns match from each place in one way, so they backtrack little."""

    __slots__ = ("_longest", "_pattern", "explained")

    def __init__(self, pattern: str, longest: int, words: str, *examples: str) -> None:
        self._pattern = re.compile(pattern)
        self._longest = longest
        shown = " or ".join(f"'{example}', " for example in examples)
        self.explained = f"{words} (e.g. {shown}regex used for validation is '{pattern}')"
        """The rule in words, with its examples and its pattern."""

    def fullmatch(self, text: str) -> bool:
        """True if nothing is wrong with a text. What a pattern admits has a byte a character."""
        return len(text) <= self._longest and self._pattern.fullmatch(text) is not None

    def problems(self, text: str, unit: str = "bytes") -> tuple[str, ...]:
        """Return what is wrong with a text. Lengths are in bytes; upstream's older rules say characters."""
        # Half of a surrogate pair, which JSON may hold, has no bytes; no pattern admits it.
        is_long = len(text.encode(errors="surrogatepass")) > self._longest
        too_long = (f"must be no more than {self._longest} {unit}",) if is_long else ()
        return too_long if self._pattern.fullmatch(text) else (*too_long, self.explained)


LABEL = Rule(
    SEGMENT,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    "my-name",
    "123-abc",
)
SUBDOMAIN = Rule(
    DOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    "example.com",
)
LABEL_1035 = Rule(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
VALUE = Rule(
    f"({_NAME})?",
    63,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    "MyValue",
    "my_value",
    "12345",
)
_NAME_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_EXAMPLES = ("MyName", "my.name", "123-abc")
_PART = Rule(_NAME, 63, _NAME_WORDS, *_EXAMPLES)
_KEY = Rule(_NAME, 63, f"a valid label key {_NAME_WORDS}", *_EXAMPLES)


def problems_of_label(text: str, unit: str = "bytes") -> tuple[str, ...]:
    """Return what is wrong with a label. What would be a subdomain is told the difference, not the whole rule."""
    problems = LABEL.problems(text, unit)
    if LABEL.explained in problems and re.fullmatch(DOMAIN, text):
        return (*problems[:-1], "must not contain dots")
    return problems


def problems_of_qualified_name(text: str) -> tuple[str, ...]:
    """Return what is wrong with a name that may have a domain before it, as in `example.com/name`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (
            f"{_KEY.explained} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in SUBDOMAIN.problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _PART.problems(name)]
    return tuple(problems)
