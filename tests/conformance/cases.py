"""Cases: expressions with what Kubernetes answers for them, and what we answer.

A case is a JSON object as `python -m conformance cel` reads it: with a `device`, it is a selector, and the
outcome is a match or an error; without one, it is an expression of any type, and the outcome is a value with
its type and its cost.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from dra_operator.api.versions import RELEASED, VERSIONS
from dra_operator.cel import values
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.times import NANOS, written_parts
from dra_operator.cel.program import Program, checked, compile_selector
from dra_operator.cel.run.meter import COST_LIMIT, Meter
from dra_operator.cel.types.environment import Environment
from dra_operator.cel.values import format_double

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from dra_operator.api.types import Device

_ANSWERS: Final = ("compileError", "error", "match", "value")
_FEATURES: Final = {
    "ConsumableCapacity": "consumable_capacity",
    "ListTypeAttributes": "list_type_attributes",
}
"""The features that selectors know, by upstream's names, with those of the environment."""


class CaseError(ValueError):
    """A case that cannot be read."""


def outcome(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return what we answer for a case; raises CaseError if it is none."""
    expression = case.get("expression")
    if not isinstance(expression, str):
        raise CaseError('a case has an "expression", a text')
    if not isinstance(case.get("expected", {}), Mapping):
        raise CaseError('"expected" is an object')
    environment = _environment(case)
    if "device" in case:
        return _selector_outcome(expression, environment, case)
    return _value_outcome(expression, environment)


def _environment(case: Mapping[str, Any]) -> Environment:
    expressions = case.get("env", "stored")
    version = case.get("kubernetes", RELEASED)
    if expressions not in ("stored", "new") or version not in VERSIONS:
        raise CaseError(f'"env" is stored or new, "kubernetes" {" or ".join(VERSIONS)}')
    features = case.get("features") or {}
    if not isinstance(features, Mapping) or not all(isinstance(on, bool) for on in features.values()):
        raise CaseError('"features" is an object of names with true or false')
    if unknown := sorted(set(features) - set(_FEATURES)):
        raise CaseError(f"unknown feature {unknown[0]!r}; known are {', '.join(_FEATURES)}")
    return Environment(
        version,
        expressions,
        **{argument: features.get(name, True) for name, argument in _FEATURES.items()},
    )


def _selector_outcome(expression: str, environment: Environment, case: Mapping[str, Any]) -> dict[str, Any]:
    device = _device(case["device"])
    try:
        selector = compile_selector(expression, environment)
    except CelError as error:
        return {"compileError": error.message}
    cost = {"maxCost": selector.program.estimate().high} if "maxCost" in case else {}
    try:
        return {"match": selector.match(device), **cost}
    except CelError as error:
        return {"error": error.message, **cost}


@cache
def _device_reader() -> "TypeAdapter[Device]":
    # Imported where a device is read: pydantic takes longer to import than all of CEL.
    from pydantic import TypeAdapter  # noqa: PLC0415

    from dra_operator.api.types import Device  # noqa: PLC0415

    return TypeAdapter(Device)


def _device(wire: Any) -> PreparedDevice:
    if not isinstance(wire, Mapping):
        raise CaseError('a "device" is an object')
    driver = wire.get("driver") or ""
    if not isinstance(driver, str):
        raise CaseError('"device.driver" is a text')
    reader = _device_reader()
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        device = reader.validate_python({key: wire[key] for key in wire if key != "driver"})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        path = ".".join(map(str, ("device", *problem["loc"])))
        raise CaseError(f"{path}: {problem['msg']}") from None
    return prepare_device(driver, device)


def _value_outcome(expression: str, environment: Environment) -> dict[str, Any]:
    try:
        tree = checked(expression, environment)
    except CelError as error:
        return {"compileError": error.message}
    kind = str(tree.result_type)
    try:
        program = Program(expression, tree, environment)
    except CelError as error:
        return {"outputType": kind, "compileError": error.message}
    meter = Meter(COST_LIMIT)
    try:
        value = program.evaluate(None, meter)
    except CelError as error:
        return {"outputType": kind, "error": error.message, "actualCost": meter.cost}
    try:
        shown = encoded(value)
    except RecursionError:
        raise CaseError("the value nests too deep to be written") from None
    return {
        "outputType": kind,
        "valueType": values.type_name(value),
        "value": shown,
        "actualCost": meter.cost,
    }


def differences(case: Mapping[str, Any], ours: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields in which our outcome is not the answer that the case carries; nothing if it carries none."""
    expected = case.get("expected", case)
    answered = [name for name in _ANSWERS if name in expected]
    if not answered:
        return ()
    if not all(name in ours for name in answered):
        return tuple(answered)
    compared = [name for name in ("match", "value", "valueType", "outputType") if name in expected]
    different = [name for name in compared if ours.get(name) != expected[name]]
    if "maxCost" in case and "compileError" not in ours and ours.get("maxCost") != case["maxCost"]:
        different.append("maxCost")
    if "actualCost" in case and not case.get("costVaries") and ours.get("actualCost") != case["actualCost"]:
        different.append("actualCost")
    return tuple(different)


def encoded(value: Any) -> Any:
    """Return a run-time value as JSON, with its type still visible, as the reference answers write it.

    A bool is a bool, a list a list, a map an object; everything else is text that starts with its type where it needs
    to: `"1"`, `"1u"`, `"d:1"`, `"s:text"`, `"b:00ff"`, `"type:int"`, `"kubernetes.Quantity:80Gi"`, `{"optional": ...}`.
    """
    kind = type(value)
    if kind is bool:
        return value
    if kind is tuple:
        return [encoded(element) for element in value]
    if isinstance(value, values.CelMap):
        return {_key(encoded(key)): encoded(item) for key, item in value.items()}
    if kind is values.Optional_:
        return {"optional": "none" if value.value is values.MISSING else encoded(value.value)}
    return _text(value)


def _key(shown: Any) -> str:
    """Return an encoded key as text; what is no text is shown as Go prints it."""
    if isinstance(shown, dict):
        return f"map[{' '.join(f'{key}:{_key(shown[key])}' for key in sorted(shown))}]"
    if isinstance(shown, list):
        return f"[{' '.join(map(_key, shown))}]"
    return shown if isinstance(shown, str) else str(shown).lower()


def _text(value: Any) -> str:
    kind = type(value)
    if value is None:
        return "null"
    if kind is int:
        return str(value)
    if kind is values.Uint:
        return f"{int(value)}u"
    if kind is float:
        return f"d:{format_double(value)}"
    if kind is str:
        return f"s:{value}"
    if kind is bytes:
        return f"b:{value.hex()}"
    if kind is values.TypeValue:
        return f"type:{value.name}"
    if kind is values.Duration:
        return f"{values.type_name(value)}:{duration_text(value)}"
    if kind is values.Timestamp:
        return f"{values.type_name(value)}:{_moment(value)}"
    return f"{values.type_name(value)}:{value}"


def _moment(value: values.Timestamp) -> str:
    """Return a moment as Go prints it, e.g. `2020-01-01 00:00:00 +0000 UTC`."""
    date, time, zone = written_parts(value)
    offset = zone.replace(":", "")
    return f"{date} {time} {offset} {offset if value.offset else 'UTC'}"


def duration_text(duration: values.Duration) -> str:
    """Return a duration as Go prints it, e.g. `1h0m0s`. Source: Go `Duration.String`."""
    nanos = abs(duration.nanos)
    sign = "-" if duration.nanos < 0 else ""
    if nanos == 0:
        return "0s"
    for unit, name in ((1000, "ns"), (10**6, "\u00b5s"), (NANOS, "ms")):
        if nanos < unit:
            return sign + _decimal(nanos, unit // 1000) + name
    minutes, rest = divmod(nanos, 60 * NANOS)
    seconds = _decimal(rest, NANOS) + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    fraction = str(unit + rest)[1:].rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
