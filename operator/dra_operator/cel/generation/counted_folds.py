"""Folds of counted code: loops of Python, with the accumulators of the macros as what they stand for."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dra_operator.cel.costs.call_costs import LIST_COST
from dra_operator.cel.generation import trees
from dra_operator.cel.generation.certainty import type_of_elements
from dra_operator.cel.generation.counted_lines import STOP, Lines, holds, value_of
from dra_operator.cel.generation.folds import Pieces, is_accumulator, pieces_of
from dra_operator.cel.generation.trees import (
    add_to,
    call,
    call_of,
    is_a,
    load,
    part_of,
    set_to,
    when,
)
from dra_operator.cel.paths import is_binding
from dra_operator.cel.plan import Attribute, Const, Fold, Invoke, Step
from dra_operator.cel.types import DYN, INT

_FAILURE = call("Failure", load("x"))

_ROUND = 100
"""What a round of a loop takes beside the steps in it."""
_KEPT = 40
"""What the test of an element takes, beside its steps."""


@dataclass(slots=True)
class Folds(Lines):
    """The statements of a comprehension or a binding."""

    def _fold(self, step: Fold) -> str:
        if is_binding(step):
            return self._binding(step)
        pieces = pieces_of(step)
        over = self.value(step.range)
        if pieces is not None and pieces.kind in ("all", "any"):
            self._quantify(step, pieces, over)
        elif pieces is not None and pieces.kind == "tuple":
            self._collect(step, pieces, over)
        elif pieces is not None and pieces.kind == "sum":
            self._count(step, pieces, over)
        else:
            self._fold_anything(step, over)
        self.failing.add(step.accumulator)
        return self.value(step.result)

    @contextmanager
    def _loop(self, step: Fold, over: str) -> Iterator[None]:
        self._run_over(step)
        target: ast.expr = trees.Name(f"s{step.first}", trees.STORE)
        helper = "elements"
        if step.second is not None:
            helper = "pairs"
            target = trees.Tuple([target, trees.Name(f"s{step.second}", trees.STORE)], trees.STORE)
        before = self.work
        taken = trees.Constant(0)
        loop = trees.For(target, call(helper, value_of(over)), [add_to("w", taken), STOP], [], None)
        self._write(loop)
        with self._within(loop.body):
            yield
        taken.value = self.work - before + _ROUND

    def _run_over(self, step: Fold) -> None:
        """Note the types of variables that run over constants or whole numbers."""
        over = step.range
        kind = DYN
        if isinstance(over, Const) and type(over.value) is tuple:
            kind = type_of_elements(over.value)
        elif isinstance(over, Invoke) and over.function.name == "lists.range":
            kind = INT
        self.sure[step.first if step.second is None else step.second] = kind

    def _quantify(self, step: Fold, pieces: Pieces, over: str) -> None:
        accumulator, decided = f"s{step.accumulator}", pieces.kind == "any"
        self._write(set_to(accumulator, trees.Constant(not decided)))
        with self._loop(step, over):
            self.cost += 3 if decided else 2
            self._write(when(holds(accumulator, decided), trees.Break()))
            self.cost += 1
            with self._try() as attempt:
                value = self.condition(pieces.element)
                self._write(when(holds(value, decided), set_to(accumulator, trees.Constant(decided))))
            with self._caught(attempt):
                failed = trees.UnaryOp(trees.NOT, is_a("Failure", load(accumulator)))
                self._write(when(failed, set_to(accumulator, _FAILURE)))

    def _collect(self, step: Fold, pieces: Pieces, over: str) -> None:
        accumulator, failure = f"s{step.accumulator}", self._set(trees.Constant(None))
        self._write(set_to(accumulator, trees.List([], trees.LOAD)))
        with self._loop(step, over):
            if not pieces.tests:
                self._append(pieces, accumulator, failure)
            else:
                with self._if(load(self._kept(pieces.tests[0], failure))):
                    self._append(pieces, accumulator, failure)
        built = call("tuple", load(accumulator))
        self._write(set_to(accumulator, trees.IfExp(holds(failure, None), built, load(failure))))

    def _count(self, step: Fold, pieces: Pieces, over: str) -> None:
        accumulator, failure = f"s{step.accumulator}", self._set(trees.Constant(None))
        self._write(set_to(accumulator, trees.Constant(0)))
        with self._loop(step, over):
            kept = self._kept(pieces.tests[0], failure)
            with self._if(load(kept)):
                self.cost += 2
                self._write(add_to(accumulator, trees.Constant(1)))
        counted = trees.IfExp(holds(failure, None), load(accumulator), load(failure))
        self._write(set_to(accumulator, counted))
        self.sure[step.accumulator] = INT

    def _kept(self, test: Step, failure: str) -> str:
        """Write the test of an element; one that fails is a failure of the fold."""
        kept = self._name("v")
        self.work += _KEPT
        with self._try() as attempt:
            self._let(kept, self.condition(test))
        with self._caught(attempt):
            self._write(set_to(failure, _FAILURE))
            self._let(kept, "False")
        return kept

    def _append(self, pieces: Pieces, accumulator: str, failure: str) -> None:
        """Write what `accumulator + [element]` costs, and an append in its place."""
        self.cost += 2 if isinstance(pieces.element, Const) else 2 + LIST_COST
        if not self._can_fail(pieces.element):
            self._put(accumulator, self.value(pieces.element))
            return
        with self._try() as attempt:
            self._put(accumulator, self.value(pieces.element))
        with self._caught(attempt):
            self._write(when(holds(failure, None), set_to(failure, _FAILURE)))

    def _put(self, accumulator: str, element: str) -> None:
        self._write(trees.Expr(call_of(part_of(load(accumulator), "append"), value_of(element))))

    def _fold_anything(self, step: Fold, over: str) -> None:
        # Only `all` and `exists` have a condition that can end them.
        assert isinstance(step.init, Const)
        assert isinstance(step.condition, Const)
        accumulator = f"s{step.accumulator}"
        # A map is built in place, so it must be one of its own.
        self._write(set_to(accumulator, call("own", value_of(self._constant(step.init.value)))))
        self.failing.add(step.accumulator)
        with self._loop(step, over):
            if _asks_accumulator_first(step):
                # Nothing else is evaluated once that is an error: as many rounds as are left cost 1 each.
                rest = [add_to("c", trees.Constant(1)), add_to("w", trees.Constant(_ROUND)), STOP]
                self.body.insert(0, when(is_a("Failure", load(accumulator)), *rest, trees.Continue()))
            with self._try() as attempt:
                self._let(accumulator, self._folded(step))
            with self._caught(attempt):
                self._write(set_to(accumulator, _FAILURE))

    def _folded(self, step: Fold) -> str:
        self.building.append(step.accumulator)
        value = self.value(step.step)
        self.building.pop()
        return value

    def _binding(self, step: Fold) -> str:
        name, slot = f"s{step.accumulator}", step.accumulator
        if isinstance(step.init, Const):
            self._let(name, self._constant(step.init.value))
            return self.value(step.result)
        self._let(name, "MISSING")
        part = self._name("f")
        with self._inner(part, name):
            with self._try() as attempt:
                self._let(name, self.value(step.init))
            with self._caught(attempt):
                self._write(set_to(name, _FAILURE))
        self.lazy[slot] = part
        if self._can_fail(step.init):
            self.failing.add(slot)
        return self.value(step.result)


def _asks_accumulator_first(step: Fold) -> bool:
    """Return whether each round is a call that asks the accumulator first and ends if that is an error."""
    made = step.step
    if not isinstance(made, Invoke) or made.function.eager:
        return False
    first = made.arguments[0]
    return is_accumulator(first, step) and isinstance(first, Attribute) and not first.qualifiers
