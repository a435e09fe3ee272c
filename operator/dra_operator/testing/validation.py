"""Validation: what the Go structs declare of values, and what keeps writers of claims apart, in upstream's words.

Each function yields the fields it refuses; none changes anything. Bodies are in the stored shape. What names and other
texts must look like, and what Go code asks of specs, is not asked here: a real API server does, and tests/real.
Source: the tags in k8s.io/api (tests/testing/go_rules.py); pkg/apis/resource/validation of 1.37.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from dra_operator.api.fields import element, types
from dra_operator.testing import errors, schema, store
from dra_operator.testing.errors import FieldError
from dra_operator.testing.resources import Resource
from dra_operator.testing.strategy import allocated_devices

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
    shown = store.from_stored(body, resource, version)
    before = _NEW if old is None else store.from_stored(old, resource, version)
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
        for name, field in types()[struct].items()
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
    has_zero = not type_.startswith("*") and type_ not in types()

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
    check = _struct(element(type_))
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

_Rule = Callable[[str, str, Any, Any, str], Iterable[FieldError]]
"""Takes a rule's argument, the type of the field, its value, what it was before and its path."""


def _rule(rule: str, type_: str) -> Check:
    """Return the check that a rule such as `maxItems=4` or `eachVal:enum=a,b` stands for."""
    scope, inner, rest = rule.partition(":")
    if inner:
        assert scope == "eachVal"
        return _values_of(_rule(rest, element(type_)))
    name, _, argument = rule.partition("=")
    judge = _RULES[name]
    return lambda value, old, path: iter(judge(argument, type_, value, old, path))


def _max_items(limit: str, _type: str, value: Any, _old: Any, path: str) -> Iterable[FieldError]:
    return [errors.too_many(path, len(value), int(limit))] if len(value) > int(limit) else ()


def _max_bytes(limit: str, _type: str, value: Any, _old: Any, path: str) -> Iterable[FieldError]:
    return [errors.too_long(path, int(limit), "bytes")] if len(value.encode()) > int(limit) else ()


def _max_length(limit: str, _type: str, value: Any, _old: Any, path: str) -> Iterable[FieldError]:
    return [errors.too_long(path, int(limit), "characters")] if len(value) > int(limit) else ()


def _unique(keys: str, type_: str, value: Any, _old: Any, path: str) -> Iterable[FieldError]:
    seen = set()
    for index, item in enumerate(value):
        identity = _identity(item, keys.split(",")) if keys else item
        if identity in seen:
            yield errors.duplicate(f"{path}[{index}]", schema.in_go_order(item, type_[2:]))
        seen.add(identity)


def _enum(allowed: str, _type: str, value: Any, _old: Any, path: str) -> Iterable[FieldError]:
    return () if value in allowed.split(",") else [errors.unsupported(path, value, allowed.split(","))]


def _immutable(_argument: str, _type: str, _value: Any, old: Any, path: str) -> Iterable[FieldError]:
    return () if old is _NEW else [errors.invalid_value(path, None, "field is immutable")]


def _no_modify(_argument: str, _type: str, _value: Any, old: Any, path: str) -> Iterable[FieldError]:
    is_set = old is not _NEW and old is not None
    return [errors.invalid_value(path, None, "field cannot be modified once set")] if is_set else ()


_RULES: dict[str, _Rule] = {
    "maxItems": _max_items,
    "maxBytes": _max_bytes,
    "maxLength": _max_length,
    "unique": _unique,
    "enum": _enum,
    "immutable": _immutable,
    "update": _no_modify,
}


def _values_of(check: Check) -> Check:
    def check_each(value: Any, old: Any, path: str) -> Iterator[FieldError]:
        before = () if old is _NEW else old or ()
        for index, item in enumerate(value):
            if item not in before:
                yield from check(item, _NEW, f"{path}[{index}]")

    return check_each


_IMMUTABLE = "field is immutable"


def metadata_errors(metadata: Body) -> list[FieldError]:
    """Return what is wrong with the metadata of an object: that it has no name."""
    return (
        [] if metadata.get("name") else [errors.required("metadata.name", "name or generateName is required")]
    )


def metadata_update_errors(metadata: Body, old: Body) -> list[FieldError]:
    """Return what an update may not change in the metadata."""
    found = []
    if metadata.get("uid", old["uid"]) != old["uid"]:
        found.append(errors.invalid_value("metadata.uid", metadata["uid"], _IMMUTABLE))
    if "deletionTimestamp" in old:
        added = [
            name for name in metadata.get("finalizers") or () if name not in (old.get("finalizers") or ())
        ]
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            why = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{shown}}}"
            )
            found.append(errors.forbidden_field("metadata.finalizers", why))
    return found


# --- kinds ----------------------------------------------------------------------------------------------------------


def update_errors(resource: Resource, body: Body, old: Body) -> list[FieldError]:
    """Return what is wrong with a changed object."""
    match resource.kind:
        case "ResourceClaim":
            return []
        case "ResourceClaimTemplate":
            return _unchanged("spec", body["spec"], old["spec"])
        case "ResourceSlice":
            spec, before = body["spec"], old["spec"]
            changed = _unchanged("spec.pool.name", spec["pool"]["name"], before["pool"]["name"])
            changed += _unchanged("spec.driver", spec["driver"], before["driver"])
            changed += _unchanged("spec.nodeName", spec.get("nodeName"), before.get("nodeName"))
            return changed
    return []


def _unchanged(field: str, value: Any, old: Any) -> list[FieldError]:
    return [] if value == old else [errors.invalid_value(field, value, _IMMUTABLE)]


# --- the status of a claim ------------------------------------------------------------------------------------------


def status_errors(resource: Resource, body: Body, old: Body) -> list[FieldError]:
    """Return what is wrong with a changed status."""
    if resource.kind != "ResourceClaim":
        return []
    return list(_claim_status(body, old))


def _claim_status(body: Body, old: Body) -> Iterator[FieldError]:
    status, before = body["status"], old["status"]
    deleting = "deletionTimestamp" in old["metadata"]
    devices = allocated_devices(status)
    for index, device in enumerate(status.get("devices") or ()):
        if (device["driver"], device["pool"], device["device"], device.get("shareID", "")) not in devices:
            shown = {name: device[name] for name in ("driver", "pool", "device")}
            yield errors.invalid_value(
                f"status.devices[{index}]", shown, "must be an allocated device in the claim"
            )
    yield from _reserved_for(status, before, deleting=deleting)


def _reserved_for(status: Body, before: Body, *, deleting: bool) -> Iterator[FieldError]:
    consumers = status.get("reservedFor") or ()
    if not consumers:
        return
    if status.get("allocation") is None:
        yield errors.forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set")
        return
    added = [consumer for consumer in consumers if consumer not in (before.get("reservedFor") or ())]
    if deleting and added:
        yield errors.forbidden_field(
            "status.reservedFor",
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )
