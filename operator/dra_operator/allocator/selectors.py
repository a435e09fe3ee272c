"""Selectors, asked once for each thing they can tell apart.

What a selector reads of a device is known from its text, so its answer is kept by those values: over a cluster of equal
nodes a selector is evaluated a handful of times, and a slice is answered for as a whole when its columns are known.
An error is an answer too; it is raised by whoever reaches the device, not here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dra_operator.allocator.budget import Budget
from dra_operator.api.quantity import Quantity
from dra_operator.api.types import DeviceCapacity
from dra_operator.cel import CelError, Environment, PreparedDevice, Selector, compile_selector, prepare_device
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column

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
    _by_columns: dict[object, _SliceAnswer] = field(default_factory=dict)
    _by_values: dict[object, bool | None] = field(default_factory=dict)

    def ask(self, content: Slice, wanted: int, budget: Budget) -> tuple[int, int]:
        """Return which of the wanted devices of a slice are selected, and on which the selector fails.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        if self.program is None:
            return 0, wanted
        columns = _columns(self.program, content)
        answer = self._answer(self.program, content, columns)
        if missing := wanted & ~answer.known:
            self._evaluate(self.program, content, columns, missing, answer=answer, budget=budget)
        return answer.selected & wanted, answer.failed & wanted

    def errors(self, content: Slice, failed: int) -> Counter[str]:
        """Return the errors of the devices on which the selector fails, each with their number."""
        if self.program is None:
            return Counter({str(self.error): failed.bit_count()})
        answer = self._answer(self.program, content, _columns(self.program, content))
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

    def _answer(
        self, program: Selector, content: Slice, columns: Sequence[Column[Any] | None]
    ) -> _SliceAnswer:
        """Return what is kept about slices that look the same to the selector."""
        key = (
            _names(program, content),
            tuple(-1 if column is None else column.serial for column in columns),
            content.driver if program.reads is None or _reads_driver(program.reads) else None,
            content.shareable,
            content.unreadable,
            len(content.names),
        )
        answer = self._by_columns.get(key)
        if answer is None:
            if len(self._by_columns) >= _MAX_ANSWERS:
                self._by_columns.clear()
            answer = self._by_columns[key] = _SliceAnswer()
        return answer

    def _evaluate(
        self,
        program: Selector,
        content: Slice,
        columns: Sequence[Column[Any] | None],
        missing: int,
        *,
        answer: _SliceAnswer,
        budget: Budget,
    ) -> None:
        for number, index in enumerate(bits.each(missing)):
            if number % _EVALUATIONS_PER_LOOK == _EVALUATIONS_PER_LOOK - 1:
                budget.look()
            bit = 1 << index
            if content.unreadable & bit:
                verdict = _match(program, prepare_device(content.driver, content.device(index)))
            else:
                verdict = self._by_value(program, content, columns, index)
            answer.known |= bit
            if verdict:
                answer.selected |= bit
            elif verdict is None:
                answer.failed |= bit

    def _by_value(
        self, program: Selector, content: Slice, columns: Sequence[Column[Any] | None], index: int
    ) -> bool | None:
        values = tuple(None if column is None else _value(column.values[index]) for column in columns)
        key = (content.driver, bool(content.shareable >> index & 1), _names(program, content), values)
        if key not in self._by_values:
            if len(self._by_values) >= _MAX_ANSWERS:
                self._by_values.clear()
            self._by_values[key] = _match(program, prepare_device(content.driver, content.device(index)))
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
                found = SelectorAnswers(expression, _compile(expression, self.environment), None)
            except CelError as error:
                found = SelectorAnswers(expression, None, error)
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


def _columns(program: Selector, content: Slice) -> list[Column[Any] | None]:
    """Return the columns that the answer depends on, in an order that depends on the selector alone."""
    reads = program.reads
    if reads is None:
        return [*content.attributes.values(), *content.capacity.values()]
    found: list[Column[Any] | None] = []
    for read in sorted(reads):
        table, _, name = read.partition("/")
        if table == "attributes":
            found += content.attribute_columns(name)
        elif table == "capacity":
            domain, _, identifier = name.partition("/")
            found.append(content.capacity.get(name))
            found.append(content.capacity.get(identifier) if domain == content.driver else None)
    return found


def _names(program: Selector, content: Slice) -> object:
    """Return what the columns are called, if that does not follow from the selector."""
    return None if program.reads is not None else (*content.attributes, None, *content.capacity)


def _reads_driver(reads: Iterable[str]) -> bool:
    # A bare name belongs to the driver's domain, so what is read by name depends on the driver only through columns.
    return "driver" in reads


def _value(value: object) -> object:
    """Return what CEL sees of a value, as something hashable that keeps 1 and true apart."""
    if isinstance(value, DeviceCapacity):
        quantity: Quantity = value.value
        return (quantity.nano, quantity.text)
    return value
