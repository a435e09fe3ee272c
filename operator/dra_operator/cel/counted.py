"""Counted: a plan as a Python function that counts what an evaluation costs.

The interpreter counts exactly and needs a microsecond for each unit of cost, so an expression that costs nearly
1,000,000 would hold up the operator for more than a second. Here the same count is Python's own arithmetic: what
a step always costs is added up before there is a device, and only sizes are looked at in the evaluation. Errors
are exceptions, caught at the operand where CEL absorbs or keeps them.

Upstream keeps a stack of observed values and charges a call if all its arguments are on it. For a plan that means:
a call is charged if its last argument was evaluated, whether to a value or to an error.

Some of what costs upstream next to nothing takes long in any language: `work` counts that beside the cost, and ends
an evaluation in a tenth of a second at most.

The text that is compiled holds names chosen here and nothing else; whatever a user wrote is a constant under such
a name.
"""

# ruff: noqa: SLF001 - the table at the end is that of the class above it

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra_operator.cel.call_costs import call_cost, fixed_cost, needs_result
from dra_operator.cel.counted_folds import Folds
from dra_operator.cel.counted_help import SCOPE
from dra_operator.cel.counted_lines import UnsupportedError
from dra_operator.cel.meter import COST_LIMIT, LIST_COST, MAP_COST, Meter
from dra_operator.cel.operators import SINGLETONS
from dra_operator.cel.paths import named
from dra_operator.cel.plan import (
    Attribute,
    Choice,
    Const,
    Equality,
    Fold,
    Invoke,
    Logic,
    MakeList,
    MakeMap,
    Members,
    Operand,
    Otherwise,
    Plan,
    Qualifier,
    Step,
    Variable,
)
from dra_operator.cel.types import BOOL, DYN, DYNAMIC, INT, STRING, Kind, Type

Counted: TypeAlias = Callable[[Any, Meter], Any]

_CALL_WORK: Final = 20
"""What a call takes, in steps; below, those that take a text apart."""
_WORK: Final = {
    "duration": 120, "timestamp": 120, "format": 120, "matches": 120, "find": 120, "findAll": 120, "cidr": 120,
    "isCIDR": 120, "validate": 150, "url": 400, "isURL": 400,
}  # fmt: skip
_SCALARS: Final = frozenset(("bool", "int", "uint", "double"))
_COMPARISONS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}


def generate_counted(plan: Plan, types: Mapping[int, Type]) -> Counted | None:
    """Return a function from a device and a meter to the value, or None if only the interpreter can do it.

    It raises CelError without a position; the meter holds the cost afterwards. `types` are those of the checker.
    """
    writer = _Writer(writers=_WRITERS, types=types)
    try:
        writer.function(plan.step)
        code = compile("\n".join(writer.lines), "<counted>", "exec")
    except (UnsupportedError, RecursionError, MemoryError, SyntaxError):
        return None
    scope = {**SCOPE, **writer.constants}
    exec(code, scope)  # noqa: S102 - names chosen below are all there is in it
    counted: Counted = scope["evaluate"]
    return counted


@dataclass(slots=True)
class _Writer(Folds):
    """The lines of a plan: a step becomes the lines that evaluate it, and the name that then holds its value."""

    def function(self, step: Step) -> None:
        """Write the whole function."""
        with self._block("def evaluate(d, m):"):
            self._line("c = w = 0")
            with self._block("try:"):
                self._line(f"r = {self.value(step)}")
            with self._block("except CelError:"):
                self._line(f"if c > {COST_LIMIT}: raise cost_exceeded() from None")
                self._line("raise")
            with self._block("finally:"):
                self._line("m.cost = c")
            self._line(f"if c > {COST_LIMIT}: raise cost_exceeded()")
            self._line("return r")

    def _const(self, step: Const) -> str:
        return self._constant(step.value)

    # --- attributes ---------------------------------------------------------------------------------------------

    def _attribute(self, step: Attribute) -> str:
        self.cost += (not isinstance(step.root, Choice)) - (step.test_id is not None)
        value = self._resolved(step)
        if step.test_id is None:
            return value
        return self._set(f"({value}.value is not MISSING) if type({value}) is Optional_ else {value}")

    def _resolved(self, attribute: Attribute) -> str:
        """Write the evaluation of an attribute without the cost that belongs to the attribute as a whole."""
        root, qualifiers = attribute.root, attribute.qualifiers
        if isinstance(root, Choice):
            return self._chosen(root)
        if isinstance(root, Operand):
            value = self.value(root.step)
            kind = self.types.get(root.step.id, DYN)
        elif root.slot == 0:
            return self._of_device(qualifiers)
        else:
            value = self._variable(root.slot)
            kind = self.types.get(root.id, DYN)
        if not qualifiers:
            return value
        if kind.name == "optional_type":
            found = self._set(value)
            with self._block(f"if {value}.value is not MISSING:"):
                inner = self._set(f"{value}.value")
                self._line(f"{found} = {self._along(inner, qualifiers, optional=True)}")
            return found
        if kind.kind in DYNAMIC:
            # What is dyn may still be an optional value; that is rare enough to leave it to the interpreter.
            self._line(f"if type({value}) is Optional_: raise TypeError")
        return self._along(value, qualifiers)

    def _chosen(self, choice: Choice) -> str:
        condition = self.condition(choice.condition)
        name = self._name("v")
        with self._block(f"if {condition}:"):
            self._line(f"{name} = {self._resolved(choice.chosen)}")
        with self._block("else:"):
            self._line(f"{name} = {self._resolved(choice.other)}")
        return name

    def _variable(self, slot: int) -> str:
        name = f"s{slot}"
        if slot in self.lazy:
            self._line(f"if {name} is MISSING: {self.lazy[slot]}()")
        if slot in self.failing:
            self._line(f"if type({name}) is Failure: raise {name}.error")
        return name

    def _of_device(self, qualifiers: list[Qualifier]) -> str:
        first = tuple(qualifiers[:3])
        keys = named(first)
        plain = not any(part.optional for part in first) and not any(part.test_only for part in first[:2])
        if keys is None or len(keys) < 3 or keys[0] not in ("attributes", "capacity") or not plain:
            return self._along("d.root", qualifiers)
        table, key = f"d.{keys[0]}", self._constant(f"{keys[1]}/{keys[2]}")
        self.cost += 3
        if first[2].test_only:
            return self._set(f"{key} in {table}")
        value = self._set(f"{table}.get({key}, MISSING)")
        self._line(f"if {value} is MISSING: raise no_such_key({self._constant(keys[2])})")
        return self._along(value, qualifiers[3:])

    def _along(self, value: str, qualifiers: list[Qualifier], *, optional: bool = False) -> str:
        """Write the steps of a chain; each costs 1, unless it is optional and finds nothing."""
        if not qualifiers:
            return self._set(f"Optional_({value})") if optional else value
        part = qualifiers[0]
        optional = optional or part.optional
        self.cost += not optional
        key = self._key(part)
        if not part.test_only:
            found = self._set(f"{'look_up' if optional else 'qualify'}({value}, {key})")
        elif optional:
            found = self._set(f"True if look_up({value}, {key}) is not MISSING else MISSING")
        else:
            found = self._set(f"look_up({value}, {key}) is not MISSING")
        if not optional:
            return self._along(found, qualifiers[1:])
        result = self._set("NONE")
        with self._block(f"if {found} is not MISSING:"):
            self.cost += 1
            self._line(f"{result} = {self._along(found, qualifiers[1:], optional=True)}")
        return result

    def _key(self, qualifier: Qualifier) -> str:
        step = qualifier.step
        if step is None:
            return self._constant(qualifier.key)
        key = self._resolved(step) if isinstance(step, Attribute) else self.value(step)
        return f"check_key({key})"

    # --- logic and calls ----------------------------------------------------------------------------------------

    def _logic(self, step: Logic) -> str:
        left, right = step.terms
        if not self._can_fail(left) and self._type(left) == BOOL:
            result = self._set(self.value(left))
            with self._block(f"if {result} is not {step.absorbing}:"):
                self._line(f"{result} = {self.condition(right)}")
            return result
        error = self._set("None")
        result = self._name("v")
        with self._block("try:"):
            self._line(f"{result} = {self.condition(left)}")
        with self._caught():
            self._line(f"{error} = x")
            self._line(f"{result} = {not step.absorbing}")
        with self._block(f"if {result} is not {step.absorbing}:"):
            with self._block("try:"):
                self._line(f"{result} = {self.condition(right)}")
            with self._block("except CelError as x:"):
                self._line(f"if {error} is None or type(x) is Abort: raise")
                self._line(f"raise {error} from None")
            self._line(f"if {error} is not None and {result} is not {step.absorbing}: raise {error}")
        return result

    def _arguments(self, steps: tuple[Step, ...], *, eager: bool) -> tuple[list[str], str | None]:
        """Write the evaluation of arguments.

        Return their names, and that of the first error among those which do not keep the call from being charged.
        """
        values = []
        error: str | None = None
        for index, step in enumerate(steps):
            if not (eager or index == len(steps) - 1) or not self._can_fail(step):
                values.append(self.value(step))
                continue
            error = error or self._set("None")
            value = self._name("v")
            with self._block("try:"):
                self._line(f"{value} = {self.value(step)}")
            with self._caught():
                self._line(f"{value} = x")
                self._line(f"if {error} is None: {error} = x")
            values.append(value)
        return values, error

    def _equality(self, step: Equality) -> str:
        values, error = self._arguments(step.arguments, eager=True)
        kinds = [self._type(argument) for argument in step.arguments]
        scalar = any(kind.name in _SCALARS for kind in kinds)
        both = ", ".join(values)
        if kinds[0].name in _SCALARS and kinds[1].name in _SCALARS:
            self.cost += 1
        else:
            self._line(f"c += {'inequality_cost' if step.negated else 'equality_cost'}({both})")
        if not scalar and STRING not in kinds:
            self._line(f"w += work_of({values[0]})")
        if error is not None:
            self._line(f"if {error} is not None: raise {error}")
        if kinds[0] == kinds[1] and kinds[0] in (INT, BOOL, STRING):
            return self._set(f"{values[0]} {'!=' if step.negated else '=='} {values[1]}")
        return self._set(f"{'not_equal' if step.negated else 'equal'}({both})")

    def _invoke(self, step: Invoke) -> str:
        function = step.function
        name, overload = function.name, step.overload
        if name == "@not_strictly_false":
            return self._not_strictly_false(step)
        known = self._known(step)
        if known is not None:
            return known
        fixed = fixed_cost(name, overload)
        values, error = self._arguments(step.arguments, eager=function.eager)
        self.cost += fixed or 0
        names = f"{self._constant(name)}, {self._constant(overload)}, [{', '.join(values)}]"
        late = needs_result(name, overload)
        if fixed is None and not late:
            self._line(f"c += call_cost({names}, None)")
        if error is not None:
            with self._block(f"if {error} is not None:"):
                if late:
                    self._line(f"c += call_cost({names}, {error})")
                self._line(f"raise {error}")
        if name not in SINGLETONS:
            self.steps += _WORK.get(name, _CALL_WORK)
            for part, value in zip(step.arguments, values, strict=True):
                if self._type(part).kind not in (Kind.STRING, Kind.OPAQUE) and not isinstance(part, Const):
                    self._line(f"w += work_of({value})")
        elif name == "@in" and self._type(step.arguments[0]) != STRING:
            self._line(f"w += work_of({values[1]})")
        if not late:
            return self._called(step, values)
        result = self._name("v")
        with self._block("try:"):
            self._line(f"{result} = {self._called(step, values)}")
        with self._block("except CelError as x:"):
            self._line(f"c += call_cost({names}, x)")
            self._line("raise")
        self._line(f"c += call_cost({names}, {result})")
        return result

    def _known(self, step: Invoke) -> str | None:
        """Return the value of a call with constants alone, with its cost added; None if it has other arguments."""
        values = [part.value for part in step.arguments if isinstance(part, Const)]
        if len(values) < len(step.arguments):
            return None
        try:
            result = step.function.call(*values)
            self.cost += call_cost(step.function.name, step.overload, values, result)
        except Exception:  # noqa: BLE001 - it fails again in its place
            return None
        return self._constant(result)

    def _called(self, step: Invoke, values: list[str]) -> str:
        function = step.function
        if function.name == "cel.@mapInsert" and self._is_built(step.arguments[0]):
            return self._set(f"inserted({', '.join(values)})")
        kinds = [self._type(part) for part in step.arguments]
        if function.name == "@in" and kinds[0] == STRING:
            return self._set(f"contained_text({', '.join(values)})")
        if function.name in _COMPARISONS and kinds[0] == kinds[1] and kinds[0] in (INT, STRING):
            return self._set(f"{values[0]} {_COMPARISONS[function.name]} {values[1]}")
        if function.name == "!_" and kinds[0] == BOOL:
            return self._set(f"not {values[0]}")
        return self._set(f"{self._constant(function.callee(kinds))}({', '.join(values)})")

    def _is_built(self, step: Step) -> bool:
        """Return whether a step is the accumulator of a fold around it, with nothing after it."""
        if not isinstance(step, Attribute) or not isinstance(step.root, Variable) or step.qualifiers:
            return False
        return step.root.slot in self.building

    def _not_strictly_false(self, step: Invoke) -> str:
        self.cost += 1
        result = self._name("v")
        with self._block("try:"):
            self._line(f"{result} = {self.value(step.arguments[0])} is not False")
        with self._caught():
            self._line(f"{result} = True")
        return result

    def _members(self, step: Members) -> str:
        return self._set(f"hashed_key({self.value(step.argument)}) in {self._constant(step.keys)}")

    def _otherwise(self, step: Otherwise) -> str:
        left = self.value(step.left)
        self._line(f"if type({left}) is not Optional_: raise no_overload()")
        result = self._set(f"{left}.value" if step.unwrap else left)
        with self._block(f"if {left}.value is MISSING:"):
            self._line(f"{result} = {self.value(step.right)}")
        return result

    # --- aggregates and folds -----------------------------------------------------------------------------------

    def _list(self, step: MakeList) -> str:
        self.cost += LIST_COST
        if step.optional:
            raise UnsupportedError
        values = [self.value(element) for element in step.elements]
        return self._set(f"({', '.join(values)},)")

    def _map(self, step: MakeMap) -> str:
        self.cost += MAP_COST
        if any(optional for _, _, optional in step.entries):
            raise UnsupportedError
        entries = [f"({self.value(key)}, {self.value(value)})" for key, value, _ in step.entries]
        return self._set(f"CelMap(({', '.join(entries)},))")


_WRITERS: Final[dict[type, Any]] = {
    Const: _Writer._const,
    Attribute: _Writer._attribute,
    Logic: _Writer._logic,
    Equality: _Writer._equality,
    Invoke: _Writer._invoke,
    Members: _Writer._members,
    Otherwise: _Writer._otherwise,
    MakeList: _Writer._list,
    MakeMap: _Writer._map,
    Fold: _Writer._fold,
}
