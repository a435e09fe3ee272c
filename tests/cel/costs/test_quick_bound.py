"""What is called simple costs no more than is said."""

import random
from pathlib import Path

import pytest

from celfuzz import Expressions
from celfuzz.expressions import CORPUS, reference_expressions
from dra_operator.cel import STORED, CelError, compile_program
from dra_operator.cel.costs.quick_bound import most
from dra_operator.cel.program import checked

REFERENCE = Path(__file__).parents[3] / "../shared/data/cel"
TYPICAL = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "h100"',
    'device.attributes["gpu.example.com"].model in ["h100", "h200"] && !(device.attributes["a"].i > 3)',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.3"))',
    'device.attributes["gpu.example.com"]["uuid"].startsWith("GPU-1") || device.allowMultipleAllocations == true',
    f'device.attributes["gpu.example.com"].uuid.contains("{91 * "a"}") || device.driver.contains("x")',
    'has(device.attributes["gpu.example.com"].numa) && device.attributes["gpu.example.com"].numa == 0',
)
OTHERS = (
    'device.attributes["gpu.example.com"].model.matches("a+")',
    'device.attributes["gpu.example.com"].model + "a" == "ba"',
    "[1, 2].all(x, x > 0)",
    'device.capacity["gpu.example.com"].memory != quantity("1Gi")',
    'quantity(string(b"1")) == quantity("1")',
    'device.attributes["gpu.example.com"].model in [device.driver]',
    'device.attributes[device.driver].model == "h100"',
    'device.attributes["gpu.example.com"].roots[0] == device.attributes["gpu.example.com"].roots[1]',
    'device.attributes["gpu.example.com"].model.startsWith(device.attributes["gpu.example.com"].roots[0])',
    'device.attributes["gpu.example.com"].model.contains(device.driver)',
    'device.attributes["gpu.example.com"].roots[0].contains("a")',
)


@pytest.mark.parametrize("expression", TYPICAL)
def test_comparisons_with_constants_are_simple(expression: str) -> None:
    """The selectors that people write need no estimate."""
    simply = most(checked(expression, STORED).expr, len(expression))

    assert simply is not None
    assert compile_program(expression).estimate().high <= simply < 1000


@pytest.mark.parametrize("expression", OTHERS)
def test_what_may_cost_more_is_not_simple(expression: str) -> None:
    """Folds, patterns, values that are made, and sizes that nothing limits are left to the estimate."""
    assert most(checked(expression, STORED).expr, len(expression)) is None


def test_the_estimate_is_never_above() -> None:
    """Of random expressions, and of the reference answers where they are, none can cost more than `most` says."""
    source = Expressions(random.Random(5))  # noqa: S311
    known = (*CORPUS, *reference_expressions(REFERENCE))
    simple = 0
    for expression in (*known, *(source.expression() for _ in range(1500))):
        try:
            program = compile_program(expression)
        except CelError:
            continue
        simply = most(checked(expression, STORED).expr, len(expression))
        if simply is not None:
            simple += 1
            assert program.estimate().high <= simply, expression
    assert simple > 100
