"""Expressions: what the API server refuses of those that are new to it, and the allocator would not tell.

The operator evaluates what is stored, whatever it could cost, and compiles a derived attribute only when a constraint
asks for it on a device. Of a selector that does not compile the reason of the claim says enough.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateCELExpression` and `validateDeviceClaim`.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

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
    compile_derived_attribute,
    compile_program,
)
from dra_operator.cel.advice.diagnostics import describe
from dra_operator.cel.costs.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES

_NEW = Environment(expressions="new")
_MOST_KEPT = 4096

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
        if selector.cel is not None and _is_too_complex(selector.cel.expression):
            yield Refusal(f"{path}[{index}].cel.expression", None, _TOO_COMPLEX)


# Of thousands of claims in a file, most ask for the same.
@lru_cache(maxsize=_MOST_KEPT)
def _is_too_complex(selector: str) -> bool:
    if not _is_looked_at(selector):
        return False
    try:
        return compile_program(selector, _NEW).estimate().high > COST_LIMIT
    except CelError:
        return False


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
            cost = program.estimate().high
            total += cost
            if cost > COST_LIMIT:
                found.append(Refusal(at, None, _TOO_COMPLEX))
    if total > COST_LIMIT and not found:
        found.append(Refusal(path, None, _TOO_COMPLEX_TOGETHER))
    yield from found


def _is_looked_at(expression: str) -> bool:
    """True if there is something to compile, and not too much."""
    return 0 < len(expression.encode(errors="surrogatepass")) <= MAX_BYTES
