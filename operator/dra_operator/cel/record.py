"""Records: classes that only hold fields, made for a compiler that starts often and makes many of them.

What `@dataclass(frozen=True, slots=True)` does beyond that costs half a millisecond a class when it is imported, and
with some thirty classes that is a tenth of the time in which a command has to start; a frozen dataclass also takes
three times as long to make an instance. A record has slots and a constructor. That nobody changes it is left to the
type checker, to which it is a frozen dataclass without equality.
"""

import sys
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

_R = TypeVar("_R", bound="Record")

if sys.version_info >= (3, 14):
    from annotationlib import Format, call_annotate_function, get_annotate_from_class_namespace

    def _annotated(namespace: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names that have annotations in the body of a class."""
        annotate = get_annotate_from_class_namespace(namespace)
        return () if annotate is None else tuple(call_annotate_function(annotate, Format.FORWARDREF))
else:

    def _annotated(namespace: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names that have annotations in the body of a class."""
        return tuple(namespace.get("__annotations__", ()))


@dataclass_transform(eq_default=False, frozen_default=True)
class _RecordType(type):
    """Makes slots and a constructor of the annotations of a class; a value beside one is the default."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "_RecordType":
        fields = _annotated(namespace)
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        parameters = ", ".join(f"{field}=_{field}" if field in defaults else field for field in fields)
        body = "; ".join(f"self.{field} = {field}" for field in fields) or "pass"
        made: dict[str, Any] = {f"_{field}": value for field, value in defaults.items()}
        # The names are those of our own annotations.
        exec(f"def __init__(self, {parameters}): {body}", made)  # noqa: S102
        namespace |= {"__slots__": fields, "__match_args__": fields, "__init__": made["__init__"]}
        return super().__new__(cls, name, bases, namespace)


class Record(metaclass=_RecordType):
    """The base of all records."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in _fields(self))
        return f"{type(self).__name__}({fields})"


def replaced(record: _R, **changes: Any) -> _R:
    """Return a record as `record` is, but for some fields."""
    fields = {field: getattr(record, field) for field in _fields(record)}
    return type(record)(**fields | changes)


def _fields(record: Record) -> tuple[str, ...]:
    kind: Any = type(record)
    names: tuple[str, ...] = kind.__match_args__
    return names
