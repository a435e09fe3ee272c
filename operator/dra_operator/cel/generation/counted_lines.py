"""Lines: how counted code is put together, with the costs that are known before there is a device.

A step becomes statements, and the name that holds its value afterwards.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from dra_operator.cel.costs.meter import COST_LIMIT
from dra_operator.cel.generation import trees
from dra_operator.cel.generation.certainty import certain_type
from dra_operator.cel.generation.trees import (
    COMPARISONS,
    Constants,
    UnsupportedError,
    add_to,
    call,
    compare,
    load,
    set_to,
    when,
)
from dra_operator.cel.paths import table_entry
from dra_operator.cel.plan import Attribute, Const, Step, Variable
from dra_operator.cel.types import BOOL, Type
from dra_operator.cel.work import STEP, WORK_LIMIT

_DEEPEST: Final = 12
"""So many blocks nest in one function; Python allows twenty."""
_WORDS: Final = {"True": True, "False": False, "None": None}
AGAIN: Final = trees.Raise(None, None)
"""`raise` of the error at hand."""
_TOO_MUCH: Final = trees.BoolOp(
    trees.OR,
    [
        compare(load("c"), COMPARISONS["_>_"], trees.Constant(COST_LIMIT)),
        compare(load("w"), COMPARISONS["_>_"], trees.Constant(WORK_LIMIT)),
    ],
)
STOP: Final = when(_TOO_MUCH, trees.Raise(call("cost_exceeded"), None))
"""The end of an evaluation that costs or takes too much."""


def value_of(text: str) -> ast.expr:
    """Return what a name stands for: a variable, or one of the words for which Python has literals."""
    return trees.Constant(_WORDS[text]) if text in _WORDS else load(text)


def holds(text: str, word: Any) -> ast.expr:
    """Return the question whether a variable is True, False or None."""
    return compare(value_of(text), trees.IS, trees.Constant(word))


def differs(text: str, word: Any) -> ast.expr:
    """Return the question whether a variable is not True, False or None."""
    return compare(value_of(text), trees.IS_NOT, trees.Constant(word))


def is_missing(value: ast.expr) -> ast.expr:
    """Return the question whether there is no value."""
    return compare(value, trees.IS, load("MISSING"))


def is_there(value: ast.expr) -> ast.expr:
    """Return the question whether there is a value."""
    return compare(value, trees.IS_NOT, load("MISSING"))


@dataclass(slots=True)
class Lines:
    """Statements of Python with the constants that they name."""

    writers: Mapping[type, Any] = field(default_factory=dict)
    """What writes a step, by its type."""
    types: Mapping[int, Type] = field(default_factory=dict)
    work: int = 0
    """What the steps written so far take, whatever they are given."""
    sums: dict[int, Type] = field(default_factory=dict)
    """The types of arithmetic, by node."""
    sure: dict[int, Type] = field(default_factory=dict)
    """The types of variables that run over constants."""
    failing: set[int] = field(default_factory=set)
    """The slots that may hold a failure."""
    building: list[int] = field(default_factory=list)
    """The accumulators of the folds around, which nobody else holds."""
    lazy: dict[int, str] = field(default_factory=dict)
    """The slots of bindings, with what evaluates them when they are first asked for."""
    body: list[ast.stmt] = field(default_factory=list)
    """The block that is being written."""
    constants: Constants = field(default_factory=Constants)
    cost: int = 0
    """What steps written so far cost for certain, and no statement says yet."""
    names: int = 0
    depth: int = 0
    """How many blocks of the kind that Python limits we are in."""

    def value(self, step: Step) -> str:
        """Write the evaluation of a step; return the name of its value."""
        # A constant or a variable is there already.
        if not isinstance(step, Const) and not (isinstance(step, Attribute) and not step.qualifiers):
            self.work += STEP
        write = self.writers.get(type(step))
        if write is None:
            raise UnsupportedError
        if self.depth < _DEEPEST:
            return write(self, step)  # type: ignore[no-any-return]
        part = self._name("f")
        with self._inner(part):
            self._write(trees.Return(value_of(write(self, step))))
        return self._set(call(part))

    def condition(self, step: Step) -> str:
        """Write the evaluation of what must be a bool."""
        value = self.value(step)
        if self._type(step) != BOOL:
            neither = trees.BoolOp(trees.AND, [differs(value, word=True), differs(value, word=False)])
            self._write(when(neither, trees.Raise(call("no_overload"), None)))
        return value

    def _type(self, step: Step) -> Type:
        """Return the type that a value is certain to have, dyn if that is not known."""
        return certain_type(step, self.types, {}, self.sure, self.sums)

    def _can_fail(self, step: Step) -> bool:
        """Return whether a step may raise, as far as that is plain."""
        if isinstance(step, Const):
            return False
        if isinstance(step, Attribute) and isinstance(step.root, Variable) and step.root.slot:
            return bool(step.qualifiers) or step.root.slot in self.failing
        return not (isinstance(step, Attribute) and _presence(step))

    # --- statements -------------------------------------------------------------------------------------------------

    def _write(self, statement: ast.stmt) -> None:
        self._charge()
        self.body.append(statement)

    def _charge(self) -> None:
        """Write the costs that no statement says yet."""
        if self.cost:
            self.body.append(add_to("c", trees.Constant(self.cost)))
            self.cost = 0

    @contextmanager
    def _into(self, body: list[ast.stmt]) -> Iterator[None]:
        """Write into another block meanwhile."""
        outer, self.body = self.body, body
        yield
        self._charge()
        if not body:
            body.append(trees.Pass())
        self.body = outer

    @contextmanager
    def _if(self, test: ast.expr) -> Iterator[ast.If]:
        block = trees.If(test, [], [])
        self._write(block)
        with self._into(block.body):
            yield block

    @contextmanager
    def _try(self) -> Iterator[ast.Try]:
        block = trees.Try([], [], [], [])
        self._write(block)
        with self._within(block.body):
            yield block

    @contextmanager
    def _within(self, body: list[ast.stmt]) -> Iterator[None]:
        """Write into a block of the kind that Python limits."""
        self.depth += 1
        with self._into(body):
            yield
        self.depth -= 1

    @contextmanager
    def _except(self, block: ast.Try) -> Iterator[None]:
        """Write what is done with an error `x` of a block."""
        handler = trees.handler([], target="x")
        block.handlers.append(handler)
        with self._within(handler.body):
            yield

    @contextmanager
    def _caught(self, block: ast.Try) -> Iterator[None]:
        """Write what is done with an error `x` that does not end the evaluation."""
        with self._except(block):
            self._write(set_to("w", call("absorb", load("w"), load("x"))))
            yield

    @contextmanager
    def _inner(self, name: str, *outer: str) -> Iterator[None]:
        """Write a function inside, which has blocks of its own; `outer` are names that it sets outside."""
        body: list[ast.stmt] = [trees.Nonlocal(["c", "w", *outer])]
        self._write(trees.function(name, (), body))
        depth, self.depth = self.depth, 0
        with self._into(body):
            yield
        self.depth = depth

    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _set(self, expression: ast.expr) -> str:
        name = self._name("v")
        self._write(set_to(name, expression))
        return name

    def _let(self, name: str, value: str) -> None:
        """Write that a variable has the value of another name."""
        self._write(set_to(name, value_of(value)))

    def _constant(self, value: Any) -> str:
        if value is True or value is False or value is None:
            return str(value)
        return self.constants.add_named(value)


def _presence(step: Attribute) -> bool:
    """Return whether a step asks whether something constant is in the device, which has an answer always."""
    if step.test_id is None or not isinstance(step.root, Variable) or step.root.slot:
        return False
    return len(step.qualifiers) == 3 and table_entry(tuple(step.qualifiers)) is not None
