"""Declarative validation: what `rules.json` says of an object, in the version of the request.

That file is made by tests/sim/go_rules.py.

A value that an update leaves as it was is not asked about again. Items of a list are compared with those of the same
keys; without keys, each item of a changed list counts as new.
Source: k8s.io/apimachinery/pkg/api/validate, and zz_generated.validations.go of each version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from dra_operator.sim import errors, schema, views
from dra_operator.sim.errors import FieldError
from dra_operator.sim.formats import FORMATS
from dra_operator.sim.resources import Resource

Body = Mapping[str, Any]
Check = Callable[[Any, Any, str], Iterator[FieldError]]
"""Takes a value, what it was before (`_NEW` if it was not there), and its path."""

_NEW: Any = object()
_STOPPING = frozenset({"maxItems", "immutable", "update"})
"""Rules that end the questions about a value if they refuse it."""


def declared_errors(
    resource: Resource, version: str, body: Body, old: Body | None = None
) -> list[FieldError]:
    """Return what is wrong with an object in the stored shape; `old` is the one that it replaces."""
    check = _struct(resource.struct(version))
    if check is None:
        return []
    shown = views.from_stored(body, resource, version)
    before = _NEW if old is None else views.from_stored(old, resource, version)
    return list(check(shown, before, ""))


@cache
def _rules() -> dict[str, dict[str, list[str]]]:
    loaded: dict[str, dict[str, list[str]]] = orjson.loads(
        Path(__file__).with_name("rules.json").read_bytes()
    )
    return loaded


@cache
def _struct(struct: str) -> Check | None:
    """Return the check of a struct; None if it and all below it declare nothing."""
    if not struct.startswith("resource/"):
        return None
    rules = _rules().get(struct, {})
    union = [rule.removeprefix("union=").split(",") for rule in rules.get("", ())]
    fields = [
        (name, check)
        for name, field in schema.types()[struct].items()
        if (check := _field(field[0], rules.get(name, []))) is not None
    ]
    if not union and not fields:
        return None

    def check_struct(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        for members in union:
            yield from _one_of(members, value, old, path)
        for name, check in fields:
            given, before = value.get(name), _NEW if old is _NEW else old.get(name)
            if given != before:
                yield from check(given, before, f"{path}.{name}" if path else name)

    return check_struct


def _one_of(members: list[str], value: Body, old: Any, path: str) -> Iterator[FieldError]:
    given = [name for name in members if value.get(name) is not None]
    if len(given) == 1 or (
        old is not _NEW and given == [name for name in members if old.get(name) is not None]
    ):
        return
    shown = ", ".join(f"`{name}`" for name in members)
    if given:
        text = f"{{{', '.join(given)}}}"
        yield errors.invalid_value(path, text, f"must specify exactly one of: {shown}")
    else:
        yield errors.invalid_value(path, "", f"must specify one of: {shown}")


def _field(type_: str, rules: list[str]) -> Check | None:
    checks = [
        (rule.partition("=")[0] in _STOPPING, _rule(rule, type_)) for rule in rules if rule != "required"
    ]
    below = _below(type_, rules)
    required = "required" in rules
    if not checks and below is None and not required:
        return None
    # A pointer to an empty value is set, and a struct always is.
    has_zero = not type_.startswith("*") and type_ not in schema.types()

    def check_field(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        if value is None or (has_zero and not value):
            if required:
                yield errors.required(path)
            return
        for stops, check in checks:
            found = list(check(value, old, path))
            yield from found
            if found and stops:
                return
        if below is not None:
            yield from below(value, _NEW if old is None else old, path)

    return check_field


# --- values that hold others ------------------------------------------------------------------------------------------


def _keys(rules: Iterable[str]) -> list[str]:
    """Return the fields that tell the items of a list apart."""
    found = next((rule.removeprefix("unique=") for rule in rules if rule.startswith("unique=")), "")
    return found.split(",") if found else []


def _below(type_: str, rules: list[str]) -> Check | None:
    """Return the check of the structs in a field; None if they declare nothing."""
    check = _struct(schema.element(type_))
    if check is None or not type_.startswith(("[]", "{}")):
        return check
    return _each_item(check, _keys(rules)) if type_.startswith("[]") else _each_value(check)


def _identity(item: Body, keys: list[str]) -> tuple[Any, ...]:
    return tuple(item.get(key) for key in keys)


def _each_item(check: Check, keys: list[str]) -> Check:
    def check_items(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        before = {} if old is _NEW or not keys else {_identity(item, keys): item for item in old}
        for index, item in enumerate(value):
            own = before.get(_identity(item, keys), _NEW) if before else _NEW
            if item != own:
                yield from check(item, own, f"{path}[{index}]")

    return check_items


def _each_value(check: Check) -> Check:
    def check_values(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        before = {} if old is _NEW else old
        for key, item in value.items():
            own = before.get(key, _NEW)
            if item != own:
                yield from check(item, own, f"{path}[{key}]")

    return check_values


# --- rules ------------------------------------------------------------------------------------------------------------


def _rule(rule: str, type_: str) -> Check:
    """Return the check that a rule such as `maxItems=4` or `eachKey:format=k8s-short-name` stands for."""
    scope, inner, rest = rule.partition(":")
    if inner:
        return _SCOPES[scope](_rule(rest, schema.element(type_)))
    name, _, argument = rule.partition("=")
    return _RULES[name](argument, type_)


def _max_items(argument: str, _type: str) -> Check:
    limit = int(argument)

    def check(value: Any, _old: Any, path: str) -> Iterator[FieldError]:
        if len(value) > limit:
            yield errors.too_many(path, len(value), limit)

    return check


def _max_bytes(argument: str, _type: str) -> Check:
    limit = int(argument)

    def check(value: Any, _old: Any, path: str) -> Iterator[FieldError]:
        if len(value.encode()) > limit:
            yield errors.too_long(path, limit, "bytes")

    return check


def _max_length(argument: str, _type: str) -> Check:
    limit = int(argument)

    def check(value: Any, _old: Any, path: str) -> Iterator[FieldError]:
        if len(value) > limit:
            yield errors.too_long(path, limit, "characters")

    return check


def _unique(argument: str, type_: str) -> Check:
    keys = argument.split(",") if argument else []

    def check(value: Any, _old: Any, path: str) -> Iterator[FieldError]:
        seen = set()
        for index, item in enumerate(value):
            identity = _identity(item, keys) if keys else item
            if identity in seen:
                yield errors.duplicate(f"{path}[{index}]", schema.in_go_order(item, type_[2:]))
            seen.add(identity)

    return check


def _enum(argument: str, _type: str) -> Check:
    allowed = argument.split(",")

    def check(value: Any, _old: Any, path: str) -> Iterator[FieldError]:
        if value not in allowed:
            yield errors.unsupported(path, value, allowed)

    return check


def _format(argument: str, _type: str) -> Check:
    problems = FORMATS[argument]

    def check(value: Any, _old: Any, path: str) -> Iterator[FieldError]:
        return problems(path, value)

    return check


def _immutable(_argument: str, _type: str) -> Check:
    def check(_value: Any, old: Any, path: str) -> Iterator[FieldError]:
        if old is not _NEW:
            yield errors.invalid_value(path, None, "field is immutable")

    return check


def _update(argument: str, _type: str) -> Check:
    if argument != "NoModify":
        raise ValueError(f"no such constraint of updates: {argument}")

    def check(_value: Any, old: Any, path: str) -> Iterator[FieldError]:
        if old is not _NEW and old is not None:
            yield errors.invalid_value(path, None, "field cannot be modified once set")

    return check


_RULES: dict[str, Callable[[str, str], Check]] = {
    "maxItems": _max_items,
    "maxBytes": _max_bytes,
    "maxLength": _max_length,
    "unique": _unique,
    "enum": _enum,
    "format": _format,
    "immutable": _immutable,
    "update": _update,
}


def _keys_of(check: Check) -> Check:
    def check_keys(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        before = () if old is _NEW else old or ()
        for key in value:
            if key not in before:
                yield from check(key, _NEW, path)

    return check_keys


def _values_of(check: Check) -> Check:
    def check_each(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        before = () if old is _NEW else old or ()
        for index, item in enumerate(value):
            if item not in before:
                yield from check(item, _NEW, f"{path}[{index}]")

    return check_each


def _name_of(check: Check) -> Check:
    def check_name(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        name = value.get("name")
        if name and (old is _NEW or old.get("name") != name):
            yield from check(name, _NEW, f"{path}.name")

    return check_name


_SCOPES: dict[str, Callable[[Check], Check]] = {
    "eachKey": _keys_of,
    "eachVal": _values_of,
    "subfield(name)": _name_of,
}
