"""What the tests of CEL share: a device, and short ways through the stages."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from dra_operator.api.types import Device
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.program import compile_program
from dra_operator.cel.run.meter import Meter
from dra_operator.cel.run.planner import plan
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.checker import Checked
from dra_operator.cel.types.checker import check as check_tree
from dra_operator.cel.types.environment import STORED, Environment

WIRE = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "h100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "version": {"version": "1.2.3"},
        "links": {"strings": ["a", "b"]},
        "numa.example.com/node": {"int": 1},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}


@pytest.fixture(scope="session")
def make_device() -> Callable[..., PreparedDevice]:
    """Return a function that prepares a device of dra.example.com from its wire form."""
    reader = TypeAdapter(Device)

    def make(**wire: Any) -> PreparedDevice:
        return prepare_device("dra.example.com", reader.validate_python({"name": "x", **wire}))

    return make


@pytest.fixture(scope="session")
def device(make_device) -> PreparedDevice:
    """Return a GPU with attributes of several types."""
    return make_device(**WIRE)


@pytest.fixture
def check() -> Callable[..., Checked]:
    """Return a function that parses and checks an expression."""

    def checked(text: str, environment: Environment = STORED) -> Checked:
        return check_tree(parse(text, environment), environment)

    return checked


@pytest.fixture
def step(check) -> Callable[[str], Any]:
    """Return a function that plans an expression and returns its last step."""
    return lambda text: plan(check(text), STORED).step


@pytest.fixture
def evaluate(device) -> Callable[[str], Any]:
    """Return a function that evaluates an expression on the device, metered."""

    def value(text: str) -> Any:
        return compile_program(text).evaluate(device, Meter())

    return value


@pytest.fixture
def cost(device) -> Callable[[str], int]:
    """Return a function that says what an evaluation on the device has cost."""

    def counted(text: str) -> int:
        meter = Meter()
        compile_program(text).evaluate(device, meter)
        return meter.cost

    return counted
