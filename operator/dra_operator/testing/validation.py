"""Validation: what the Go structs declare of values, and the rules that people meet, in upstream's words.

Each function yields the fields it refuses; none changes anything. Bodies are in the stored shape. What is declared is
not said again: upstream leaves its own words out where a declared rule refuses the same.
Source: the tags in k8s.io/api (tests/testing/go_rules.py); pkg/apis/resource/validation and ValidateObjectMeta of 1.37.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from dra_operator.api.fields import element, types
from dra_operator.api.validation.names import (
    DOMAIN,
    SUBDOMAIN,
    VALUE,
    Rule,
    problems_of_label,
    problems_of_qualified_name,
)
from dra_operator.testing import errors, schema, store
from dra_operator.testing.errors import FieldError
from dra_operator.testing.resources import Resource
from dra_operator.testing.strategy import allocated_devices

Format = Callable[[str, str], Iterator[FieldError]]
"""Takes the path of a text, and the text."""

_ANY_CASE = Rule(
    DOMAIN,
    253,
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    "Example.com",
)
_IDENTIFIER = Rule(
    "[A-Za-z_][A-Za-z0-9_]*",
    10**9,  # its length is judged in other words
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    "my_name",
    "MY_NAME",
    "MyName",
)
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST_IDENTIFIER = 32
_LONGEST_DOMAIN = 63
_LONGEST_POOL = 253


def _whole(problems: Callable[[str], Iterable[str]]) -> Format:
    """Return the format that finds problems in a text as a whole."""

    def check(path: str, text: str) -> Iterator[FieldError]:
        return (errors.invalid_value(path, text, problem) for problem in problems(text))

    return check


def _uuid(text: str) -> Iterator[str]:
    if not _UUID.fullmatch(text):
        yield "must be a lowercase UUID in 8-4-4-4-12 format"


def _extended_resource(text: str) -> Iterator[str]:
    if "/" not in text:
        yield "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    elif "kubernetes.io/" in text:
        yield 'must not have "kubernetes.io/" domain'
    if text.startswith("requests."):
        yield 'must not have "requests." prefix'
    yield from problems_of_qualified_name(f"requests.{text}")


def _pool(path: str, text: str) -> Iterator[FieldError]:
    if len(text.encode()) > _LONGEST_POOL:
        yield errors.too_long(path, _LONGEST_POOL, "bytes")
    for index, segment in enumerate(text.split("/")):
        if not segment:
            yield errors.invalid_value(path, text, f"segment {index}: must not be empty")
            continue
        for problem in SUBDOMAIN.problems(segment):
            yield errors.invalid_value(path, segment, f"segment {index}: {problem}")


def _fully_qualified(path: str, text: str) -> Iterator[FieldError]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        # Upstream looks at no part of such a name.
        return
    if slash and not prefix:
        yield errors.invalid_value(path, "", "prefix must not be empty")
    elif slash:
        if len(prefix.encode()) > _LONGEST_DOMAIN:
            yield errors.too_long(path, _LONGEST_DOMAIN, "bytes")
        for problem in SUBDOMAIN.problems(prefix):
            yield errors.invalid_value(path, prefix, f"prefix: {problem}")
    if slash and not name:
        yield errors.invalid_value(path, "", "name must not be empty")
    else:
        if len(name.encode()) > _LONGEST_IDENTIFIER:
            yield errors.too_long(path, _LONGEST_IDENTIFIER, "bytes")
        for problem in _IDENTIFIER.problems(name):
            yield errors.invalid_value(path, name, problem)
    if not slash:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        yield errors.invalid_value(path, text, why)


FORMATS: dict[str, Format] = {
    "k8s-short-name": _whole(problems_of_label),
    "k8s-long-name": _whole(SUBDOMAIN.problems),
    "k8s-long-name-caseless": _whole(lambda text: _ANY_CASE.problems(text.lower())),
    "k8s-label-key": _whole(problems_of_qualified_name),
    "k8s-uuid": _whole(_uuid),
    "k8s-extended-resource-name": _whole(_extended_resource),
    "k8s-resource-pool-name": _pool,
    "k8s-resource-fully-qualified-name": _fully_qualified,
}
"""By the names that the tags use."""


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
    """Return the check that a rule such as `maxItems=4` or `eachKey:format=k8s-short-name` stands for."""
    scope, inner, rest = rule.partition(":")
    if inner:
        return _SCOPES[scope](_rule(rest, element(type_)))
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


def _format(name: str, _type: str, value: Any, _old: Any, path: str) -> Iterable[FieldError]:
    return FORMATS[name](path, value)


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
    "format": _format,
    "immutable": _immutable,
    "update": _no_modify,
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


_IMMUTABLE = "field is immutable"
_MAX_REQUESTS = 32
_MAX_DRIVER = 63
_MAX_CONDITIONS = 4
_NAMES_DECLARED = frozenset({"DeviceClass"})


# --- names ----------------------------------------------------------------------------------------------------------


def _dns_label(field: str, value: str) -> Iterator[FieldError]:
    return _invalid(field, value, problems_of_label(value, "characters"))


def _dns_subdomain(field: str, value: str) -> Iterator[FieldError]:
    return _invalid(field, value, SUBDOMAIN.problems(value, "characters"))


def _driver(field: str, value: str) -> Iterator[FieldError]:
    if not value:
        yield errors.required(field)
        return
    if len(value.encode()) > _MAX_DRIVER:
        yield errors.too_long(field, _MAX_DRIVER, "bytes")
    yield from _invalid(field, value, SUBDOMAIN.problems(value.lower(), "characters"))


def _qualified_name(field: str, value: str) -> Iterator[FieldError]:
    return _invalid(field, value, problems_of_qualified_name(value))


def _invalid(field: str, value: str, problems: Iterable[str]) -> Iterator[FieldError]:
    return (errors.invalid_value(field, value, problem) for problem in problems)


def metadata_errors(resource: Resource, metadata: Body) -> list[FieldError]:
    """Return what is wrong with the name, the labels and the finalizers of an object."""
    name = metadata.get("name", "")
    found: list[FieldError] = []
    if not name:
        found.append(errors.required("metadata.name", "name or generateName is required"))
    elif resource.kind == "Namespace":
        found.extend(_dns_label("metadata.name", name))
    elif resource.kind not in _NAMES_DECLARED:
        found.extend(_dns_subdomain("metadata.name", name))
    for key, value in (metadata.get("labels") or {}).items():
        found.extend(_qualified_name("metadata.labels", key))
        found.extend(_invalid("metadata.labels", value, VALUE.problems(value)))
    for finalizer in metadata.get("finalizers") or ():
        found.extend(_qualified_name("metadata.finalizers", finalizer))
    return found


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


def create_errors(resource: Resource, body: Body) -> list[FieldError]:
    """Return what is wrong with a new object."""
    judge = _KINDS.get(resource.kind)
    return [] if judge is None else list(judge(body))


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
            return [*_slice(spec), *changed]
    return create_errors(resource, body)


def _unchanged(field: str, value: Any, old: Any) -> list[FieldError]:
    return [] if value == old else [errors.invalid_value(field, value, _IMMUTABLE)]


def _claim_spec(spec: Body, path: str) -> Iterator[FieldError]:
    devices = spec["devices"]
    requests, constraints = devices.get("requests") or (), devices.get("constraints") or ()
    for index, request in enumerate(requests if len(requests) <= _MAX_REQUESTS else ()):
        yield from _request(request, f"{path}.devices.requests[{index}]", constraints)
    known = set(_request_names(requests))
    for part in ("constraints", "config"):
        for index, item in enumerate(devices.get(part) or ()):
            at = f"{path}.devices.{part}[{index}]"
            yield from _unknown(item.get("requests") or (), known, f"{at}.requests")
            if part == "constraints" and item.keys().isdisjoint(_ATTRIBUTES):
                why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
                yield errors.required(at, why)


_ATTRIBUTES = ("matchAttribute", "distinctAttribute")


def _unknown(names: Iterable[str], known: Collection[str], path: str) -> Iterator[FieldError]:
    for position, name in enumerate(names):
        if name not in known:
            yield errors.invalid_value(f"{path}[{position}]", name, _UNKNOWN_REQUEST)


_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _request_names(requests: Sequence[Body]) -> Iterator[str]:
    for request in requests:
        yield request["name"]
        for alternative in request.get("firstAvailable") or ():
            yield f"{request['name']}/{alternative['name']}"


def _request(request: Body, at: str, constraints: Sequence[Body]) -> Iterator[FieldError]:
    name = request["name"]
    yield from _dns_label(f"{at}.name", name)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield errors.invalid_value(at, None, why)
    elif exactly is None and not alternatives:
        yield errors.required(at, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None:
        if exactly["deviceClassName"]:
            yield from _dns_subdomain(f"{at}.exactly.deviceClassName", exactly["deviceClassName"])
        else:
            yield errors.required(f"{at}.exactly.deviceClassName")
        yield from _wanted(exactly, f"{at}.exactly", _constrained(constraints, {name}))
    else:
        for index, alternative in enumerate(alternatives or ()):
            below = f"{at}.firstAvailable[{index}]"
            yield from _dns_label(f"{below}.name", alternative["name"])
            full_name = f"{name}/{alternative['name']}"
            yield from _wanted(alternative, below, _constrained(constraints, {name, full_name}))


def _constrained(constraints: Sequence[Body], names: set[str]) -> set[str]:
    """Return the attributes that constraints on a request of these names refer to."""
    return {
        attribute
        for constraint in constraints
        if not constraint.get("requests") or not names.isdisjoint(constraint["requests"])
        for attribute in [next((constraint[name] for name in _ATTRIBUTES if name in constraint), "")]
    }


def _wanted(wanted: Body, at: str, constrained: set[str]) -> Iterator[FieldError]:
    yield from _selectors(wanted.get("selectors") or (), f"{at}.selectors")
    yield from _derived(wanted.get("derivedAttributes") or (), f"{at}.derivedAttributes", constrained)
    mode, count = wanted.get("allocationMode", ""), wanted.get("count", 0)
    if mode == "All" and count:
        yield errors.invalid_value(f"{at}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield errors.invalid_value(f"{at}.count", count, "must be greater than zero")
    yield from _tolerations(wanted, at)


def _tolerations(tolerating: Body, at: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerating.get("tolerations") or ()):
        value, below = toleration.get("value", ""), f"{at}.tolerations[{index}].value"
        if toleration.get("operator") == "Equal":
            yield from _invalid(below, value, VALUE.problems(value))
        elif toleration.get("operator") == "Exists" and value:
            yield errors.invalid_value(below, value, "must be empty for operator `Exists`")


_UNUSED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)


def _derived(attributes: Sequence[Body], at: str, constrained: set[str]) -> Iterator[FieldError]:
    for index, attribute in enumerate(attributes):
        if attribute["name"] and attribute["name"] not in constrained:
            yield errors.invalid_value(f"{at}[{index}].name", attribute["name"], _UNUSED)
    yield from _duplicates([attribute["name"] for attribute in attributes], at)


def _duplicates(names: Iterable[str], at: str) -> Iterator[FieldError]:
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            yield errors.duplicate(f"{at}[{index}]", name)
        seen.add(name)


def _selectors(selectors: Sequence[Body], at: str) -> Iterator[FieldError]:
    for index, selector in enumerate(selectors):
        if selector.get("cel") is None:
            yield errors.required(f"{at}[{index}].cel")
        elif not selector["cel"].get("expression"):
            yield errors.required(f"{at}[{index}].cel.expression")


def _slice(spec: Body) -> Iterator[FieldError]:
    yield from _driver("spec.driver", spec["driver"])
    pool = spec["pool"]
    if not pool["name"]:
        yield errors.required("spec.pool.name")
    if pool["resourceSliceCount"] <= 0:
        yield errors.invalid_value(
            "spec.pool.resourceSliceCount", pool["resourceSliceCount"], "must be greater than zero"
        )
    if pool["generation"] < 0:
        yield errors.invalid_value(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )
    yield from _one_node_field(spec)
    devices = spec.get("devices") or ()
    for index, device in enumerate(devices):
        at = f"spec.devices[{index}]"
        yield from _dns_label(f"{at}.name", device["name"])
        for number, taint in enumerate(device.get("taints") or ()):
            yield from _qualified_name(f"{at}.taints[{number}].key", taint.get("key", ""))
        yield from _binding(device, at)
    yield from _duplicates([device["name"] for device in devices], "spec.devices")
    yield from _skipped(spec, "spec")


def _binding(bound: Body, at: str) -> Iterator[FieldError]:
    """Conditions of binding are label keys; those of success and of failure need each other, and differ."""
    lists = {name: bound.get(name) or () for name in ("bindingConditions", "bindingFailureConditions")}
    for name, conditions in lists.items():
        for index, condition in enumerate(conditions if len(conditions) <= _MAX_CONDITIONS else ()):
            yield from _qualified_name(f"{at}.{name}[{index}]", condition)
    good, bad = lists.values()
    yield from _duplicates(good, f"{at}.bindingConditions")
    seen = set()
    for index, condition in enumerate(bad):
        below = f"{at}.bindingFailureConditions[{index}]"
        if condition in seen:
            yield errors.duplicate(below, condition)
        seen.add(condition)
        if condition in good:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            yield errors.invalid_value(below, condition, why)
    for name, needed in (tuple(lists), tuple(lists)[::-1]):
        if lists[needed] and not lists[name]:
            yield errors.invalid_value(f"{at}.{name}", None, f"{name} are required to use {needed}")


def _skipped(skipping: Body, at: str) -> Iterator[FieldError]:
    """What was prepared on a node must be undone there."""
    skipped = skipping.get("skipNodeOperations") or ()
    if "NodePrepareResources" in skipped and not {"NodeUnprepareResources", "*"} & set(skipped):
        why = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        yield errors.invalid_value(f"{at}.skipNodeOperations", skipped, why)


def _one_node_field(spec: Body) -> Iterator[FieldError]:
    names = ("nodeName", "perDeviceNodeSelection", "nodeSelector", "allNodes")
    given = [name for name in names if spec.get(name)]
    choice = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if len(given) > 1:
        shown = ", ".join(f"`{name}`" for name in given)
        yield errors.invalid_value("spec", f"{{{shown}}}", f"{choice}, but multiple fields are set")
    elif not given:
        yield errors.required("spec", choice)


def _pod(spec: Body) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield errors.required("spec.containers")
    for index, container in enumerate(spec.get("containers") or ()):
        for name in ("name", "image"):
            if not container.get(name):
                yield errors.required(f"spec.containers[{index}].{name}")


def _event(body: Body) -> Iterator[FieldError]:
    about = body["involvedObject"].get("namespace", "")
    own = body["metadata"].get("namespace", "")
    if own != (about or "default"):
        yield errors.invalid_value("involvedObject.namespace", about, "does not match event.namespace")


_KINDS: dict[str, Callable[[Body], Iterator[FieldError]]] = {
    "ResourceClaim": lambda body: _claim_spec(body["spec"], "spec"),
    "ResourceClaimTemplate": lambda body: _claim_spec(body["spec"]["spec"], "spec.spec"),
    "ResourceSlice": lambda body: _slice(body["spec"]),
    "DeviceTaintRule": lambda body: _qualified_name("spec.taint.key", body["spec"]["taint"].get("key", "")),
    "DeviceClass": lambda body: _selectors(body["spec"].get("selectors") or (), "spec.selectors"),
    "Pod": lambda body: _pod(body["spec"]),
    "Event": _event,
}

# --- the status of a claim ------------------------------------------------------------------------------------------


def status_errors(resource: Resource, body: Body, old: Body) -> list[FieldError]:
    """Return what is wrong with a changed status."""
    if resource.kind != "ResourceClaim":
        return []
    return list(_claim_status(body, old))


def _claim_status(body: Body, old: Body) -> Iterator[FieldError]:
    status, before = body["status"], old["status"]
    allocation, allocated = status.get("allocation"), before.get("allocation")
    deleting = "deletionTimestamp" in old["metadata"]
    devices = allocated_devices(status)
    for index, device in enumerate(status.get("devices") or ()):
        if (device["driver"], device["pool"], device["device"], device.get("shareID", "")) not in devices:
            shown = {name: device[name] for name in ("driver", "pool", "device")}
            yield errors.invalid_value(
                f"status.devices[{index}]", shown, "must be an allocated device in the claim"
            )
    yield from _reserved_for(status, before, deleting=deleting)
    known = set(_request_names(body["spec"]["devices"].get("requests") or ()))
    if allocation is not None and allocated is None:
        for index, result in enumerate(allocation["devices"].get("results") or ()):
            yield from _result(result, known, f"status.allocation.devices.results[{index}]")


def _result(result: Body, known: set[str], at: str) -> Iterator[FieldError]:
    if result["request"] not in known:
        yield errors.invalid_value(f"{at}.request", result["request"], _UNKNOWN_REQUEST)
    yield from _dns_label(f"{at}.device", result["device"])
    yield from _binding(result, at)
    yield from _tolerations(result, at)
    yield from _skipped(result, at)


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
