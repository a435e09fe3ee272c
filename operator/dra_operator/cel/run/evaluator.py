"""Evaluator: a plan as closures, plain or metered, from one set of builders (closure compilation).

A closure gives the value of its step or raises; what absorbs errors catches them. Metered, each step is observed, and
value, cost and error are exact. Plain, nothing is counted and attributes come from the device's tables; whoever gets an
exception asks the metered closures.
Source: cel-go `interpreter/interpretable.go`, `attributes.go`, `runtimecost.go`.
"""

# ruff: noqa: SLF001 - the table at the end is that of the class above it

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dra_operator.api.versions import Rules
from dra_operator.cel.cost.prices import LIST_COST, MAP_COST, MESSAGE_COST
from dra_operator.cel.device import PreparedDevice, known_value
from dra_operator.cel.errors import Abort, CelError, runtime_error
from dra_operator.cel.library import regex
from dra_operator.cel.library.core import no_overload, not_equal
from dra_operator.cel.run import steps as ir
from dra_operator.cel.run.meter import Meter
from dra_operator.cel.run.steps import LEVELS, table_entry
from dra_operator.cel.types.environment import make_message, price_of
from dra_operator.cel.values import (
    MISSING,
    NONE,
    CelMap,
    Optional_,
    cel_equal,
    check_key,
    go_type,
    hashed_key,
    key_text,
    look_up,
    qualify,
)

Slots: TypeAlias = list[Any]
"""The device, the meter (None where nothing is counted), and the variables of folds."""
Closure: TypeAlias = Callable[[Slots], Any]

_ALIKE: Final = frozenset((bool, int, str))
"""The types whose values Python compares as CEL does, as long as both are of the same."""
_COMPARISONS: Final = {
    "_==_": operator.eq, "_!=_": operator.ne, "_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt,
    "_>=_": operator.ge,
}  # fmt: skip
_CHARGED_FAILURES: Final = frozenset(("_==_", "_!=_", "!_"))
_MAKING: Final[dict[type, int]] = {ir.MakeList: LIST_COST, ir.MakeMap: MAP_COST, ir.MakeMessage: MESSAGE_COST}
_FIELDS: Final[dict[str, Closure]] = {
    "driver": lambda s: s[ir.DEVICE].driver,
    "allowMultipleAllocations": lambda s: s[ir.DEVICE].multiple,
}


class UncountedPatternError(Exception):
    """A regular expression that is made in the evaluation: to compile it takes longer than it costs."""


def evaluator(
    plan: ir.Plan, rules: Rules, *, metered: bool
) -> Callable[[PreparedDevice | None, Meter | None], Any]:
    """Return what evaluates a plan on a device by the rules of a version of Kubernetes.

    Without a device, an expression that asks for it fails. If it is `metered`, it counts in a meter, which holds the
    cost afterwards, also if it raises CelError; the position of that is the id of the node that failed. Raises
    UncountedPatternError if it should be metered and is not.
    """
    closure, variables = _Builder(rules, metered).build(plan.step), (None,) * (plan.slots - ir.FIRST_VARIABLE)
    return lambda device, meter: closure([device, meter, *variables])


class _Unset:
    """An accumulator that nobody has asked for yet, with what gives its first value."""

    __slots__ = ("init",)

    def __init__(self, init: Closure) -> None:
        self.init = init


def _attempt(closure: Closure, s: Slots) -> Any:
    """Return the value or the error of a closure."""
    try:
        return closure(s)
    except Abort:
        raise
    except CelError as error:
        return error.with_traceback(None)


def _observed(step: ir.Step, run: Closure) -> Closure:
    """Return a closure whose value or error is observed by the meter."""
    identity = step.id

    def observe(s: Slots) -> Any:
        meter = s[ir.METER]
        try:
            value = run(s)
        except Abort:
            raise
        except CelError as error:
            if error.position is None:
                error.position = identity
            meter.observe(step, error)
            raise
        meter.observe(step, value)
        return value

    return observe


def _charged(step: ir.Step, run: Closure) -> Closure:
    """Return a closure that is charged for when it is done, that of an attribute also where it fails."""
    identity = step.id
    attribute = type(step) is ir.Attribute and type(step.root) is not ir.Choice and step.test_id is None
    cost = 1 if attribute else _MAKING.get(type(step), 0)

    def charge(s: Slots) -> Any:
        try:
            value = run(s)
        except Abort:
            raise
        except CelError as error:
            if error.position is None:
                error.position = identity
            if attribute:
                s[ir.METER].charge(cost)
            raise
        s[ir.METER].charge(cost)
        return value

    return charge


def _both(first: Closure, second: Closure, apply: Callable[[Any, Any], Any]) -> Closure:
    """Return what is made of two values; where the first one fails, the second is evaluated all the same."""

    def run(s: Slots) -> Any:
        try:
            value = first(s)
        except Abort:
            raise
        except CelError:
            _attempt(second, s)
            raise
        return apply(value, second(s))

    return run


@dataclass(slots=True)
class _Builder:
    rules: Rules
    metered: bool
    accumulators: set[int] = field(default_factory=set)

    def build(self, step: ir.Step) -> Closure:
        """Return the closure of a step."""
        run: Closure = _BUILDERS[type(step)](self, step)
        if not self.metered:
            return run
        return _charged(step, run) if self.rules.failure_ends_call else _observed(step, run)

    def _const(self, step: ir.Const) -> Closure:
        value = step.value
        return lambda _s: value

    # --- attributes ---------------------------------------------------------------------------------------------

    def _attribute(self, step: ir.Attribute) -> Closure:
        found = self._resolved(step)
        if step.test_id is None:
            return found

        def tested(s: Slots) -> Any:
            value = found(s)
            return value.value is not MISSING if type(value) is Optional_ else value

        return tested

    def _resolved(self, attribute: ir.Attribute) -> Closure:
        """Return the closure of an attribute without the observation that goes with evaluating it."""
        root, qualifiers = attribute.root, attribute.qualifiers
        if isinstance(root, ir.Choice):
            return self._chosen(root)
        if isinstance(root, ir.Operand):
            return self._along(self.build(root.step), qualifiers)
        if root.slot == ir.DEVICE and not self.metered:
            base, known = _from_table(qualifiers, self._root, looked_up=self.rules.device_is_looked_up)
            return self._along(base, qualifiers[known:])
        return self._along(self._variable(root.slot), qualifiers)

    def _chosen(self, choice: ir.Choice) -> Closure:
        condition = self.build(choice.condition)
        chosen, other = self._resolved(choice.chosen), self._resolved(choice.other)

        def choose(s: Slots) -> Any:
            value = condition(s)
            if value is True:
                return chosen(s)
            if value is False:
                return other(s)
            raise no_overload()

        return choose

    def _variable(self, slot: int) -> Closure:
        if slot == ir.DEVICE:
            return self._root
        if slot not in self.accumulators:
            return lambda s: s[slot]

        def accumulator(s: Slots) -> Any:
            value = s[slot]
            if type(value) is _Unset:
                value = s[slot] = _attempt(value.init, s)
            if isinstance(value, CelError):
                raise value
            return value

        return accumulator

    def _root(self, s: Slots) -> Any:
        """Return the device as a map of maps."""
        device = s[ir.DEVICE]
        if device is None:
            raise runtime_error("no such attribute(s): device")
        return device.looked_up if self.rules.device_is_looked_up else device.root

    def _along(self, base: Closure, qualifiers: list[ir.Qualifier]) -> Closure:
        if not qualifiers:
            return base
        parts = [(qualifier, self._key(qualifier.step)) for qualifier in qualifiers]
        stacked = not self.rules.failure_ends_call

        def along(s: Slots) -> Any:
            value = base(s)
            optional = type(value) is Optional_
            if optional:
                if value.value is MISSING:
                    return value
                value = value.value
            for qualifier, key in parts:
                optional = optional or qualifier.optional
                value = _further(s, value, qualifier, key, optional=optional, stacked=stacked)
                if value is MISSING:
                    return NONE
            return Optional_(value) if optional else value

        return along

    def _key(self, step: ir.Step | None) -> Closure | None:
        if step is None:
            return None
        return self._resolved(step) if isinstance(step, ir.Attribute) else self.build(step)

    # --- logic and comparison -----------------------------------------------------------------------------------

    def _logic(self, step: ir.Logic) -> Closure:
        first, second = self.build(step.terms[0]), self.build(step.terms[1])
        absorbing = step.absorbing

        def run(s: Slots) -> Any:
            try:
                value = first(s)
            except Abort:
                raise
            except CelError as error:
                failed = error
            else:
                if value is absorbing:
                    return absorbing
                if type(value) is bool:
                    value = second(s)
                    if type(value) is bool:
                        return value
                    raise no_overload()
                failed = no_overload()
            if _attempt(second, s) is absorbing:
                return absorbing
            raise failed

        return run

    def _equality(self, step: ir.Equality) -> Closure:
        name, equal = ("_!=_", not_equal) if step.negated else ("_==_", cel_equal)
        if self.metered and self.rules.failure_ends_call:
            return self._priced(name, "not_equals" if step.negated else "equals", equal, step.arguments)
        return self._compared(name, equal, step.arguments)

    def _compared(self, name: str, compare: Callable[[Any, Any], Any], sides: tuple[ir.Step, ...]) -> Closure:
        """Return a comparison; what is compared with a constant of its own type is left to Python."""
        first, second = self.build(sides[0]), self.build(sides[1])
        other = sides[1]
        if self.metered or not isinstance(other, ir.Const) or type(other.value) not in _ALIKE:
            return _both(first, second, compare)
        constant, kind, as_python = other.value, type(other.value), _COMPARISONS[name]

        def run(s: Slots) -> Any:
            value = first(s)
            return as_python(value, constant) if type(value) is kind else compare(value, constant)

        return run

    # --- calls --------------------------------------------------------------------------------------------------

    def _invoke(self, step: ir.Invoke) -> Closure:
        name, call = step.function.name, step.function.call
        if name in regex.SEARCHING and not step.known_pattern and not self.metered:
            raise UncountedPatternError
        if self.metered and self.rules.failure_ends_call:
            return self._priced(name, step.overload, call, step.arguments)
        if name in _COMPARISONS:
            return self._compared(name, call, step.arguments)
        arguments = list(map(self.build, step.arguments))
        if name == "@not_strictly_false":
            return lambda s: _attempt(arguments[0], s) is not False
        if len(arguments) == 1:
            argument = arguments[0]
            return lambda s: call(argument(s))
        if len(arguments) == 2:
            first, second = arguments
            return _both(first, second, call) if step.function.eager else lambda s: call(first(s), second(s))
        return lambda s: call(*[argument(s) for argument in arguments])

    def _priced(
        self, name: str, overload: str, call: Callable[..., Any], parts: tuple[ir.Step, ...]
    ) -> Closure:
        """Return a call that ends at the first argument that fails, and is charged for where none does.

        Of comparisons and negations also the ones that end are charged for.
        """
        arguments, spent = list(map(self.build, parts)), price_of(name, overload).spent

        def run(s: Slots) -> Any:
            values: list[Any] = []
            try:
                for argument in arguments:
                    values.append(argument(s))  # noqa: PERF401 - what came before a failure is needed
            except Abort:
                raise
            except CelError as error:
                if name == "@not_strictly_false":
                    s[ir.METER].charge(1)
                    return True
                if name in _CHARGED_FAILURES:
                    s[ir.METER].charge(spent([*values, error, error][: len(arguments)], error))
                raise
            counted = [None if type(value) is Optional_ else value for value in values]
            try:
                result = values[0] is not False if name == "@not_strictly_false" else call(*values)
            except Abort:
                raise
            except CelError:
                s[ir.METER].charge(spent(counted, MISSING))
                raise
            s[ir.METER].charge(spent(counted, result))
            return result

        return run

    def _members(self, step: ir.Members) -> Closure:
        argument, keys = self.build(step.argument), step.keys
        return lambda s: hashed_key(argument(s)) in keys

    def _otherwise(self, step: ir.Otherwise) -> Closure:
        left, right, unwrap = self.build(step.left), self.build(step.right), step.unwrap

        def run(s: Slots) -> Any:
            value = left(s)
            if type(value) is not Optional_:
                raise no_overload()
            if value.value is MISSING:
                return right(s)
            return value.value if unwrap else value

        return run

    # --- aggregates ---------------------------------------------------------------------------------------------

    def _list(self, step: ir.MakeList) -> Closure:
        elements = [(self.build(part), index in step.optional) for index, part in enumerate(step.elements)]

        def run(s: Slots) -> tuple[Any, ...]:
            values = []
            for element, optional in elements:
                value = element(s)
                if optional:
                    value = _content(value, "list element")
                if value is not MISSING:
                    values.append(value)
            return tuple(values)

        return run

    def _map(self, step: ir.MakeMap) -> Closure:
        entries = [(self.build(key), self.build(value), optional) for key, value, optional in step.entries]

        def run(s: Slots) -> CelMap:
            made = CelMap()
            for key_of, value_of, optional in entries:
                key, value = key_of(s), value_of(s)
                if optional:
                    value = _content(value, f"entry '{key_text(key)}'")
                if value is MISSING:
                    made.drop(key)
                else:
                    made.put(key, value)
            return made

        return run

    def _message(self, step: ir.MakeMessage) -> Closure:
        parts = [(name, self.build(value), optional) for name, value, optional in step.fields]

        def run(s: Slots) -> Any:
            fields: dict[str, Any] = {}
            for name, value_of, optional in parts:
                value = value_of(s)
                if optional:
                    value = _content(value, f"entry '{name}'")
                if value is MISSING:
                    fields.pop(name, None)
                else:
                    fields[name] = value
            return make_message(step.name, fields)

        return run

    # --- folds --------------------------------------------------------------------------------------------------

    def _fold(self, step: ir.Fold) -> Closure:
        over, init = self.build(step.range), self.build(step.init)
        accumulator, first, other = step.accumulator, step.first, step.second
        self.accumulators |= {accumulator} if other is None else {accumulator, other}
        condition, body, result = self.build(step.condition), self.build(step.step), self.build(step.result)

        def run(s: Slots) -> Any:
            collection = over(s)
            if type(collection) in (str, bytes) and not collection and self.rules.empty_texts_are_ranges:
                collection = ()
            s[accumulator] = _Unset(init)
            for each in elements(collection) if other is None else pairs(collection):
                if other is None:
                    s[first] = each
                else:
                    s[first], s[other] = each
                if _attempt(condition, s) is False:
                    break
                s[accumulator] = _attempt(body, s)
            return result(s)

        return run


def _from_table(qualifiers: list[ir.Qualifier], root: Closure, *, looked_up: bool) -> tuple[Closure, int]:
    """Return what reads a constant path where a prepared device keeps it, and how many qualifiers that takes."""
    entry = table_entry(tuple(qualifiers))
    if entry is None:
        first = qualifiers[0] if qualifiers else ir.Qualifier(0)
        field_of = None if first.optional or first.test_only else _FIELDS.get(first.key)
        return (root, 0) if field_of is None else (field_of, 1)
    in_attributes, name = entry[0] == "attributes", entry[1]
    test_only, optional = qualifiers[2].test_only, qualifiers[2].optional
    if test_only and optional:
        return root, 0

    def read(s: Slots) -> Any:
        device = s[ir.DEVICE]
        value = (device.attributes if in_attributes else device.capacity).get(name, MISSING)
        if looked_up:
            known_value(value)
        if test_only:
            return value is not MISSING
        if optional:
            return NONE if value is MISSING else Optional_(value)
        if value is MISSING:
            raise runtime_error(f"no such key: {name}")
        return value

    return read, LEVELS


def _further(
    s: Slots, value: Any, qualifier: ir.Qualifier, key_of: Closure | None, *, optional: bool, stacked: bool
) -> Any:
    """Return the value one step further along an attribute; MISSING if it is absent and may be.

    `stacked`: a meter keeps it on a stack.
    """
    meter = s[ir.METER]
    try:
        key = qualifier.key if key_of is None else check_key(key_of(s))
        if qualifier.test_only:
            found: Any = look_up(value, key) is not MISSING
            if optional and not found:
                return MISSING
        else:
            found = look_up(value, key) if optional else qualify(value, key)
    except Abort:
        raise
    except CelError as error:
        if error.position is None:
            error.position = qualifier.id
        if meter is not None and not stacked:
            meter.charge(1)
        elif meter is not None and not optional:
            meter.observe_qualifier(qualifier, error)
        raise
    if meter is not None and found is not MISSING:
        if stacked:
            meter.observe_qualifier(qualifier, found)
        else:
            meter.charge(1)
    return found


def elements(collection: Any) -> Iterable[Any]:
    """Return what a fold with one variable runs over: the elements of a list, the keys of a map."""
    if type(collection) is tuple or isinstance(collection, CelMap):
        return collection
    raise runtime_error(f"got '{go_type(collection)}', expected iterable type")


def pairs(collection: Any) -> Iterator[tuple[Any, Any]]:
    """Return what a fold with two variables runs over: indices and elements, or keys and values."""
    if type(collection) is tuple:
        return enumerate(collection)
    if isinstance(collection, CelMap):
        return collection.items()
    raise runtime_error("unsupported comprehension range type")


def _content(value: Any, place: str) -> Any:
    """Return what a value behind a `?` holds, MISSING if that is nothing; raises CelError if it is not optional."""
    if type(value) is Optional_:
        return value.value
    raise runtime_error(f"cannot initialize optional {place} from non-optional value {key_text(value)}")


_BUILDERS: Final[dict[type, Any]] = {
    ir.Const: _Builder._const,
    ir.Attribute: _Builder._attribute,
    ir.Logic: _Builder._logic,
    ir.Equality: _Builder._equality,
    ir.Invoke: _Builder._invoke,
    ir.Members: _Builder._members,
    ir.Otherwise: _Builder._otherwise,
    ir.MakeList: _Builder._list,
    ir.MakeMap: _Builder._map,
    ir.MakeMessage: _Builder._message,
    ir.Fold: _Builder._fold,
}
