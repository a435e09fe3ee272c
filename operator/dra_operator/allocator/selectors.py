"""Selectors, asked once for each thing they can tell apart.

A selector's answer is kept by the values that it reads (`reads`): over a cluster of equal
nodes a selector is evaluated a handful of times, and a slice is answered for as a whole when its columns are known.
An error is an answer too; it is raised by whoever reaches the device, not here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.kinds import Kind, Kinds
from dra_operator.allocator.reads import Reads
from dra_operator.allocator.room import Room
from dra_operator.cel import CelError, Environment, Selector, compile_selector, prepare_device
from dra_operator.cel.errors import kept
from dra_operator.inventory import Slice, bits

_MAX_ANSWERS = 262_144
_KEPT_AT_FIRST = 16
"""If no two of so many slices are alike in what a selector reads, the next ones are not either."""


@dataclass(slots=True)
class SliceAnswer:
    """Answers for the devices of a slice: those known, those selected, those on which the selector fails.

    `told` counts the errors of a set of devices, for those who asked. Of devices that cannot be read it depends on what
    is not read, so it holds for one slice.
    """

    known: int = 0
    selected: int = 0
    failed: int = 0
    told: tuple[object, Counter[str]] | None = None


_FAILS = SliceAnswer(known=-1, failed=-1)
"""What is known of any slice where the selector does not compile."""


@dataclass(slots=True)
class SelectorAnswers:
    """One expression and what it says about slices. `error` tells why it does not compile.

    `room` is for the answers of all expressions together, `keys` counts the candidate keys that have this one. Answers
    are kept where several have it, as those of a class, where slices are alike in what is read, and where an answer may
    take long: then an attempt that ran out of time goes on from there. A UUID no two slices have in common, and to keep
    an answer takes longer than most evaluations.
    """

    expression: str
    program: Selector | None
    error: CelError | None
    reads: Reads
    kinds: Kinds
    room: Room
    keys: int = 0
    _by_columns: dict[object, SliceAnswer] = field(default_factory=dict)
    _keeps: bool = field(init=False)

    def __post_init__(self) -> None:
        self._keeps = self.program is not None and self.program.may_take_long

    def ask(self, content: Slice, wanted: int, budget: Budget) -> tuple[int, int]:
        """Return which of the wanted devices of a slice are selected, and on which the selector fails.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        answer = self.answer(content, wanted & content.every, budget)
        return answer.selected & wanted, answer.failed & wanted

    def answer(self, content: Slice, wanted: int, budget: Budget) -> SliceAnswer:
        """Return what is known of a slice, the wanted devices among it. Raises AbortedError as `ask` does."""
        if self.program is None:
            return _FAILS
        key = self.reads.key(content)
        answer = self._by_columns.get(key)
        if answer is None:
            answer = self._enter(key)
        else:
            self._keeps = True
        if missing := wanted & ~answer.known:
            kinds = self.kinds.of(self.reads, content, key, missing)
            _evaluate(self.program, kinds, missing, content.schema.unreadable, answer, budget)
        return answer

    def errors(self, content: Slice, failed: int) -> Counter[str]:
        """Return the errors of the devices on which the selector fails, each with their number."""
        if self.program is None:
            return Counter({str(self.error): failed.bit_count()})
        key = self.reads.key(content)
        answer = self._by_columns.get(key) or self._enter(key)
        asked = (failed, content.serial if failed & content.unreadable else None)
        if answer.told is None or answer.told[0] != asked:
            texts = Counter(str(self.failure(content, index)) for index in bits.each(failed))
            answer.told = (asked, texts)
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

    def forget(self) -> None:
        """Let go of all answers: the expression is not in use any more."""
        self.room.leave(self._by_columns)

    def _enter(self, key: object) -> SliceAnswer:
        """Return a place for what will be known about slices that look the same to the selector."""
        answer = SliceAnswer()
        if self._keeps or self.keys > 1 or len(self._by_columns) < _KEPT_AT_FIRST:
            self.room.take(self._by_columns)
            self._by_columns[key] = answer
        return answer


@dataclass(slots=True)
class SelectorCache:
    """All expressions in use, each compiled once. The oldest half goes when there are too many.

    `kinds` and what `reads_of` returns are shared with derived attributes, whose expressions read the same.
    """

    environment: Environment
    maximum: int = 2048
    kinds: Kinds = field(default_factory=Kinds)
    _room: Room = field(default_factory=lambda: Room(_MAX_ANSWERS))
    _known: dict[str, SelectorAnswers] = field(default_factory=dict)
    _reads: dict[frozenset[str] | None, Reads] = field(default_factory=dict)

    def get(self, expression: str) -> SelectorAnswers:
        """Return the answers of an expression."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= self.maximum:
                for old in list(self._known)[: self.maximum // 2]:
                    self._known.pop(old).forget()
            try:
                program = compile_selector(expression, self.environment)
            except CelError as error:
                reads = Reads(whole=True)
                found = SelectorAnswers(expression, None, kept(error), reads, self.kinds, self._room)
            else:
                reads = self.reads_of(program.reads)
                found = SelectorAnswers(expression, program, None, reads, self.kinds, self._room)
            self._known[expression] = found
        return found

    def reads_of(self, names: frozenset[str] | None) -> Reads:
        """Return what an expression reads, the same object for all that read the same: it remembers schemas."""
        found = self._reads.get(names)
        if found is None:
            if len(self._reads) >= self.maximum:
                self._reads.clear()
            found = self._reads[names] = Reads.of(names)
        return found


def _evaluate(  # noqa: PLR0917 - one caller
    program: Selector,
    kinds: Sequence[Kind],
    missing: int,
    unreadable: int,
    answer: SliceAnswer,
    budget: Budget,
) -> None:
    """Add the answers about the missing devices of a slice; those of one kind have the same."""
    # Each selector fails on a broken device. Raised again and again, its error would keep the frames of all.
    if broken := missing & unreadable:
        answer.failed |= broken
        answer.known |= broken
        missing ^= broken
    match = program.match
    evaluated = 0
    for device, those in kinds:
        if not those & missing:
            continue
        evaluated += 1
        try:
            if match(device):
                answer.selected |= those
        except CelError:
            answer.failed |= those
        answer.known |= those
    budget.evaluated(evaluated)
