"""Times cel-python in the same way as bench/upstream: it reads selectors and devices, and writes times.

It lacks the types of Kubernetes; here, versions and quantities are strings with their parsed values attached.
Each runner needs its own process, because the interpreting and the compiling runner break each other.
"""

import json
import sys
import time
from typing import Any

import celpy
import celpy.evaluation
from celpy import celtypes

from dra_operator.api.quantity import parse_quantity
from dra_operator.api.semver import parse_semver

COMPILED = 3
"""How often each selector is compiled; the least time counts."""


class Opaque(celtypes.StringType):
    """A text with what it was parsed to."""

    parsed: Any


def _opaque(text: Any, parsed: Any) -> Opaque:
    value = Opaque(text)
    value.parsed = parsed
    return value


def quantity(text: Any) -> Opaque:
    """Return an amount."""
    return _opaque(text, parse_quantity(str(text)).nano)


def semver(text: Any) -> Opaque:
    """Return a version."""
    return _opaque(text, parse_semver(str(text)).key)


def compareTo(left: Any, right: Any) -> celtypes.IntType:  # noqa: N802 - the runners find a function by its name in CEL
    """Return -1, 0 or 1."""
    return celtypes.IntType((left.parsed > right.parsed) - (left.parsed < right.parsed))


def isGreaterThan(left: Any, right: Any) -> celtypes.BoolType:  # noqa: N802 - as above
    """Return whether the first is greater."""
    return celtypes.BoolType(left.parsed > right.parsed)


FUNCTIONS = {"quantity": quantity, "semver": semver, "compareTo": compareTo, "isGreaterThan": isGreaterThan}
RUNNERS = {"interpreted": celpy.InterpretedRunner, "compiled": celpy.CompiledRunner}


def device(wire: dict[str, Any]) -> celtypes.MapType:
    """Return a device as cel-python sees it."""
    text = celtypes.StringType
    kinds = {"string": text, "int": celtypes.IntType, "bool": celtypes.BoolType, "version": semver}
    driver = wire["driver"]
    attributes: dict[str, celtypes.MapType] = {}
    for name, union in wire["attributes"].items():
        domain, identity = name.split("/") if "/" in name else (driver, name)
        ((kind, value),) = union.items()
        attributes.setdefault(domain, celtypes.MapType())[text(identity)] = kinds[kind](value)
    amounts = {text(name): quantity(amount["value"]) for name, amount in wire["capacity"].items()}
    return celtypes.MapType(
        {
            text("driver"): text(driver),
            text("attributes"): celtypes.MapType({text(key): value for key, value in attributes.items()}),
            text("capacity"): celtypes.MapType({text(driver): celtypes.MapType(amounts)}),
        }
    )


def main(runner: str) -> None:
    """Answer what stands in stdin."""
    # Code made by the compiled runner looks for functions in that module, under the name of theirs.
    vars(celpy.evaluation)[__name__] = sys.modules[__name__]
    rows = [json.loads(line) for line in sys.stdin]
    activations = [{"device": device(row["device"])} for row in rows if "device" in row]
    environment = celpy.Environment(runner_class=RUNNERS[runner])
    for expression in [row["expression"] for row in rows if "expression" in row]:
        compiling = []
        for _ in range(COMPILED):
            started = time.perf_counter_ns()
            program = environment.program(environment.compile(expression), FUNCTIONS)
            compiling.append(time.perf_counter_ns() - started)
        started = time.perf_counter_ns()
        matches = sum([bool(program.evaluate(each)) for each in activations])
        taken = (time.perf_counter_ns() - started) / len(activations)
        answer = {
            "expression": expression,
            "matches": matches,
            "evaluationNanoseconds": taken,
            "compileNanoseconds": min(compiling),
        }
        print(json.dumps(answer), flush=True)
