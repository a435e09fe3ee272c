"""Counted: a plan as a Python function that counts what an evaluation costs.

The interpreter counts exactly and needs a microsecond for each unit of cost, so an expression that costs nearly
1,000,000 would hold up the operator for more than a second. Here the same count is Python's own arithmetic: what
a step always costs is added up before there is a device, and only sizes are looked at in the evaluation. Errors
are exceptions, caught at the operand where CEL absorbs or keeps them.

Upstream keeps a stack of observed values and charges a call if all its arguments are on it. For a plan that means:
a call is charged if its last argument was evaluated, whether to a value or to an error.

Some of what costs upstream next to nothing takes long in any language: that is counted beside the cost (work.py), and
ends an evaluation in a tenth of a second at most.

Like the code of selectors (codegen.py) it is put together from nodes (trees.py). That is expressions within each other,
which know neither costs nor errors; this is one statement a step, so that each has its cost and its error.
"""

# ruff: noqa: SLF001 - the table at the end is that of the class above it

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra_operator.cel.costs.call_costs import LIST_COST, MAP_COST, call_cost, fixed_cost, needs_result
from dra_operator.cel.costs.meter import COST_LIMIT, Meter
from dra_operator.cel.generation import trees
from dra_operator.cel.generation.counted_folds import Folds
from dra_operator.cel.generation.counted_help import SCOPE
from dra_operator.cel.generation.counted_lines import (
    AGAIN,
    differs,
    holds,
    is_missing,
    is_there,
    value_of,
)
from dra_operator.cel.generation.trees import (
    COMPARISONS,
    UnsupportedError,
    add_to,
    call,
    call_of,
    compare,
    is_a,
    load,
    part_of,
    set_to,
    tuple_of,
    when,
)
from dra_operator.cel.operators import SINGLETONS
from dra_operator.cel.paths import table_entry
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
from dra_operator.cel.types import BOOL, DYN, DYNAMIC, INT, STRING, Type
from dra_operator.cel.work import LONG, calling, counted_as, least

Counted: TypeAlias = Callable[[Any, Meter], Any]

_OPERATOR: Final = 150
"""What an operator takes that is a function here; below, what it takes to count by sizes."""
_COUNTING: Final = 400
_LONG_BEFORE: Final = 100_000
"""Work that is left to the evaluation, although it could be done before."""
_SMALL: Final = frozenset(("bool", "int", "uint", "double", "kubernetes.Semver", "net.IP", "net.CIDR"))
"""Types whose values are all of about one size."""
_SCALARS: Final = frozenset(("bool", "int", "uint", "double"))
_TELL: Final = [
    trees.Assign([trees.Attribute(load("m"), attribute, trees.STORE)], load(counted))
    for attribute, counted in (("cost", "c"), ("spent", "w"))
]
_TOO_MUCH: Final = compare(load("c"), COMPARISONS["_>_"], trees.Constant(COST_LIMIT))
_END: Final = when(_TOO_MUCH, trees.Raise(call("cost_exceeded"), None))
_END_FROM_NOTHING: Final = when(_TOO_MUCH, trees.Raise(call("cost_exceeded"), trees.Constant(None)))


def generate_counted(plan: Plan, types: Mapping[int, Type]) -> Counted | None:
    """Return a function from a device and a meter to the value, or None if only the interpreter can do it.

    It raises CelError without a position; the meter holds the cost and the work afterwards. `types` are those of
    the checker.
    """
    writer = _Writer(writers=_WRITERS, types=types)
    try:
        definition = writer.function(plan.step)
        return trees.made(definition, "evaluate", {**SCOPE, **writer.constants.named})
    except (UnsupportedError, RecursionError, MemoryError, SyntaxError):
        return None


@dataclass(slots=True)
class _Writer(Folds):
    """The statements of a plan."""

    def function(self, step: Step) -> ast.stmt:
        """Return the whole function."""
        nothing = trees.Constant(0)
        attempt = trees.Try([], [trees.handler([_END_FROM_NOTHING, AGAIN])], [], list(_TELL))
        with self._within(attempt.body):
            self._let("r", self.value(step))
        body = [set_to("c", nothing), set_to("w", nothing), attempt, _END, trees.Return(load("r"))]
        return trees.function("evaluate", ("d", "m"), body)

    def _const(self, step: Const) -> str:
        return self._constant(step.value)

    # --- attributes ---------------------------------------------------------------------------------------------

    def _attribute(self, step: Attribute) -> str:
        self.cost += (not isinstance(step.root, Choice)) - (step.test_id is not None)
        value = self._resolved(step)
        if step.test_id is None:
            return value
        present = is_there(part_of(value_of(value), "value"))
        return self._set(trees.IfExp(is_a("Optional_", value_of(value)), present, value_of(value)))

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
            return self._along_optional(value, qualifiers)
        if kind.kind in DYNAMIC:
            # What is dyn may still be an optional value; that is rare enough to leave it to the interpreter.
            self._write(when(is_a("Optional_", value_of(value)), trees.Raise(load("TypeError"), None)))
        return self._along(value, qualifiers)

    def _along_optional(self, value: str, qualifiers: list[Qualifier]) -> str:
        """Write the steps of a chain that starts at an optional value."""
        found = self._set(value_of(value))
        with self._if(is_there(part_of(value_of(value), "value"))):
            inner = self._set(part_of(value_of(value), "value"))
            self._let(found, self._along(inner, qualifiers, optional=True))
        return found

    def _chosen(self, choice: Choice) -> str:
        condition = self.condition(choice.condition)
        name = self._name("v")
        with self._if(value_of(condition)) as block:
            self._let(name, self._resolved(choice.chosen))
        with self._into(block.orelse):
            self._let(name, self._resolved(choice.other))
        return name

    def _variable(self, slot: int) -> str:
        name = f"s{slot}"
        if slot in self.lazy:
            self._write(when(is_missing(load(name)), trees.Expr(call(self.lazy[slot]))))
        if slot in self.failing:
            error = part_of(load(name), "error")
            self._write(when(is_a("Failure", load(name)), trees.Raise(error, None)))
        return name

    def _of_device(self, qualifiers: list[Qualifier]) -> str:
        entry = table_entry(tuple(qualifiers))
        if entry is None or qualifiers[2].optional:
            return self._along(self._set(part_of(load("d"), "root")), qualifiers)
        table, key = part_of(load("d"), entry[0]), trees.Constant(entry[1])
        self.cost += 3
        if qualifiers[2].test_only:
            return self._set(compare(key, trees.IN, table))
        value = self._set(call_of(part_of(table, "get"), key, load("MISSING")))
        absent = trees.Raise(call("no_such_key", trees.Constant(qualifiers[2].key)), None)
        self._write(when(is_missing(load(value)), absent))
        return self._along(value, qualifiers[3:])

    def _along(self, value: str, qualifiers: list[Qualifier], *, optional: bool = False) -> str:
        """Write the steps of a chain; each costs 1, unless it is optional and finds nothing."""
        if not qualifiers:
            return self._set(call("Optional_", value_of(value))) if optional else value
        part = qualifiers[0]
        optional = optional or part.optional
        self.cost += not optional
        key = self._key(part)
        looked_up = call("look_up", value_of(value), key)
        if part.test_only and optional:
            present = trees.IfExp(is_there(looked_up), trees.Constant(value=True), load("MISSING"))
            found = self._set(present)
        elif part.test_only:
            found = self._set(is_there(looked_up))
        else:
            found = self._set(looked_up if optional else call("qualify", value_of(value), key))
        if not optional:
            return self._along(found, qualifiers[1:])
        result = self._set(load("NONE"))
        with self._if(is_there(load(found))):
            self.cost += 1
            self._let(result, self._along(found, qualifiers[1:], optional=True))
        return result

    def _key(self, qualifier: Qualifier) -> ast.expr:
        step = qualifier.step
        if step is None:
            return value_of(self._constant(qualifier.key))
        key = self._resolved(step) if isinstance(step, Attribute) else self.value(step)
        return call("check_key", value_of(key))

    # --- logic and calls ----------------------------------------------------------------------------------------

    def _logic(self, step: Logic) -> str:
        left, right = step.terms
        absorbing = step.absorbing
        error = self._set(trees.Constant(None))
        result = self._name("v")
        with self._try() as attempt:
            self._let(result, self.condition(left))
        with self._caught(attempt):
            self._let(error, "x")
            self._let(result, str(not absorbing))
        with self._if(differs(result, absorbing)):
            with self._try() as attempt:
                self._let(result, self.condition(right))
            with self._except(attempt):
                first = trees.BoolOp(trees.OR, [holds(error, None), is_a("Abort", load("x"))])
                self._write(when(first, AGAIN))
                self._write(trees.Raise(load(error), trees.Constant(None)))
            failed = trees.BoolOp(trees.AND, [differs(error, None), differs(result, absorbing)])
            self._write(when(failed, trees.Raise(load(error), None)))
        return result

    def _arguments(
        self, steps: tuple[Step, ...], *, eager: bool, fixed: int | None
    ) -> tuple[list[str], str | None]:
        """Write the evaluation of arguments, and the cost of the call if that is `fixed`.

        Return their names, and that of the first error among those which do not keep the call from being charged. An
        error that nothing follows, neither a cost nor an argument that could cost something, needs no name.
        """
        values = []
        error: str | None = None
        last = len(steps) - 1
        for index, step in enumerate(steps):
            if fixed and index == (0 if eager else last):
                self.cost += fixed
            followed = fixed is None or not all(isinstance(other, Const) for other in steps[index + 1 :])
            kept = (eager or index == last) and (followed or error is not None)
            if not kept or not self._can_fail(step):
                values.append(self.value(step))
                continue
            error = error or self._set(trees.Constant(None))
            value = self._name("v")
            with self._try() as attempt:
                self._let(value, self.value(step))
            with self._caught(attempt):
                if fixed is None:
                    self._let(value, "x")
                self._write(set_to(error, trees.BoolOp(trees.OR, [load(error), load("x")])))
            values.append(value)
        return values, error

    def _raise(self, error: str | None) -> None:
        """Write that an argument's error is that of the call."""
        if error is not None:
            self._write(when(differs(error, None), trees.Raise(load(error), None)))

    def _equality(self, step: Equality) -> str:
        kinds = [self._type(argument) for argument in step.arguments]
        scalar = any(kind.name in _SCALARS for kind in kinds)
        fixed = 1 if kinds[0].name in _SCALARS and kinds[1].name in _SCALARS else None
        values, error = self._arguments(step.arguments, eager=True, fixed=fixed)
        left, right = map(value_of, values)
        if fixed is None:
            counts = "inequality_cost" if step.negated else "equality_cost"
            self.work += _COUNTING
            self._write(add_to("c", call(counts, left, right)))
        if not scalar and STRING not in kinds:
            self._count_work("compare", left, right)
        self._raise(error)
        if kinds[0] == kinds[1] and kinds[0] in (INT, BOOL, STRING):
            return self._set(compare(left, trees.NOT_EQUAL if step.negated else trees.EQUAL, right))
        self.work += _OPERATOR * 2
        return self._set(call("not_equal" if step.negated else "equal", left, right))

    def _invoke(self, step: Invoke) -> str:
        function = step.function
        name, overload = function.name, step.overload
        known = self._known(step)
        if known is not None:
            return known
        fixed = fixed_cost(name, overload)
        values, error = self._arguments(step.arguments, eager=function.eager, fixed=fixed)
        late = needs_result(name, overload)

        def charge(result: str) -> ast.stmt:
            sized = trees.List(list(map(value_of, values)), trees.LOAD)
            constants = trees.Constant(name), trees.Constant(overload)
            return add_to("c", call("call_cost", *constants, sized, value_of(result)))

        if fixed is None:
            self.work += _COUNTING
        if fixed is None and not late:
            self._write(charge("None"))
        if error is not None and late:
            with self._if(differs(error, None)):
                self._write(charge(error))
        self._raise(error)
        self._work(step, values)
        if not late:
            return self._called(step, values)
        result = self._name("v")
        with self._try() as attempt:
            self._let(result, self._called(step, values))
        with self._except(attempt):
            self._write(charge("x"))
            self._write(AGAIN)
        self._write(charge(result))
        return result

    def _work(self, step: Invoke, values: list[str]) -> None:
        """Write what a call takes beside its cost."""
        name = step.function.name
        if name in SINGLETONS and name not in LONG:
            return
        self.work += least(step)
        kinds = [self._type(part) for part in step.arguments]
        if all(kind.name in _SMALL for kind in kinds):
            return
        sized = list(map(value_of, values))
        if name == "cel.@mapInsert" and self._is_built(step.arguments[0]):
            # It is not copied.
            sized[0] = trees.Constant(None)
        self._count_work("start", trees.Constant(counted_as(step)), tuple_of(*sized))

    def _count_work(self, helper: str, *arguments: ast.expr) -> None:
        """Write that work is going to be done, unless it is too much."""
        self.work += _COUNTING
        self._write(set_to("w", call(helper, load("w"), *arguments)))

    def _known(self, step: Invoke) -> str | None:
        """Return the value of a call with constants alone, with its cost added.

        None if it has other arguments, or takes long: code is not made any faster than others are evaluated. A list is
        made each time: as a key of a map it is another one each time.
        """
        values = [part.value for part in step.arguments if isinstance(part, Const)]
        if len(values) < len(step.arguments) or calling(counted_as(step), values) > _LONG_BEFORE:
            return None
        try:
            result = step.function.call(*values)
            cost = call_cost(step.function.name, step.overload, values, result)
        except Exception:  # noqa: BLE001 - it fails again in its place
            return None
        if type(result) is tuple:
            return None
        self.cost += cost
        return self._constant(result)

    def _called(self, step: Invoke, values: list[str]) -> str:
        function, arguments = step.function, list(map(value_of, values))
        if function.name == "cel.@mapInsert" and self._is_built(step.arguments[0]):
            return self._set(call("built", *arguments))
        kinds = [self._type(part) for part in step.arguments]
        if function.name == "@in" and kinds[0] == STRING:
            return self._set(call("contained_text", *arguments))
        if function.name in COMPARISONS and kinds[0] == kinds[1] and kinds[0] in (INT, STRING):
            return self._set(compare(arguments[0], COMPARISONS[function.name], arguments[1]))
        self.work += _OPERATOR
        return self._set(call(self._constant(function.callee(kinds)), *arguments))

    def _is_built(self, step: Step) -> bool:
        """Return whether a step is the accumulator of a fold around it, with nothing after it."""
        if not isinstance(step, Attribute) or not isinstance(step.root, Variable) or step.qualifiers:
            return False
        return step.root.slot in self.building

    def _members(self, step: Members) -> str:
        key = call("hashed_key", value_of(self.value(step.argument)))
        return self._set(compare(key, trees.IN, load(self._constant(step.keys))))

    def _otherwise(self, step: Otherwise) -> str:
        left = value_of(self.value(step.left))
        optional = is_a("Optional_", left)
        self._write(when(trees.UnaryOp(trees.NOT, optional), trees.Raise(call("no_overload"), None)))
        result = self._set(part_of(left, "value") if step.unwrap else left)
        with self._if(is_missing(part_of(left, "value"))):
            self._let(result, self.value(step.right))
        return result

    # --- aggregates and folds -----------------------------------------------------------------------------------

    def _list(self, step: MakeList) -> str:
        self.cost += LIST_COST
        if step.optional:
            raise UnsupportedError
        return self._set(tuple_of(*[value_of(self.value(element)) for element in step.elements]))

    def _map(self, step: MakeMap) -> str:
        self.cost += MAP_COST
        if any(optional for _, _, optional in step.entries):
            raise UnsupportedError
        entries = [
            tuple_of(value_of(self.value(key)), value_of(self.value(value))) for key, value, _ in step.entries
        ]
        return self._set(call("made_map", *entries))


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
