"""Folds of counted code: loops of Python, with the accumulators of the macros as what they stand for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dra_operator.cel.certainty import TYPES_OF_CONSTANTS
from dra_operator.cel.counted_help import WORK_LIMIT
from dra_operator.cel.counted_lines import Lines, UnsupportedError
from dra_operator.cel.folds import Pieces, pieces_of
from dra_operator.cel.meter import COST_LIMIT, LIST_COST
from dra_operator.cel.paths import is_binding
from dra_operator.cel.plan import Const, Fold, Invoke
from dra_operator.cel.types import DYN, INT


@dataclass(slots=True)
class Folds(Lines):
    """The lines of a comprehension or a binding."""

    def _fold(self, step: Fold) -> str:
        if is_binding(step):
            return self._binding(step)
        pieces = pieces_of(step)
        over = self.value(step.range)
        if pieces is not None and pieces.kind in ("all", "any") and isinstance(step.init, Const):
            self._quantify(step, pieces, over)
        elif pieces is not None and pieces.kind == "tuple":
            self._collect(step, pieces, over)
        else:
            self._fold_anything(step, over)
        self.failing.add(step.accumulator)
        return self.value(step.result)

    @contextmanager
    def _loop(self, step: Fold, over: str) -> Iterator[None]:
        self._run_over(step)
        names = f"s{step.first}" if step.second is None else f"s{step.first}, s{step.second}"
        with self._block(f"for {names} in {'elements' if step.second is None else 'pairs'}({over}):"):
            before = self.steps
            place = len(self.lines)
            self._line("")
            self._line(f"if c > {COST_LIMIT} or w > {WORK_LIMIT}: raise cost_exceeded()")
            yield
            self.lines[place] = f"{' ' * self.indent}w += {self.steps - before + 2}"

    def _run_over(self, step: Fold) -> None:
        """Note the types of variables that run over constants or whole numbers."""
        over = step.range
        kind = DYN
        if isinstance(over, Const) and type(over.value) is tuple:
            kinds = {TYPES_OF_CONSTANTS.get(type(element), DYN) for element in over.value}
            kind = kinds.pop() if len(kinds) == 1 else DYN
        elif isinstance(over, Invoke) and over.function.name == "lists.range":
            kind = INT
        self.sure[step.first if step.second is None else step.second] = kind

    def _quantify(self, step: Fold, pieces: Pieces, over: str) -> None:
        accumulator, decided = f"s{step.accumulator}", pieces.kind == "any"
        self._line(f"{accumulator} = {not decided}")
        with self._loop(step, over):
            self.cost += 3 if decided else 2
            self._line(f"if {accumulator} is {decided}: break")
            self.cost += 1
            with self._block("try:"):
                value = self.condition(pieces.element)
                self._line(f"if {value} is {decided}: {accumulator} = {decided}")
            with self._caught():
                self._line(f"if type({accumulator}) is not Failure: {accumulator} = Failure(x)")

    def _collect(self, step: Fold, pieces: Pieces, over: str) -> None:
        accumulator, failure = f"s{step.accumulator}", self._set("None")
        self._line(f"{accumulator} = []")
        with self._loop(step, over):
            if not pieces.tests:
                self._append(pieces, accumulator, failure)
            else:
                kept = self._name("v")
                with self._block("try:"):
                    self._line(f"{kept} = {self.condition(pieces.tests[0])}")
                with self._caught():
                    self._line(f"{failure} = Failure(x)")
                    self._line(f"{kept} = False")
                with self._block(f"if {kept}:"):
                    self._append(pieces, accumulator, failure)
        self._line(f"{accumulator} = tuple({accumulator}) if {failure} is None else {failure}")

    def _append(self, pieces: Pieces, accumulator: str, failure: str) -> None:
        """Write what `accumulator + [element]` costs, and an append in its place."""
        self.cost += 2 if isinstance(pieces.element, Const) else 2 + LIST_COST
        with self._block("try:"):
            self._line(f"{accumulator}.append({self.value(pieces.element)})")
        with self._caught():
            self._line(f"if {failure} is None: {failure} = Failure(x)")

    def _fold_anything(self, step: Fold, over: str) -> None:
        condition = step.condition
        always = isinstance(condition, Const) and condition.value is True
        if not isinstance(step.init, Const) or not (always or isinstance(condition, Invoke)):
            raise UnsupportedError
        accumulator = f"s{step.accumulator}"
        first = self._constant(step.init.value)
        # A map is built in place, so it must be one of its own.
        self._line(f"{accumulator} = own({first})")
        self.failing.add(step.accumulator)
        with self._loop(step, over):
            if not always:
                self._line(f"if {self.value(condition)} is False: break")
            with self._block("try:"):
                self._line(f"{accumulator} = {self._folded(step)}")
            with self._caught():
                self._line(f"{accumulator} = Failure(x)")

    def _folded(self, step: Fold) -> str:
        self.building.append(step.accumulator)
        value = self.value(step.step)
        self.building.pop()
        return value

    def _binding(self, step: Fold) -> str:
        name, slot = f"s{step.accumulator}", step.accumulator
        if isinstance(step.init, Const):
            self._line(f"{name} = {self._constant(step.init.value)}")
            return self.value(step.result)
        self._line(f"{name} = MISSING")
        part = self._name("f")
        with self._inner(part, name):
            with self._block("try:"):
                self._line(f"{name} = {self.value(step.init)}")
            with self._caught():
                self._line(f"{name} = Failure(x)")
        self.lazy[slot] = part
        if self._can_fail(step.init):
            self.failing.add(slot)
        return self.value(step.result)
