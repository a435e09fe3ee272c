"""Fields of objects that are kept in part only, read from the wire without a dataclass of the whole.

There are many pods, and of most only what they request counts. What cannot be read is left out and reported, so that a
slip in one field hides neither the rest of the object nor another one.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from dra_operator.api.quantity import NANO, read_quantity
from dra_operator.api.read import ObjectError
from dra_operator.api.text import about_quotes, shown

Amounts: TypeAlias = dict[str, int]
"""Amounts in thousandths, by the name of the resource."""
_THOUSANDTH: Final = NANO // 1000
_EMPTY: Final[Mapping[str, Any]] = {}


class FieldReader:
    """Reads fields of one object. Paths are those of the field's owner; `problems` collects what could not be read."""

    __slots__ = ("_kind", "name", "namespace", "problems")

    def __init__(self, kind: str, body: Mapping[str, Any]) -> None:
        self._kind = kind
        self.namespace = self.name = ""
        self.problems: list[ObjectError] = []
        metadata = self.part(body, "metadata", "")
        self.namespace = self.text(metadata, "namespace", "metadata")
        self.name = self.text(metadata, "name", "metadata")

    def reject(self, path: str, value: Any, message: str) -> None:
        """Report a field that cannot be read."""
        error = ObjectError(self._kind, self.namespace, self.name, path, value=value, message=message)
        self.problems.append(error)

    def _reject_type(self, path: str, value: Any, expected: type, words: str) -> None:
        self.reject(path, value, f"{shown(value)} is not {words}{about_quotes(expected, value)}")

    def part(self, owner: Mapping[str, Any], field: str, path: str) -> Mapping[str, Any]:
        """Return a field that is an object; an empty one if it is absent."""
        value = owner.get(field)
        # Nearly all are plain dicts, which to ask first is four times as fast.
        if type(value) is dict:
            return value
        if value is None:
            return _EMPTY
        if isinstance(value, Mapping):
            return value
        self.reject(join(path, field), value, f"{shown(value)} is not an object")
        return _EMPTY

    def parts(
        self, owner: Mapping[str, Any], field: str, path: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the objects of a field that is a list, each with its path."""
        value = owner.get(field)
        if value is None:
            return
        path = join(path, field)
        if not isinstance(value, list | tuple):
            self.reject(path, value, f"{shown(value)} is not a list")
            return
        for index, item in enumerate(value):
            if type(item) is dict or isinstance(item, Mapping):
                yield f"{path}[{index}]", item
            elif item is not None:
                self.reject(f"{path}[{index}]", item, f"{shown(item)} is not an object")

    def text(self, owner: Mapping[str, Any], field: str, path: str) -> str:
        """Return a field that is text; an empty one if it is absent."""
        value = owner.get(field)
        if isinstance(value, str):
            return value
        if value is not None:
            self._reject_type(join(path, field), value, str, "text")
        return ""

    def flag(self, owner: Mapping[str, Any], field: str, path: str) -> bool | None:
        """Return a field that is true or false; None if it is absent."""
        value = owner.get(field)
        if value is None or isinstance(value, bool):
            return value
        self._reject_type(join(path, field), value, bool, "true or false")
        return None

    def whole(self, owner: Mapping[str, Any], field: str, path: str) -> int | None:
        """Return a field that is a whole number; None if it is absent."""
        value = owner.get(field)
        if value is None or type(value) is int:
            return value
        self._reject_type(join(path, field), value, int, "a whole number")
        return None

    def texts(self, owner: Mapping[str, Any], field: str, path: str) -> dict[str, str]:
        """Return a field that is a map of texts; an empty one if it is absent."""
        found: dict[str, str] = {}
        table = self.part(owner, field, path)
        for name, value in table.items():
            if isinstance(value, str):
                found[name] = value
            elif value is not None:
                self._reject_type(f'{join(path, field)}["{name}"]', value, str, "text")
        return found

    def items(self, owner: Mapping[str, Any], field: str, path: str) -> list[str]:
        """Return a field that is a list of texts; an empty one if it is absent."""
        value = owner.get(field)
        if value is None:
            return []
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return [*value]
        self.reject(join(path, field), value, f"{shown(value)} is not a list of texts")
        return []

    def amount(self, owner: Mapping[str, Any], field: str, path: str) -> int:
        """Return a field that is an amount, in thousandths, rounded up; 0 if it is absent."""
        value = owner.get(field)
        try:
            return 0 if value is None else _thousandths(value)
        except ValueError as error:
            self.reject(join(path, field), value, str(error))
            return 0

    def amounts(self, owner: Mapping[str, Any], field: str, path: str) -> Amounts:
        """Return a field that has amounts by the names of resources, rounded up as the API server rounds them."""
        found: Amounts = {}
        for name, value in self.part(owner, field, path).items():
            try:
                found[name] = _parsed(value) if isinstance(value, str) else _thousandths(value)
            except ValueError as error:
                self.reject(f'{join(path, field)}["{name}"]', value, str(error))
        return found


def join(path: str, field: str) -> str:
    """Return the path of a field of what is at a path."""
    return f"{path}.{field}" if path else field


def _thousandths(value: Any) -> int:
    return -(-read_quantity(value).nano // _THOUSANDTH)


@lru_cache(maxsize=16384)
def _parsed(text: str) -> int:
    return _thousandths(text)
