"""Programs: an expression taken through all stages, ready to be evaluated.

text ▶ tree ▶ types ▶ validators ▶ steps, and then one question: can it cost much? If not, it is evaluated plainly, and
metered only on the devices on which that fails; if so, it is metered on each.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.semver import Semver
from dra_operator.cel.cost.estimate import estimate
from dra_operator.cel.cost.prices import Range
from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.errors import CelError, compile_error, runtime_error
from dra_operator.cel.run.evaluator import UncountedPatternError, evaluator
from dra_operator.cel.run.meter import COST_LIMIT, Meter
from dra_operator.cel.run.planner import plan
from dra_operator.cel.run.steps import reads
from dra_operator.cel.syntax.nodes import position_of
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.checker import Checked, check, validate
from dra_operator.cel.types.environment import STORED, Environment
from dra_operator.cel.types.types import BOOL, DYNAMIC, INT, SEMVER, STRING, Kind, Type
from dra_operator.cel.values import type_name

_MOST_PROGRAMS: Final = 1024
"""How many selectors, and how many derived attributes, are kept for whoever asks again."""
_KEPT: Final = 500
"""Up to this length: how many longer ones are kept is for those who ask to limit."""
_CHEAP: Final = COST_LIMIT // 200
"""Up to this estimate nothing is counted."""


class Program:
    """An expression of any type."""

    __slots__ = ("_checked", "_estimated", "_metered", "_plain", "_plan", "_rules", "expression", "type")

    def __init__(self, expression: str, checked: Checked, environment: Environment) -> None:
        self.expression = expression
        self.type: Type = checked.result_type
        self._checked = checked
        self._rules = environment.rules
        self._estimated: Range | None = None
        self._metered: Callable[..., Any] | None = None
        self._plain: Callable[..., Any] | None = None
        try:
            self._plan = plan(checked, environment)
        except CelError as error:
            raise _placed(error, expression) from None

    def estimate(self) -> Range:
        """Return the least and the most that one evaluation can cost."""
        if self._estimated is None:
            self._estimated = estimate(self._checked, self._rules)
        return self._estimated

    def reads(self) -> frozenset[str] | None:
        """Return which parts of a device it reads; None if that cannot be told."""
        return reads(self._plan)

    def plain(self) -> Callable[[PreparedDevice | None, None], Any] | None:
        """Return what evaluates it without counting, or raises anything; None if it can cost much."""
        if self._plain is None and self.estimate().high <= _CHEAP:
            try:
                self._plain = evaluator(self._plan, self._rules, metered=False)
            except (UncountedPatternError, RecursionError):
                return None
        return self._plain

    def answer(self, device: PreparedDevice) -> Any:
        """Return the value on a device, whatever it costs up to the limit; raises CelError."""
        return self.evaluate(device, Meter())

    def evaluate(self, device: PreparedDevice | None, meter: Meter) -> Any:
        """Return the value on a device; raises CelError. The meter holds the cost afterwards, in either case.

        Without a device an expression that asks for it fails.
        """
        if device is not None and device.broken is not None and self.refuses(device):
            raise device.broken
        try:
            if self._metered is None:
                self._metered = evaluator(self._plan, self._rules, metered=True)
            return self._metered(device, meter)
        except CelError as error:
            position = None if error.position is None else position_of(self._checked.expr, error.position)
            raise _placed(type(error)("runtime", error.message, position), self.expression) from None
        except RecursionError:
            raise runtime_error("expression nests too deep") from None
        except Exception as error:  # noqa: BLE001 - as upstream: whatever went wrong is an error of this evaluation
            raise runtime_error(f"internal error: {error}") from None

    def refuses(self, device: PreparedDevice) -> bool:
        """Return whether it fails on a device whatever it reads, for an attribute of an unknown type."""
        return device.broken is not None and not self._rules.device_is_looked_up


def compile_program(expression: str, environment: Environment = STORED) -> Program:
    """Return the program of an expression of any type; raises CelError if it does not compile."""
    return Program(expression, checked(expression, environment), environment)


def checked(expression: str, environment: Environment) -> Checked:
    """Return an expression with its types; raises CelError if it has none."""
    try:
        tree = check(parse(expression, environment), environment)
        validate(tree)
    except CelError as error:
        raise _placed(error, expression) from None
    except RecursionError:
        raise compile_error("expression recursion limit exceeded: 250") from None
    return tree


def _placed(error: CelError, expression: str) -> CelError:
    """Return an error of a stage, which counts characters, with its position in bytes."""
    if error.position is None or expression.isascii():
        return error
    return type(error)(
        error.kind, error.message, len(expression[: error.position].encode(errors="surrogatepass"))
    )


class Selector:
    """A selector: whether a device fits.

    `match` is a function from devices to bools; it raises CelError where there is no answer. `reads` names
    what it looks at: `driver`, `allowMultipleAllocations`, `attributes/<domain>/<id>`,
    `capacity/<domain>/<id>`; None means anything. `may_take_long`: it is metered on every device, so nothing rules out
    that an evaluation costs as much as is permitted.
    """

    __slots__ = ("expression", "match", "may_take_long", "program", "reads")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.expression = program.expression
        self.reads: frozenset[str] | None = program.reads()
        self.may_take_long = program.plain() is None
        self.match: Callable[[PreparedDevice], bool] = _match(program)


def _match(program: Program) -> Callable[[PreparedDevice], bool]:
    """Return the function that says whether a device fits, plainly if that is possible."""
    plain = program.plain()

    def match(device: PreparedDevice) -> bool:
        if plain is not None and (device.broken is None or not program.refuses(device)):
            try:
                value = plain(device, None)
            except Exception:  # noqa: BLE001 - whatever it is, the metered evaluation says it
                value = None
            if value is True or value is False:
                return value
        return as_bool(program.answer(device))

    return match


def as_bool(value: Any) -> bool:
    """Return a value that is the answer of a selector; raises CelError for one that is none."""
    if type(value) is bool:
        return value
    raise runtime_error(f"CEL result of type {type_name(value)} could not be converted to bool")


def compile_selector(expression: str, environment: Environment = STORED) -> Selector:
    """Return the selector that an expression is; raises CelError if it is none."""
    make = _kept_selector if len(expression) <= _KEPT else selector
    return make(expression, environment)


def selector(expression: str, environment: Environment) -> Selector:
    """Return the same, compiled anew."""
    tree = checked(expression, environment)
    kind = tree.result_type
    if kind not in (BOOL, environment.attribute_type):
        raise compile_error(f"must evaluate to bool or the unknown type, not {kind}")
    return Selector(Program(expression, tree, environment))


_kept_selector = lru_cache(maxsize=_MOST_PROGRAMS)(selector)


class DerivedAttributeProgram:
    """A derived attribute: a value computed from a device, for constraints.

    `reads` and `may_take_long` are as those of a selector.
    """

    __slots__ = ("_plain", "expression", "may_take_long", "program", "reads")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.expression = program.expression
        self.reads: frozenset[str] | None = program.reads()
        self._plain = program.plain()
        self.may_take_long = self._plain is None

    def evaluate(self, device: PreparedDevice) -> AttributeValue:
        """Return the value; raises CelError if there is none, or none that an attribute can have."""
        if self._plain is not None and not self.program.refuses(device):
            with suppress(Exception):
                return as_attribute(self._plain(device, None))
        return as_attribute(self.program.answer(device))


def compile_derived_attribute(expression: str, environment: Environment = STORED) -> DerivedAttributeProgram:
    """Return the program of a derived attribute; raises CelError if its type cannot be that of an attribute."""
    make = _kept_derived_attribute if len(expression) <= _KEPT else _derived_attribute
    return make(expression, environment)


def _derived_attribute(expression: str, environment: Environment) -> DerivedAttributeProgram:
    tree = checked(expression, environment)
    kind = tree.result_type
    listed = environment.list_type_attributes or environment.expressions == "stored"
    element = kind.parameters[0] if listed and kind.kind is Kind.LIST else kind
    if element in (BOOL, INT, STRING, SEMVER) or element.kind in DYNAMIC:
        return DerivedAttributeProgram(Program(expression, tree, environment))
    scalars = "a primitive scalar (string, integer, boolean, semver)"
    allowed = f"{scalars} or a list of these scalars" if listed else scalars
    raise compile_error(f"must evaluate to {allowed}, not {kind}")


_kept_derived_attribute = lru_cache(maxsize=_MOST_PROGRAMS)(_derived_attribute)


def as_attribute(value: Any) -> AttributeValue:
    """Return a value as an attribute; raises CelError for one that none can have."""
    kind = type(value)
    if kind is bool:
        return AttributeValue("bool", value)
    if kind is int:
        return AttributeValue("int", value)
    if kind is str:
        return AttributeValue("string", value)
    if kind is Semver:
        return AttributeValue("version", str(value))
    if kind is tuple:
        return _list_attribute(value)
    raise runtime_error(f"unsupported CEL return type: {type_name(value)}")


def _list_attribute(values: tuple[Any, ...]) -> AttributeValue:
    if not values:
        return AttributeValue("strings", ())
    kind = type(values[0])
    name = {bool: "bools", int: "ints", str: "strings", Semver: "versions"}.get(kind)
    if name is None:
        raise runtime_error(f"unsupported list element type: {type_name(values[0])}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            raise runtime_error(
                f"expected list element at index {index} to be {type_name(values[0])}, got {type_name(value)}"
            )
    items = tuple(map(str, values)) if kind is Semver else values
    return AttributeValue(name, items)  # type: ignore[arg-type]
