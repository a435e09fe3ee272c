"""Reading objects from the wire: one way in, where version, shape and values are checked.

What passes is a dataclass of `api.types` and needs no further check. What does not pass ends in one sentence
that names the object, the field as the API writes it (in the version it was written in), the value and what
is wrong, because it is shown to people: in an Event, in a log line, on the command line.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, get_args

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from dra_operator.api.convert import FLAT_VERSIONS, to_v1, version_of
from dra_operator.api.core import Namespace, Node, Pod, PodGroup
from dra_operator.api.text import about_quotes, shown
from dra_operator.api.types import (
    CELSelector,
    Counter,
    DeviceCapacity,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dra_operator.api.wire import plain, wire_fields

TYPES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        DeviceClass,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
        DeviceTaintRule,
        Node,
        Namespace,
        Pod,
        PodGroup,
    )
}
"""The dataclass of each kind that can be read."""

_WORDS = {
    "string_type": "is not text",
    "int_type": "is not a whole number",
    "bool_type": "is not true or false",
    "dataclass_type": "is not an object",
    "tuple_type": "is not a list",
    "dict_type": "is not an object",
}


_SCALARS = {"string_type": str, "int_type": int, "bool_type": bool}
"""The types that pydantic misses, by the names of its errors."""

_ONLY_FIELD: dict[Any, str] = {DeviceCapacity: "value", Counter: "value", CELSelector: "expression"}
"""Objects that are easily written without their braces, and the field that is meant."""


class ObjectError(ValueError):
    """An object that cannot be read, and why, in one sentence.

    `field` is the path of what is wrong, in the API's words, `value` what stands there.
    """

    def __init__(self, kind: str, namespace: str, name: str, field: str, *, value: Any, message: str) -> None:
        self.field = field
        self.value = value
        full_name = f"{namespace}/{name}" if namespace else name
        subject = f'{kind} "{full_name}"' if full_name else kind
        super().__init__(": ".join(part for part in (subject, field, message) if part))


class PartError(ValueError):
    """A part of an object that cannot be read: the path below it in the API's words, the value, what is wrong."""

    def __init__(self, path: str, value: Any, message: str) -> None:
        self.path = path
        self.value = value
        self.message = message
        super().__init__(f"{path}: {message}")


def read_object(body: Any, kind: str | None = None) -> Any:
    """Return the object that `body` stands for: an instance of the dataclass of its kind, in the shape of v1.

    `kind` stands in for the field of that name, which the items of a list lack; without `apiVersion` it is v1.
    The API's defaults are not applied: see `api.convert`.
    Raises ObjectError if `body` is not such an object.
    """
    if not isinstance(body, Mapping):
        raise ObjectError(kind or "object", "", "", "", value=body, message=f"{shown(body)} is not an object")
    kind = kind or body.get("kind")
    if not isinstance(kind, str) or kind not in TYPES:
        known = ", ".join(TYPES)
        namespace, name = _name(body)
        problem = "is required, one of" if kind is None else f"{shown(kind)} is none of the kinds"
        raise ObjectError("object", namespace, name, "kind", value=kind, message=f"{problem} {known}")
    version = version_of(body)
    return _read(TYPES[kind], to_v1(body, kind=kind, version=version), kind, _name(body), version)


@cache
def _adapter(expected: Any) -> TypeAdapter[Any]:
    # Building one takes milliseconds, so each is built once, when its kind is first read.
    return TypeAdapter(expected)


def _read(expected: Any, body: Any, kind: str, name: tuple[str, str], version: str) -> Any:
    try:
        return read_part(expected, body)
    except PartError as error:
        path = path_in_version(error.path, kind, version)
        raise ObjectError(kind, *name, path, value=error.value, message=error.message) from None


def read_part(expected: Any, body: Any) -> Any:
    """Return what a part of an object stands for, in the shape of v1. Raises PartError if it is no such part."""
    adapter = _adapter(expected)
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        failure = error
    # For the API null is as good as absent. Nearly no object holds one, so it is looked at only when reading
    # fails.
    try:
        return adapter.validate_python(_without_nulls(body, failure))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    path, there = _path(expected, problem["loc"])
    raise PartError(path, problem["input"], _message(problem, there))


def _without_nulls(body: Any, failure: ValidationError) -> Any:
    """Return `body` without the nulls that `failure` complains about."""
    for problem in failure.errors(include_url=False, include_context=False):
        if problem["input"] is None and problem["loc"]:
            body = _without(body, problem["loc"])
    return body


def _without(body: Any, path: tuple[int | str, ...]) -> Any:
    first, rest = path[0], path[1:]
    if isinstance(body, Mapping) and first in body:
        if not rest:
            return {name: value for name, value in body.items() if name != first}
        return {**body, first: _without(body[first], rest)}
    if isinstance(body, list | tuple) and isinstance(first, int) and rest:
        return [_without(item, rest) if index == first else item for index, item in enumerate(body)]
    return body


def _name(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return "", ""
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return namespace if isinstance(namespace, str) else "", name if isinstance(name, str) else ""


def _message(problem: ErrorDetails, expected: Any) -> str:
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "unexpected_keyword_argument":
        return "unknown field"
    given = problem["input"]
    text = f"{shown(given)} {_WORDS.get(kind) or problem['msg']}"
    if remedy := about_quotes(_SCALARS.get(kind), given):
        return f"{text}{remedy}"
    if isinstance(given, str | int) and (inner := _ONLY_FIELD.get(expected)):
        return f"{text} such as {shown({inner: given})}"
    return text


def _path(expected: Any, location: tuple[int | str, ...]) -> tuple[str, Any]:
    """Return the path of a field as the API writes it, `spec.devices[0].capacity["memory"].value`, and its type."""
    path = ""
    for step in location:
        expected, quoted = _step_into(expected, step)
        if isinstance(step, int):
            path += f"[{step}]"
        elif quoted:
            path += f"[{json.dumps(step, ensure_ascii=False)}]"
        else:
            path += f".{step}" if path else step
    return path, plain(expected)


def _step_into(expected: Any, step: int | str) -> tuple[Any, bool]:
    """Return the type one step further into `expected`, and whether the step is a key of a map."""
    expected = plain(expected)
    arguments = get_args(expected)
    if is_dataclass(expected) and isinstance(expected, type):
        return wire_fields(expected).get(str(step)), False
    if arguments:
        return (arguments[0], False) if isinstance(step, int) else (arguments[-1], True)
    return None, False


def path_in_version(path: str, kind: str, version: str) -> str:
    """Return the path as it is in `version`, for a path in v1: a person looks for it in what they wrote."""
    if version not in FLAT_VERSIONS:
        return path
    if kind == "ResourceSlice":
        return re.sub(r"^(spec\.devices\[\d+\])\.(?!name\b)", r"\1.basic.", path)
    return path.replace(".exactly", "", 1)


# --- Opaque parameters that are carried as bytes, because our decoder of JSON does not read all that Go reads.


def readable(parameters: bytes) -> Any:
    """Return parameters that were carried as our decoder reads them; of those that it cannot read, nothing."""
    return {} if rewrite(parameters) is None else orjson.loads(parameters)


def rewrite(value: bytes) -> bytes | None:
    """Return a value as it would be written, inside of others, after it was read; None if it cannot be."""
    try:
        return orjson.dumps([[[[[[[[orjson.loads(value)]]]]]]]])[8:-8]
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
