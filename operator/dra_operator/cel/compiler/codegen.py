"""Code generation: a plan as a Python function (compilation to Python's syntax trees, with a fallback).

The function evaluates from left to right as if nothing could fail. Whatever fails, and whatever it cannot say, it hands
to `otherwise`, the interpreter, which evaluates from the start and knows which errors are absorbed: evaluation has no
effects. Names in the code are chosen here; what a user wrote is in it only as constants.
"""

# ruff: noqa: SLF001 - the table at the end is that of the class above it

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from dra_operator.api.semver import Semver
from dra_operator.cel import interpretable as ir
from dra_operator.cel import operators
from dra_operator.cel.compiler import runtime, trees
from dra_operator.cel.compiler.folds import Pieces, pieces_of
from dra_operator.cel.compiler.static_types import certain_type, type_of_elements
from dra_operator.cel.library.quantities import Quantity_
from dra_operator.cel.library.regex import FUNCTIONS, pattern
from dra_operator.cel.paths import Aliases, bound_way, is_binding, table_entry, way
from dra_operator.cel.types import BOOL, INT, STRING, Type
from dra_operator.cel.values import MISSING, cel_equal

Compiled: TypeAlias = Callable[[Any], Any]
_PLAIN: Final = {BOOL: bool, INT: int, STRING: str}
"""The static types whose values Python compares as CEL does, as long as both sides have the same type."""
_LONGEST_UNROLLED: Final = 8
_ORDERINGS: Final = {"isGreaterThan": trees.COMPARISONS["_>_"], "isLessThan": trees.COMPARISONS["_<_"]}
_ORDER_KEYS: Final = {Quantity_: "nano", Semver: "key"}
_FIELDS: Final = {"driver": "driver", "allowMultipleAllocations": "multiple"}
"""What a prepared device calls the fields that are no tables."""
_HELPERS: Final = {
    "truth": runtime.truth, "elements": runtime.elements, "pairs": runtime.pairs, "at": runtime.at,
    "along": runtime.along, "tested": runtime.tested, "or_value": runtime.or_value,
    "or_optional": runtime.or_optional, "member": runtime.member, "made_map": runtime.made_map,
    "added": runtime.added, "equal": cel_equal, "not_equal": operators.not_equal,
    "MISSING": MISSING,
    "type": type, "all": all, "any": any, "sum": sum, "tuple": tuple, "bool": bool, "int": int, "str": str,
    "Semver": Semver, "Quantity_": Quantity_, "Exception": Exception,
}  # fmt: skip
_BROKEN: Final = trees.part_of(trees.load("d"), "broken")
_REFUSE_BROKEN: Final = trees.when(
    trees.compare(_BROKEN, trees.IS_NOT, trees.Constant(None)), trees.Raise(_BROKEN, None)
)
_ASK_ANOTHER: Final = trees.handler([trees.Return(trees.call("otherwise", trees.load("d")))], "Exception")


Marks: TypeAlias = Mapping[int, complex]
_NO_MARKS: Final[Marks] = MappingProxyType({})


def generate(
    plan: ir.Plan, types: Mapping[int, Type], otherwise: Compiled, *, answer: Type, marks: Marks = _NO_MARKS
) -> Compiled | None:
    """Return a function from prepared devices to values, or None if the interpreter must do it all.

    `types` are those of the checker, by node; `otherwise` answers where the function does not; with an
    `answer` of bool, any other value is handed to it as well. `marks` are what stands in the code for literals and
    paths that come later, by node.
    """
    generator = _Generator(types, marks)
    try:
        value = generator.expression(plan.step)
        if answer is BOOL and generator.type_of(plan.step) is not BOOL:
            value = trees.call("truth", value)
        return guarded_function(value, {**_HELPERS, **generator.constants.named, "otherwise": otherwise})
    except (trees.UnsupportedError, RecursionError, MemoryError, SyntaxError):
        return None


@dataclass(slots=True)
class _Generator:
    types: Mapping[int, Type]
    marks: Marks
    constants: trees.Constants = field(default_factory=trees.Constants)
    aliases: Aliases = field(default_factory=dict)
    sure: dict[int, Type] = field(default_factory=dict)
    """The types of variables that run over constants."""
    unrolled: dict[int, ir.Const] = field(default_factory=dict)
    """The constants that variables stand for at the moment, where a fold is written out."""
    sums: dict[int, Type] = field(default_factory=dict)
    """The types of arithmetic, by node."""
    names: int = 0
    nested: int = 0
    """How many folds we are inside of; there, names must not be assigned in expressions."""

    def expression(self, step: ir.Step) -> ast.expr:
        """Return an expression that gives the value of a step, to be evaluated once."""
        step = self.known(step)
        return _EXPRESSIONS.get(type(step), _unsupported)(self, step)  # type: ignore[no-any-return]

    def type_of(self, step: ir.Step) -> Type:
        """Return the type that the value of a step is certain to have; dyn if there is none."""
        return certain_type(step, self.types, self.aliases, self.sure, self.sums)

    def known(self, step: ir.Step) -> ir.Step:
        """Return the constant that a step stands for, or the step."""
        if isinstance(step, ir.Attribute) and isinstance(step.root, ir.Variable) and not step.qualifiers:
            return self.unrolled.get(step.root.slot, step)
        return step

    def condition(self, step: ir.Step) -> ast.expr:
        """Return an expression that gives a bool or raises."""
        value = self.expression(step)
        return value if self.type_of(step) is BOOL else trees.call("truth", value)

    def constant(self, value: Any) -> ast.expr:
        """Return a constant as a literal of Python, or as a name for it."""
        return self.constants.add(value)

    def _const(self, step: ir.Const) -> ast.expr:
        return self._marked(step.id, step.value)

    def _marked(self, node: int, value: Any) -> ast.expr:
        """Return what a literal or a path says, or the mark of one that comes later."""
        mark = self.marks.get(node)
        return self.constant(value) if mark is None else trees.Constant(mark)

    # --- attributes ---------------------------------------------------------------------------------------------

    def _attribute(self, step: ir.Attribute) -> ast.expr:
        root = step.root
        if isinstance(root, ir.Choice):
            if step.test_id is not None:
                raise trees.UnsupportedError
            chosen, other = self.expression(root.chosen), self.expression(root.other)
            return trees.IfExp(self.condition(root.condition), chosen, other)
        qualifiers = way(step, self.aliases)
        if qualifiers is not None:
            return self._of_device(qualifiers, tested=step.test_id is not None)
        if isinstance(root, ir.Variable):
            constant = self.unrolled.get(root.slot)
            value: ast.expr = trees.load(f"s{root.slot}") if constant is None else self._const(constant)
        else:
            assert isinstance(root, ir.Operand)
            value = self.expression(root.step)
        return self._along(value, tuple(step.qualifiers), tested=step.test_id is not None)

    def _of_device(self, qualifiers: tuple[ir.Qualifier, ...], *, tested: bool) -> ast.expr:
        """Return the expression of a part of the device, by the shortest way there is."""
        table = self._table(qualifiers)
        if table is not None:
            plain, key = table
            last = qualifiers[2]
            if last.test_only:
                return trees.compare(key, trees.IN, plain)
            if not last.optional:
                value = trees.Subscript(plain, key, trees.LOAD)
                return self._along(value, qualifiers[3:], tested=tested)
        first = qualifiers[0] if qualifiers else None
        if first is not None and not (first.test_only or first.optional or first.step is not None):
            plain_name = _FIELDS.get(first.key)
            if plain_name is not None:
                return self._along(trees.part_of(trees.load("d"), plain_name), qualifiers[1:], tested=tested)
        return self._along(trees.part_of(trees.load("d"), "root"), qualifiers, tested=tested)

    def _table(self, qualifiers: tuple[ir.Qualifier, ...]) -> tuple[ast.expr, ast.expr] | None:
        """Return the flat table and the key in it of what lies at a constant path, or None for other ways."""
        entry = table_entry(qualifiers)
        return entry and (trees.part_of(trees.load("d"), entry[0]), self._marked(qualifiers[2].id, entry[1]))

    def _along(self, value: ast.expr, qualifiers: tuple[ir.Qualifier, ...], *, tested: bool) -> ast.expr:
        if not qualifiers:
            return value
        plain = not any(part.optional or part.test_only for part in qualifiers)
        if plain and not tested:
            for part in qualifiers:
                value = trees.call("at", value, self._key(part))
            # A value that is optional makes everything after it optional; `at` finds nothing in it and raises.
            return value
        steps = [
            trees.tuple_of(self._key(part), trees.Constant(part.optional), trees.Constant(part.test_only))
            for part in qualifiers
        ]
        found = trees.call("along", value, *steps)
        return trees.call("tested", found) if tested else found

    def _key(self, qualifier: ir.Qualifier) -> ast.expr:
        return self.constant(qualifier.key) if qualifier.step is None else self.expression(qualifier.step)

    # --- logic and comparison -----------------------------------------------------------------------------------

    def _logic(self, step: ir.Logic) -> ast.expr:
        operator = trees.OR if step.absorbing else trees.AND
        return trees.BoolOp(operator, [self.condition(term) for term in step.terms])

    def _equality(self, step: ir.Equality) -> ast.expr:
        operator = trees.NOT_EQUAL if step.negated else trees.EQUAL
        helper = "not_equal" if step.negated else "equal"
        left, right = map(self.known, step.arguments)
        return self._plainly(operator, helper, left, right)

    def _plainly(self, operator: ast.cmpop, helper: str, left: ir.Step, right: ir.Step) -> ast.expr:
        """Return a comparison: Python's own where both sides are of one plain type, known or looked at first."""
        kinds = self.type_of(left), self.type_of(right)
        if kinds[0] == kinds[1] and kinds[0] in _PLAIN:
            return trees.compare(self.expression(left), operator, self.expression(right))
        for one, other, kind in ((left, right, kinds[1]), (right, left, kinds[0])):
            if kind in _PLAIN and isinstance(other, ir.Const) and not self.nested:
                value, again = self._twice(one)
                constant = self.expression(other)
                sides = (again, constant) if one is left else (constant, again)
                return trees.IfExp(
                    trees.is_a(_PLAIN[kind].__name__, value),
                    trees.compare(sides[0], operator, sides[1]),
                    trees.call(helper, *sides),
                )
        return trees.call(helper, self.expression(left), self.expression(right))

    def _twice(self, step: ir.Step) -> tuple[ast.expr, ast.expr]:
        """Return an expression that gives a value and keeps it, and one that gives it again."""
        self.names += 1
        name = f"v{self.names}"
        return trees.NamedExpr(trees.Name(name, trees.STORE), self.expression(step)), trees.load(name)

    # --- calls --------------------------------------------------------------------------------------------------

    def _invoke(self, step: ir.Invoke) -> ast.expr:
        step = replace(step, arguments=tuple(map(self.known, step.arguments)))
        if all(isinstance(argument, ir.Const) for argument in step.arguments):
            return self.constant(self._constant_of(step))
        of_this_function = _CALLS.get(step.function.name, _no_code_of_its_own)
        return of_this_function(self, step) or self._call(step)

    def _call(self, step: ir.Invoke) -> ast.expr:
        """Return the call of the function that implements CEL's."""
        function, arguments = step.function, step.arguments
        callee = function.callee(map(self.type_of, arguments))
        if callee is not function.direct and function.direct is not None:
            guarded = self._guarded(step, function.direct, arguments)
            if guarded is not None:
                return guarded
        return trees.call_of(self.constant(callee), *map(self.expression, arguments))

    def _guarded(
        self, step: ir.Invoke, direct: Callable[..., Any], given: Sequence[ir.Step]
    ) -> ast.expr | None:
        """Return a call of `direct` behind a look at the only argument that is no constant; None if one is not enough.

        What a device publishes has no type that is certain, and to look at it is faster than to choose an overload.
        """
        function = step.function
        others = [part for part in step.arguments if not isinstance(part, ir.Const)]
        if self.nested or len(others) != 1:
            return None
        wanted = function.arguments[step.arguments.index(others[0])]
        kinds = [wanted if part is others[0] else self.type_of(part) for part in step.arguments]
        if wanted not in _PLAIN or function.callee(kinds) is not function.direct:
            return None
        value, again = self._twice(others[0])
        calls = [
            trees.call_of(
                self.constant(callee),
                *[again if part is others[0] else self.expression(part) for part in parts],
            )
            for callee, parts in ((direct, given), (function.call, step.arguments))
        ]
        return trees.IfExp(trees.is_a(_PLAIN[wanted].__name__, value), *calls)

    def _comparison(self, step: ir.Invoke) -> ast.expr:
        operator = trees.COMPARISONS[step.function.name]
        left, right = step.arguments
        return self._compared_to(operator, left, right) or self._plainly(
            operator, self.constants.add_named(step.function.call), left, right
        )

    def _compared_to(self, operator: ast.cmpop, left: ir.Step, right: ir.Step) -> ast.expr | None:
        """Return `a.compareTo(b) >= 0` as a comparison of the two."""
        zero = isinstance(right, ir.Const) and type(right.value) is int and right.value == 0
        if zero and isinstance(left, ir.Invoke) and left.function.name == "compareTo":
            return self._ordered(operator, *left.arguments)
        return None

    def _ordering(self, step: ir.Invoke) -> ast.expr | None:
        return self._ordered(_ORDERINGS[step.function.name], *step.arguments)

    def _ordered(self, operator: ast.cmpop, left: ir.Step, right: ir.Step) -> ast.expr | None:
        """Return the comparison of a quantity or version with a constant one; another type on the left raises."""
        if self.nested or not isinstance(right, ir.Invoke):
            return None
        try:
            constant = self._constant_of(right)
        except trees.UnsupportedError:
            return None
        kind = type(constant)
        key = _ORDER_KEYS.get(kind)
        if key is None:
            return None
        other = self._marked(right.arguments[0].id, getattr(constant, key))
        if self.type_of(left).name == getattr(kind, "type_name", "kubernetes.Semver"):
            return trees.compare(trees.part_of(self.expression(left), key), operator, other)
        value, again = self._twice(left)
        compared = trees.compare(trees.part_of(again, key), operator, other)
        return trees.IfExp(
            trees.is_a(kind.__name__, value), compared, trees.call("truth", trees.Constant(None))
        )

    @staticmethod
    def _constant_of(step: ir.Invoke) -> Any:
        """Return the value of a call with constants alone."""
        values = [part.value for part in step.arguments if isinstance(part, ir.Const)]
        if len(values) < len(step.arguments):
            raise trees.UnsupportedError
        try:
            return step.function.call(*values)
        except Exception:  # noqa: BLE001 - whatever it is, the interpreter says it in its place
            raise trees.UnsupportedError from None

    def _has_key(self, step: ir.Invoke) -> ast.expr | None:
        key, collection = step.arguments
        if not (
            isinstance(key, ir.Const) and type(key.value) is str and isinstance(collection, ir.Attribute)
        ):
            return None
        qualifiers = way(collection, self.aliases)
        if qualifiers is None or len(qualifiers) != 2:
            return None
        table = self._table((*qualifiers, ir.Qualifier(0, key.value)))
        return None if table is None else trees.compare(table[1], trees.IN, table[0])

    def _negation(self, step: ir.Invoke) -> ast.expr:
        return trees.UnaryOp(trees.NOT, self.condition(step.arguments[0]))

    def _search(self, step: ir.Invoke) -> ast.expr | None:
        """Return the search of a text with a pattern that is small; one that is not known is for the interpreter."""
        if not step.known_pattern:
            raise trees.UnsupportedError
        if step.function.name != "matches":
            return None
        text, regex = step.arguments
        assert isinstance(regex, ir.Const)
        known = pattern(regex.value)
        # Others can be large, and code is kept longer than they are.
        if not known.is_plain:
            return None
        if self.type_of(text) == STRING:
            return trees.call_of(self.constant(known.matches), self.expression(text))
        return self._guarded(step, known.matches, (text,))

    def _addition(self, step: ir.Invoke) -> ast.expr | None:
        return trees.call("added", *map(self.expression, step.arguments)) if self.nested else None

    def _members(self, step: ir.Members) -> ast.expr:
        keys = self.constant(step.keys)
        kind = self.type_of(step.argument)
        if kind in (STRING, INT):
            return trees.compare(self.expression(step.argument), trees.IN, keys)
        if self.nested:
            return trees.call("member", self.expression(step.argument), keys)
        value, again = self._twice(step.argument)
        otherwise = trees.call("member", again, keys)
        return trees.IfExp(trees.is_a("str", value), trees.compare(again, trees.IN, keys), otherwise)

    def _otherwise(self, step: ir.Otherwise) -> ast.expr:
        found = self._optional_entry(step.left) if step.unwrap else None
        if found is not None and isinstance(step.right, ir.Const):
            plain, key = found
            return trees.call_of(trees.part_of(plain, "get"), key, self.expression(step.right))
        helper = "or_value" if step.unwrap else "or_optional"
        self.nested += 1
        other = trees.function_of(self.expression(step.right))
        self.nested -= 1
        return trees.call(helper, self.expression(step.left), other)

    def _optional_entry(self, step: ir.Step) -> tuple[ast.expr, ast.expr] | None:
        if not isinstance(step, ir.Attribute) or step.test_id is not None:
            return None
        qualifiers = way(step, self.aliases)
        if qualifiers is None or len(qualifiers) != 3 or not qualifiers[2].optional:
            return None
        return self._table(qualifiers)

    # --- aggregates and folds -----------------------------------------------------------------------------------

    def _list(self, step: ir.MakeList) -> ast.expr:
        if step.optional:
            raise trees.UnsupportedError
        return trees.tuple_of(*map(self.expression, step.elements))

    def _map(self, step: ir.MakeMap) -> ast.expr:
        if any(optional for _, _, optional in step.entries):
            raise trees.UnsupportedError
        entries = [
            trees.tuple_of(self.expression(key), self.expression(value)) for key, value, _ in step.entries
        ]
        return trees.call("made_map", *entries)

    def _fold(self, step: ir.Fold) -> ast.expr:
        if is_binding(step):
            return self._binding(step)
        pieces = pieces_of(step)
        if pieces is None:
            raise trees.UnsupportedError
        written_out = self._written_out(step, pieces)
        if written_out is not None:
            return written_out
        helper = "elements" if step.second is None else "pairs"
        self.nested += 1
        target: ast.expr = trees.Name(f"s{step.first}", trees.STORE)
        if step.second is not None:
            target = trees.Tuple([target, trees.Name(f"s{step.second}", trees.STORE)], trees.STORE)
        over = trees.call(helper, self.expression(step.range))
        tests = [self.condition(test) for test in pieces.tests]
        if pieces.kind in ("all", "any"):
            element = self.condition(pieces.element)
        elif pieces.kind == "sum":
            element = trees.Constant(1)
        else:
            element = self.expression(pieces.element)
        self.nested -= 1
        generator = trees.GeneratorExp(element, [ast.comprehension(target, over, tests, 0)])
        value = trees.call(pieces.kind, generator)
        return trees.compare(value, trees.EQUAL, trees.Constant(1)) if pieces.kind == "sum" else value

    def _written_out(self, step: ir.Fold, pieces: Pieces) -> ast.expr | None:
        """Return `all` or `exists` over a few constants as a chain of conditions; None for other folds."""
        if (
            not isinstance(step.range, ir.Const)
            or type(step.range.value) is not tuple
            or step.second is not None
        ):
            return None
        elements = step.range.value
        self.sure[step.first] = type_of_elements(elements)
        if pieces.kind not in ("all", "any") or self.unrolled or not 2 <= len(elements) <= _LONGEST_UNROLLED:
            return None
        conditions = []
        for element in elements:
            self.unrolled = {step.first: ir.Const(step.range.id, element)}
            self.sums.clear()
            conditions.append(self.condition(pieces.element))
        self.unrolled = {}
        self.sums.clear()
        return trees.BoolOp(trees.AND if pieces.kind == "all" else trees.OR, conditions)

    def _binding(self, step: ir.Fold) -> ast.expr:
        bound = bound_way(step, self.aliases)
        if bound is not None:
            self.aliases[step.accumulator] = bound
            return self.expression(step.result)
        init = self.expression(step.init)
        self.nested += 1
        result = trees.function_of(self.expression(step.result), f"s{step.accumulator}")
        self.nested -= 1
        return trees.call_of(result, init)


def _unsupported(_generator: _Generator, _step: ir.Step) -> ast.expr:
    raise trees.UnsupportedError


def _no_code_of_its_own(_generator: _Generator, _step: ir.Invoke) -> None:
    return None


_EXPRESSIONS: Final[dict[type, Any]] = {
    ir.Const: _Generator._const,
    ir.Attribute: _Generator._attribute,
    ir.Logic: _Generator._logic,
    ir.Equality: _Generator._equality,
    ir.Invoke: _Generator._invoke,
    ir.Members: _Generator._members,
    ir.Otherwise: _Generator._otherwise,
    ir.MakeList: _Generator._list,
    ir.MakeMap: _Generator._map,
    ir.Fold: _Generator._fold,
}

_CALLS: Final[dict[str, Callable[[_Generator, ir.Invoke], ast.expr | None]]] = {
    **dict.fromkeys(trees.COMPARISONS, _Generator._comparison),
    **dict.fromkeys(_ORDERINGS, _Generator._ordering),
    "@in": _Generator._has_key,
    "!_": _Generator._negation,
    **dict.fromkeys(FUNCTIONS, _Generator._search),
    "_+_": _Generator._addition,
}
"""Functions that have code of their own; None where these arguments have not."""


def guarded_function(value: ast.expr, names: Mapping[str, Any]) -> Compiled:
    """Return a function from a device `d` to a value, guarded against broken devices and against failing.

    `names` are all that the expression may use; `otherwise` among them answers where the expression fails.
    """
    attempt = trees.Try([trees.Return(value)], [_ASK_ANOTHER], [], [])
    return trees.made(trees.function("evaluate", ("d",), [_REFUSE_BROKEN, attempt]), "evaluate", names)
