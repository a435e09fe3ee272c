"""Selectors, asked once for each thing they can tell apart.

A selector's answer is kept by the values that it reads (`reads`): over a cluster of equal
nodes a selector is evaluated a handful of times, and a slice is answered for as a whole when its columns are known.
An error is an answer too; it is raised by whoever reaches the device, not here.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.reads import Part, Reads
from dra_operator.cel import CelError, Environment, PreparedDevice, Selector, compile_selector, prepare_device
from dra_operator.inventory import Slice, bits

_MAX_ANSWERS = 65_536
_EVALUATIONS_PER_LOOK = 64


@dataclass(slots=True)
class _SliceAnswer:
    """Answers for the devices of a slice: those known, those selected, those on which the selector fails.

    `told` counts the errors of a set of devices, for those who asked.
    """

    known: int = 0
    selected: int = 0
    failed: int = 0
    told: tuple[int, Counter[str]] | None = None


@dataclass(slots=True)
class SelectorAnswers:
    """One expression and what it says about slices. `error` tells why it does not compile."""

    expression: str
    program: Selector | None
    error: CelError | None
    reads: Reads
    _by_columns: dict[object, _SliceAnswer] = field(default_factory=dict)
    _by_values: dict[object, bool | None] = field(default_factory=dict)

    def ask(self, content: Slice, wanted: int, budget: Budget) -> tuple[int, int]:
        """Return which of the wanted devices of a slice are selected, and on which the selector fails.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        if self.program is None:
            return 0, wanted
        part = self.reads.part(content)
        answer = self._answer(part)
        if missing := wanted & ~answer.known:
            self._evaluate(self.program, part, missing, answer=answer, budget=budget)
        return answer.selected & wanted, answer.failed & wanted

    def errors(self, content: Slice, failed: int) -> Counter[str]:
        """Return the errors of the devices on which the selector fails, each with their number."""
        if self.program is None:
            return Counter({str(self.error): failed.bit_count()})
        answer = self._answer(self.reads.part(content))
        if answer.told is None or answer.told[0] != failed:
            texts = Counter(str(self.failure(content, index)) for index in bits.each(failed))
            answer.told = (failed, texts)
        return answer.told[1]

    def failure(self, content: Slice, index: int) -> CelError:
        """Return the error of a device on which the selector fails."""
        if self.program is None:
            assert self.error is not None
            return self.error
        try:
            self.program.match(prepare_device(content.driver, content.device(index)))
        except CelError as error:
            return error
        raise AssertionError("the selector does not fail on this device")

    def _answer(self, part: Part) -> _SliceAnswer:
        """Return what is kept about slices that look the same to the selector."""
        answer = self._by_columns.get(part.key)
        if answer is None:
            if len(self._by_columns) >= _MAX_ANSWERS:
                self._by_columns.clear()
            answer = self._by_columns[part.key] = _SliceAnswer()
        return answer

    def _evaluate(
        self, program: Selector, part: Part, missing: int, *, answer: _SliceAnswer, budget: Budget
    ) -> None:
        content = part.content
        for number, index in enumerate(bits.each(missing)):
            if number % _EVALUATIONS_PER_LOOK == _EVALUATIONS_PER_LOOK - 1:
                budget.look()
            bit = 1 << index
            if content.unreadable & bit:
                # Each selector fails on it, whatever it reads.
                verdict = _match(program, prepare_device(content.driver, content.device(index)))
            else:
                verdict = self._by_value(program, part, index)
            answer.known |= bit
            if verdict:
                answer.selected |= bit
            elif verdict is None:
                answer.failed |= bit

    def _by_value(self, program: Selector, part: Part, index: int) -> bool | None:
        content = part.content
        key = (content.driver, bool(content.shareable >> index & 1), part.values(index))
        if key not in self._by_values:
            if len(self._by_values) >= _MAX_ANSWERS:
                self._by_values.clear()
            self._by_values[key] = _match(program, prepare_device(content.driver, part.device(index)))
        return self._by_values[key]


@dataclass(slots=True)
class SelectorCache:
    """All expressions in use, each compiled once. The oldest half goes when there are too many."""

    environment: Environment
    maximum: int = 2048
    _known: dict[str, SelectorAnswers] = field(default_factory=dict)

    def get(self, expression: str) -> SelectorAnswers:
        """Return the answers of an expression."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= self.maximum:
                for old in list(self._known)[: self.maximum // 2]:
                    del self._known[old]
            try:
                program = _compile(expression, self.environment)
            except CelError as error:
                found = SelectorAnswers(expression, None, error, Reads(whole=True, driver=True))
            else:
                found = SelectorAnswers(expression, program, None, Reads.of(program))
            self._known[expression] = found
        return found


@lru_cache(maxsize=4096)
def _compile(expression: str, environment: Environment) -> Selector:
    # A program depends on nothing but its text, so all allocators of a process share it; answers they do not.
    return compile_selector(expression, environment)


def _match(program: Selector, device: PreparedDevice) -> bool | None:
    try:
        selected: bool = program.match(device)
    except CelError:
        return None
    return selected
