"""Programs: an expression taken through all stages, ready to be evaluated.

text ▶ grammar ▶ tree ▶ types ▶ validators ▶ plan, and then one question: is it cheap? If so, it becomes a template or
code of its own. The interpreter evaluates, and counts, what is not cheap, what no code can be made for, and each device
on which code raises. A text that fits a known template needs none of the stages.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.semver import Semver
from dra_operator.cel.checker import Checked, check
from dra_operator.cel.compiler.codegen import Compiled, generate
from dra_operator.cel.costs.cost import estimate
from dra_operator.cel.costs.meter import COST_LIMIT, Meter
from dra_operator.cel.costs.quick_bound import most
from dra_operator.cel.costs.sizes import Range
from dra_operator.cel.costs.weight import HEAVY, weight
from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.environment import STORED, Environment
from dra_operator.cel.errors import CelError, compile_error, runtime_error
from dra_operator.cel.interpreter import interpret
from dra_operator.cel.paths import reads
from dra_operator.cel.planner import plan
from dra_operator.cel.syntax.nodes import position_of
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.templates import Template, Templates, Text, blanks_of, template_of
from dra_operator.cel.types import BOOL, DYN, DYNAMIC, INT, SEMVER, STRING, Kind, Type
from dra_operator.cel.validators import validate
from dra_operator.cel.values import legal_text, type_name

_MOST_PROGRAMS: Final = 1024
"""How many selectors, and how many derived attributes, are kept for whoever asks again."""
_KEPT: Final = 500
"""Up to this length: how many longer ones are kept is for those who ask to limit."""
_CHEAP: Final = COST_LIMIT // 200
"""Up to this estimate nothing is counted."""
_SHORT: Final = 2_000
"""Longer ones are rare, and not worth the time that code takes to be made."""

_TEMPLATES: Final = Templates()


class Program:
    """An expression of any type."""

    __slots__ = ("_checked", "_estimated", "_is_cheap", "_plan", "_simply", "expression", "type")

    def __init__(self, expression: str, checked: Checked, environment: Environment) -> None:
        self.expression = expression
        self.type: Type = checked.result_type
        self._checked = checked
        self._estimated: Range | None = None
        self._is_cheap: bool | None = None
        self._simply: int | None = None
        try:
            self._plan = plan(checked, environment)
        except CelError as error:
            raise _placed(error, expression) from None

    def estimate(self) -> Range:
        """Return the least and the most that one evaluation can cost."""
        if self._estimated is None:
            self._estimated = estimate(self._checked)
        return self._estimated

    def reads(self) -> frozenset[str] | None:
        """Return which parts of a device it reads; None if that cannot be told."""
        return reads(self._plan)

    @property
    def is_cheap(self) -> bool:
        """Whether nothing must be counted: neither can it cost much, nor are the values large that it works on."""
        if self._is_cheap is None:
            self._is_cheap = self._find_cheap()
        return self._is_cheap

    def _find_cheap(self) -> bool:
        length = len(self.expression)
        if length > _SHORT:
            return False
        self._simply = most(self._checked.expr, length)
        if self._simply is not None and self._simply <= _CHEAP:
            return True
        return self.estimate().high <= _CHEAP and weight(self._checked) <= HEAVY

    def answer(self, device: PreparedDevice) -> Any:
        """Return the value on a device, whatever it costs up to the limit; raises CelError."""
        return self.evaluate(device, Meter())

    def compiled(self, otherwise: Callable[[PreparedDevice], Any], answer: Type) -> Compiled | None:
        """Return it as a Python function that asks `otherwise` where it fails; None without one.

        It has none if its cost must be counted, or no code can be made for it.
        """
        if not self.is_cheap:
            return None
        return generate(self._plan, self._checked.types, otherwise, answer=answer)

    def template(self, text: Text) -> Template | None:
        """Return it as a selector for texts that differ in values and names alone; None if it can be none of those."""
        assert self.is_cheap
        if self._simply is None:
            return None
        blanks = blanks_of(text, self._checked.expr)
        longest = min(_SHORT, _CHEAP - (self._simply - text.length))
        if not blanks or text.length > longest:
            return None
        marks = {blank.node: blank.mark for blank in blanks}
        function = generate(self._plan, self._checked.types, self.answer, answer=BOOL, marks=marks)
        return None if function is None else template_of(function, blanks, reads(self._plan, marks), longest)

    def evaluate(self, device: PreparedDevice, meter: Meter) -> Any:
        """Return the value on a device; raises CelError. The meter holds the cost afterwards, in either case."""
        if device.broken is not None:
            raise device.broken
        return self._interpreted(device.root, meter)

    def evaluate_without_device(self, meter: Meter) -> Any:
        """Return the value where there is no device; an expression that asks for it fails."""
        return self._interpreted(runtime_error("no such attribute(s): device"), meter)

    def _interpreted(self, device: Any, meter: Meter) -> Any:
        try:
            return interpret(self._plan, device, meter)
        except CelError as error:
            position = None if error.position is None else position_of(self._checked.expr, error.position)
            raise _placed(type(error)("runtime", error.message, position), self.expression) from None
        except RecursionError:
            raise runtime_error("expression nests too deep") from None
        except Exception as error:  # noqa: BLE001 - as upstream: whatever went wrong is an error of this evaluation
            raise runtime_error(f"internal error: {error}") from None


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
    `capacity/<domain>/<id>`; None means anything. `may_take_long`: the interpreter evaluates it on every
    device, so nothing rules out that an evaluation costs as much as is permitted.
    """

    __slots__ = ("_late", "match", "may_take_long", "reads")

    def __init__(
        self, late: "_Late", match: Callable[[PreparedDevice], bool] | None, reads: frozenset[str] | None
    ) -> None:
        self._late = late
        self.reads = reads
        self.may_take_long = match is None
        self.match: Callable[[PreparedDevice], bool] = match or late.answer

    @property
    def expression(self) -> str:
        """The text."""
        return self._late.expression

    @property
    def program(self) -> Program:
        """The program behind it."""
        return self._late.program()


class _Late:
    """A program that is made when somebody asks for it: where a template has answers, few do.

    It knows nothing of the selector, which would be a circle that only the collector undoes.
    """

    __slots__ = ("_environment", "_program", "expression")

    def __init__(self, expression: str, environment: Environment, program: Program | None = None) -> None:
        self.expression = expression
        self._environment = environment
        self._program = program

    def program(self) -> Program:
        """Return the program."""
        if self._program is None:
            self._program = compile_program(self.expression, self._environment)
        return self._program

    def answer(self, device: PreparedDevice) -> bool:
        """Return the answer where the plain function has none: something fails, or there is no code."""
        return as_bool(self.program().answer(device))


def as_bool(value: Any) -> bool:
    """Return a value that is the answer of a selector; raises CelError for one that is none."""
    if type(value) is bool:
        return value
    raise runtime_error(f"CEL result of type {type_name(value)} could not be converted to bool")


def compile_selector(expression: str, environment: Environment = STORED) -> Selector:
    """Return the selector that an expression is; raises CelError if it is none."""
    if len(expression) > _KEPT:
        return selector_by(_TEMPLATES, expression, environment)
    return _kept_selector(expression, environment)


@lru_cache(maxsize=_MOST_PROGRAMS)
def _kept_selector(expression: str, environment: Environment) -> Selector:
    return selector_by(_TEMPLATES, expression, environment)


def selector_by(templates: Templates, expression: str, environment: Environment) -> Selector:
    """Return the same, compiled only if none of the templates fits; then it is one for others."""
    text = Text(legal_text(expression))
    template = templates.find(text, environment)
    if template is not None and (found := _filled(template, text, expression, environment)) is not None:
        return found
    tree = checked(expression, environment)
    kind = tree.result_type
    if kind not in (BOOL, environment.attribute_type):
        raise compile_error(f"must evaluate to bool or the unknown type, not {kind}")
    program = Program(expression, tree, environment)
    late = _Late(expression, environment, program)
    if not program.is_cheap:
        return Selector(late, None, program.reads())
    template = program.template(text)
    if template is not None and (found := _filled(template, text, expression, environment)) is not None:
        templates.keep(text, environment, template)
        return found
    return Selector(late, program.compiled(late.answer, BOOL), program.reads())


def _filled(template: Template, text: Text, expression: str, environment: Environment) -> Selector | None:
    """Return the selector that a template is with the literals of a text; None if one cannot stand there."""
    late = _Late(expression, environment)
    found = template.fill(text.literals, late.answer)
    return None if found is None else Selector(late, *found)


class DerivedAttributeProgram:
    """A derived attribute: a value computed from a device, for constraints.

    `reads` and `may_take_long` are as those of a selector.
    """

    __slots__ = ("_value", "expression", "may_take_long", "program", "reads")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.expression = program.expression
        self.reads: frozenset[str] | None = program.reads()
        compiled = program.compiled(program.answer, DYN)
        self.may_take_long = compiled is None
        self._value = compiled or program.answer

    def evaluate(self, device: PreparedDevice) -> AttributeValue:
        """Return the value; raises CelError if there is none, or none that an attribute can have."""
        return _attribute(self._value(device))


def compile_derived_attribute(expression: str, environment: Environment = STORED) -> DerivedAttributeProgram:
    """Return the program of a derived attribute; raises CelError if its type cannot be that of an attribute."""
    if len(expression) > _KEPT:
        return _derived_attribute(expression, environment)
    return _kept_derived_attribute(expression, environment)


@lru_cache(maxsize=_MOST_PROGRAMS)
def _kept_derived_attribute(expression: str, environment: Environment) -> DerivedAttributeProgram:
    return _derived_attribute(expression, environment)


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


def _attribute(value: Any) -> AttributeValue:
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
