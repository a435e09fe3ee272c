"""Expressions: what the API server refuses of those that are new to it, and the allocator would not tell.

The operator evaluates what is stored, whatever it could cost, and compiles a derived attribute only when a constraint
asks for it on a device. Of a selector that does not compile the reason of the claim says enough.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateCELExpression` and `validateDeviceClaim`.
"""

from collections.abc import Iterable, Iterator, Sequence

from dra_operator.api.core import Metadata
from dra_operator.api.refused import Refusal
from dra_operator.api.refused_derived import all_derived
from dra_operator.api.types import (
    DeviceClaim,
    DeviceClass,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_operator.cel import (
    CelError,
    Environment,
    Program,
    compile_derived_attribute,
    compile_program,
)
from dra_operator.cel.advice.diagnostics import describe
from dra_operator.cel.costs.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES

_NEW = Environment(expressions="new")

_TOO_COMPLEX = f"can cost more than the {COST_LIMIT:,} that are admitted: write it more simply"
_TOO_COMPLEX_TOGETHER = (
    f"derived attributes can cost more than {COST_LIMIT:,} together: write them more simply"
)


def find_refused_expressions(obj: object) -> Iterator[Refusal]:
    """Yield what is refused of the expressions of a class, a claim or a template that no API server has taken yet."""
    match obj:
        case DeviceClass(metadata=Metadata(uid="")):
            yield from _selectors(obj.spec.selectors, "spec.selectors")
        case ResourceClaim(metadata=Metadata(uid="")) if obj.status.allocation is None:
            yield from _claim(obj.spec.devices, "spec.devices")
        case ResourceClaimTemplate(metadata=Metadata(uid="")):
            yield from _claim(obj.spec.spec.devices, "spec.spec.devices")
        case _:
            pass


def _claim(devices: DeviceClaim, path: str) -> Iterator[Refusal]:
    for number, request in enumerate(devices.requests):
        at = f"{path}.requests[{number}]"
        if request.exactly is not None:
            yield from _selectors(request.exactly.selectors, f"{at}.exactly.selectors")
        for index, item in enumerate(request.first_available):
            yield from _selectors(item.selectors, f"{at}.firstAvailable[{index}].selectors")
    yield from _derived(devices, path)


def _selectors(selectors: Iterable[DeviceSelector], path: str) -> Iterator[Refusal]:
    for index, selector in enumerate(selectors):
        if selector.cel is None or not _is_looked_at(selector.cel.expression):
            continue
        try:
            program = compile_program(selector.cel.expression, _NEW)
        except CelError:
            continue
        yield from _too_complex(program, f"{path}[{index}].cel.expression")


def _derived(devices: DeviceClaim, path: str) -> Iterator[Refusal]:
    found: list[Refusal] = []
    total = 0
    for place, _, attributes in all_derived(devices, path):
        for index, item in enumerate(attributes):
            at = f"{place}[{index}].expression"
            if not _is_looked_at(item.expression):
                continue
            try:
                program = compile_derived_attribute(item.expression, _NEW).program
            except CelError as error:
                found.append(Refusal(at, None, describe(item.expression, error, environment=_NEW)))
                continue
            total += program.estimate().high
            found += _too_complex(program, at)
    if total > COST_LIMIT and not found:
        found.append(Refusal(path, None, _TOO_COMPLEX_TOGETHER))
    yield from found


def _too_complex(program: Program, path: str) -> Sequence[Refusal]:
    return () if program.estimate().high <= COST_LIMIT else (Refusal(path, None, _TOO_COMPLEX),)


def _is_looked_at(expression: str) -> bool:
    """True if there is something to compile, and not too much."""
    return 0 < len(expression.encode(errors="surrogatepass")) <= MAX_BYTES
