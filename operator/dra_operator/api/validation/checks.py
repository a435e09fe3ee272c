"""Checks of one field: each returns a function of a value and its path that yields what is refused of it."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, Protocol

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


class Pattern(Protocol):
    """What texts are allowed: a regular expression, or a `names.Rule`."""

    def fullmatch(self, text: str, /) -> object:
        """Return something true for a text that is allowed."""


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


def not_empty(wrong: str) -> Check:
    """Return the check that there are items."""

    def check(value: Sized, path: str) -> Iterator[Refusal]:
        if not value:
            yield Refusal(path, None, wrong)

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


def at_least(least: int, wrong: str) -> Check:
    """Return the check of a number."""

    def check(value: int, path: str) -> Iterator[Refusal]:
        if value < least:
            yield Refusal(path, value, wrong)

    return check


def not_false(wrong: str) -> Check:
    """Return the check of a flag that is true, or absent."""

    def check(value: bool | None, path: str) -> Iterator[Refusal]:  # noqa: FBT001 - it is the value
        if value is False:
            yield Refusal(path, None, wrong)

    return check
