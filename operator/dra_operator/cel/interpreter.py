"""Interpreter: evaluates a plan step by step and counts what it costs.

It answers for what is not cheap, where code fails, and in tests as a second opinion. Errors are values here, as in
cel-go: what was evaluated before an error has its cost, and which of two errors is reported follows from the order of
evaluation.
Source: cel-go `interpreter/interpretable.go`, `interpreter/attributes.go`, `interpreter/runtimecost.go`.
"""

# ruff: noqa: SLF001 - the table at the end is that of the class above it

from typing import Any, Final

from dra_operator.cel import interpretable as ir
from dra_operator.cel.compiler.runtime import elements, pairs
from dra_operator.cel.costs.meter import Meter
from dra_operator.cel.costs.steps import SHORT, steps_of_call, steps_of_comparison, steps_of_result
from dra_operator.cel.errors import Abort, CelError, runtime_error
from dra_operator.cel.library.golang import key_text
from dra_operator.cel.messages import make_message
from dra_operator.cel.operators import not_equal
from dra_operator.cel.qualify import check_key, look_up, qualify
from dra_operator.cel.values import (
    MISSING,
    NONE,
    CelMap,
    DefaultMap,
    Optional_,
    StringMap,
    cel_equal,
    hashed_key,
)

_ERROR: Final = 2
"""The steps that making an error counts as."""
_HOLDING: Final = (tuple, CelMap, StringMap, DefaultMap, Optional_)
"""The types whose values hold others, which a comparison looks at."""


class _Unset:
    """An accumulator that nobody has asked for yet, with what gives its first value."""

    __slots__ = ("init",)

    def __init__(self, init: ir.Step) -> None:
        self.init = init


def interpret(plan: ir.Plan, device: Any, meter: Meter) -> Any:
    """Return the value of a plan on a device. The meter holds the cost afterwards, also if it fails.

    Raises CelError; its position is the id of the node that failed.
    """
    value = _Evaluation(plan.slots, device, meter).value(plan.step)
    if isinstance(value, CelError):
        raise value
    return value


class _Evaluation:
    """One evaluation: its variables and its meter. Methods return values or errors."""

    __slots__ = ("meter", "slots")

    def __init__(self, slots: int, device: Any, meter: Meter) -> None:
        self.slots: list[Any] = [None] * slots
        self.slots[0] = device
        self.meter = meter

    def value(self, step: ir.Step) -> Any:
        """Return the value of a step, observed by the meter."""
        value: Any = _VALUES[type(step)](self, step)
        if isinstance(value, CelError) and value.position is None:
            value.position = step.id
            self.meter.count(_ERROR)
        self.meter.observe(step, value)
        return value

    def _const(self, step: ir.Const) -> Any:
        return step.value

    # --- attributes ---------------------------------------------------------------------------------------------

    def _attribute(self, step: ir.Attribute) -> Any:
        value = self.resolve(step)
        if step.test_id is not None and type(value) is Optional_:
            return value.value is not MISSING
        return value

    def resolve(self, attribute: ir.Attribute) -> Any:
        """Return the value of an attribute without the observation that goes with evaluating it."""
        root = attribute.root
        if isinstance(root, ir.Choice):
            return self._chosen(root)
        value = self._variable(root.slot) if isinstance(root, ir.Variable) else self.value(root.step)
        if isinstance(value, CelError):
            return value
        try:
            return self._qualified(value, attribute.qualifiers)
        except Abort:
            raise
        except CelError as error:
            return error

    def _chosen(self, choice: ir.Choice) -> Any:
        condition = self.value(choice.condition)
        if condition is True:
            return self.resolve(choice.chosen)
        if condition is False:
            return self.resolve(choice.other)
        return condition if isinstance(condition, CelError) else runtime_error("no such overload")

    def _variable(self, slot: int) -> Any:
        value = self.slots[slot]
        if type(value) is _Unset:
            value = self.slots[slot] = self.value(value.init)
        return value

    def _qualified(self, value: Any, qualifiers: list[ir.Qualifier]) -> Any:
        optional = type(value) is Optional_
        if optional:
            if value.value is MISSING:
                return value
            value = value.value
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            value = self._step_along(value, qualifier, optional=optional)
            if value is MISSING:
                return NONE
        return Optional_(value) if optional else value

    def _step_along(self, value: Any, qualifier: ir.Qualifier, *, optional: bool) -> Any:
        """Return the value one step further; MISSING if it is absent and may be."""
        try:
            key = self._key(qualifier)
            if qualifier.test_only:
                result: Any = look_up(value, key) is not MISSING
                if optional and not result:
                    return MISSING
            else:
                result = look_up(value, key) if optional else qualify(value, key)
        except Abort:
            raise
        except CelError as error:
            if error.position is None:
                error.position = qualifier.id
            if not optional:
                self.meter.observe_qualifier(qualifier, error)
            raise
        if result is not MISSING:
            self.meter.observe_qualifier(qualifier, result)
        return result

    def _key(self, qualifier: ir.Qualifier) -> Any:
        if qualifier.step is None:
            return qualifier.key
        step = qualifier.step
        key = self.resolve(step) if isinstance(step, ir.Attribute) else self.value(step)
        if isinstance(key, CelError):
            raise key
        return check_key(key)

    # --- logic --------------------------------------------------------------------------------------------------

    def _logic(self, step: ir.Logic) -> Any:
        error: CelError | None = None
        for term in step.terms:
            value = self.value(term)
            if value is step.absorbing:
                return value
            if type(value) is not bool and error is None:
                error = value if isinstance(value, CelError) else runtime_error("no such overload")
        return not step.absorbing if error is None else error

    def _equality(self, step: ir.Equality) -> Any:
        left, right = (self.value(argument) for argument in step.arguments)
        for value in (left, right):
            if isinstance(value, CelError):
                return value
        if type(left) in _HOLDING:
            self.meter.count(steps_of_comparison(left, right))
        try:
            return not_equal(left, right) if step.negated else cel_equal(left, right)
        except Abort:
            raise
        except CelError as error:
            return error

    # --- calls --------------------------------------------------------------------------------------------------

    def _invoke(self, step: ir.Invoke) -> Any:
        if step.function.name == "@not_strictly_false":
            return self.value(step.arguments[0]) is not False
        values = []
        failed: CelError | None = None
        for argument in step.arguments:
            value = self.value(argument)
            if isinstance(value, CelError):
                failed = failed or value
                if not step.function.eager:
                    return failed
            values.append(value)
        if failed is not None:
            return failed
        is_short = step.function.name in SHORT
        if not is_short:
            self.meter.count(steps_of_call(step, values))
        try:
            result = step.function.call(*values)
        except Abort:
            raise
        except CelError as error:
            return error
        if not is_short:
            self.meter.count(steps_of_result(step, result))
        return result

    def _members(self, step: ir.Members) -> Any:
        value = self.value(step.argument)
        return value if isinstance(value, CelError) else hashed_key(value) in step.keys

    def _otherwise(self, step: ir.Otherwise) -> Any:
        left = self.value(step.left)
        if isinstance(left, CelError):
            return left
        if type(left) is not Optional_:
            return runtime_error("no such overload")
        if left.value is MISSING:
            return self.value(step.right)
        return left.value if step.unwrap else left

    # --- aggregates ---------------------------------------------------------------------------------------------

    def _list(self, step: ir.MakeList) -> Any:
        values = []
        for index, element in enumerate(step.elements):
            value = self.value(element)
            if index in step.optional:
                value = _content(value, "list element")
            if isinstance(value, CelError):
                return value
            if value is not MISSING:
                values.append(value)
        return tuple(values)

    def _map(self, step: ir.MakeMap) -> Any:
        made = CelMap()
        for key_step, value_step, optional in step.entries:
            key = self.value(key_step)
            if isinstance(key, CelError):
                return key
            value = self.value(value_step)
            if optional:
                value = _content(value, f"entry '{key_text(key)}'")
            if isinstance(value, CelError):
                return value
            if value is MISSING:
                made.drop(key)
            else:
                made.put(key, value)
        return made

    def _message(self, step: ir.MakeMessage) -> Any:
        fields: dict[str, Any] = {}
        for name, value_step, optional in step.fields:
            value = self.value(value_step)
            if optional:
                value = _content(value, f"entry '{name}'")
            if isinstance(value, CelError):
                return value
            if value is MISSING:
                fields.pop(name, None)
            else:
                fields[name] = value
        try:
            return make_message(step.name, fields)
        except CelError as error:
            return error

    # --- folds --------------------------------------------------------------------------------------------------

    def _fold(self, step: ir.Fold) -> Any:
        over = self.value(step.range)
        if isinstance(over, CelError):
            return over
        slots = self.slots
        slots[step.accumulator] = _Unset(step.init)
        try:
            rounds = elements(over) if step.second is None else pairs(over)
        except CelError as error:
            return error
        for each in rounds:
            if step.second is None:
                slots[step.first] = each
            else:
                slots[step.first], slots[step.second] = each
            if not self._folded(step):
                break
        return self.value(step.result)

    def _folded(self, step: ir.Fold) -> bool:
        """Fold one element in, unless the condition says that the fold is over."""
        if self.value(step.condition) is False:
            return False
        self.slots[step.accumulator] = self.value(step.step)
        return True


def _content(value: Any, place: str) -> Any:
    """Return what a value behind a `?` holds, MISSING if that is nothing, or an error, as where it is not optional."""
    if isinstance(value, CelError):
        return value
    if type(value) is Optional_:
        return value.value
    return runtime_error(f"cannot initialize optional {place} from non-optional value {key_text(value)}")


_VALUES: Final[dict[type, Any]] = {
    ir.Const: _Evaluation._const,
    ir.Attribute: _Evaluation._attribute,
    ir.Logic: _Evaluation._logic,
    ir.Equality: _Evaluation._equality,
    ir.Invoke: _Evaluation._invoke,
    ir.Members: _Evaluation._members,
    ir.Otherwise: _Evaluation._otherwise,
    ir.MakeList: _Evaluation._list,
    ir.MakeMap: _Evaluation._map,
    ir.MakeMessage: _Evaluation._message,
    ir.Fold: _Evaluation._fold,
}
