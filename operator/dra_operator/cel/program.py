"""Programs: an expression made ready to evaluate, through all stages."""

from dataclasses import dataclass
from typing import Any

from dra_operator.cel.checker import Checked, check, shown
from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.environment import STORED_137, Environment
from dra_operator.cel.errors import CelError, compile_error, runtime_error
from dra_operator.cel.interpreter import interpret
from dra_operator.cel.meter import Meter
from dra_operator.cel.parser import parse
from dra_operator.cel.plan import Plan
from dra_operator.cel.planner import plan
from dra_operator.cel.types import BOOL
from dra_operator.cel.validators import validate
from dra_operator.cel.values import type_name


def checked(expression: str, environment: Environment) -> Checked:
    tree = check(parse(expression, environment), environment)
    validate(tree)
    return tree


class Selector:
    """A selector: whether a device fits."""

    __slots__ = ("_plan", "expression", "reads")

    def __init__(self, expression: str, made: Plan) -> None:
        self.expression = expression
        self.reads: frozenset[str] | None = None
        self._plan = made

    def match(self, device: PreparedDevice) -> bool:
        if device.broken is not None:
            raise device.broken
        value = interpret(self._plan, device.root, Meter())
        if type(value) is not bool:
            raise runtime_error(f"CEL result of type {type_name(value)} could not be converted to bool")
        return value


def compile_selector(expression: str, environment: Environment = STORED_137) -> Selector:
    tree = checked(expression, environment)
    kind = tree.result_type
    if kind != BOOL and kind != environment.attribute_type:
        raise compile_error(f"must evaluate to bool or the unknown type, not {kind}")
    return Selector(expression, plan(tree, environment))
