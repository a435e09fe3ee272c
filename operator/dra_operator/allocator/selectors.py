"""Selectors, asked once for each thing they can tell apart.

What the selectors of a request say together is kept by the values that they read (`reads`): over a cluster of equal
nodes they are evaluated a handful of times, and a slice is answered for as a whole when its columns are known.
An error is an answer too; it is raised by whoever reaches the device, not here.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.kinds import Kinds
from dra_operator.allocator.reads import Reads, joined
from dra_operator.allocator.room import Room
from dra_operator.cel import (
    CelError,
    Environment,
    PreparedDevice,
    Selector,
    compile_selector,
    prepare_device,
)
from dra_operator.cel.errors import compile_error
from dra_operator.inventory import Slice, bits

_MAX_ANSWERS = 262_144
_EVALUATIONS_PER_LOOK = 64
_Match: TypeAlias = Callable[[PreparedDevice], bool]


@dataclass(slots=True)
class _SliceAnswer:
    """Answers for the devices of a slice: those known, those selected, those on which a selector fails.

    `told` counts the errors of a set of devices, for those who asked. Of devices that cannot be read it depends on what
    is not read, so it holds for one slice.
    """

    known: int = 0
    selected: int = 0
    failed: int = 0
    told: tuple[object, Counter[str]] | None = None


@dataclass(slots=True)
class Selection:
    """What selectors say one after the other: whichever does not select a device, or fails on it, ends it.

    `room` is for the answers of all selections together.
    """

    matches: tuple[_Match, ...]
    reads: Reads
    kinds: Kinds
    room: Room
    _by_columns: dict[object, _SliceAnswer] = field(default_factory=dict)

    def ask(self, content: Slice, wanted: int, budget: Budget) -> tuple[int, int]:
        """Return which of the wanted devices of a slice are selected, and on which a selector fails.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        key = self.reads.key(content)
        answer = self._by_columns.get(key) or self._enter(key)
        if missing := wanted & ~answer.known:
            self._evaluate(answer, content, key, missing, budget)
        return answer.selected & wanted, answer.failed & wanted

    def forget(self) -> None:
        """Let go of all answers: the selectors are not in use any more."""
        self.room.leave(self._by_columns)

    def _enter(self, key: object) -> _SliceAnswer:
        """Return a place for what will be known about slices that look the same to the selectors."""
        self.room.take(self._by_columns)
        answer = self._by_columns[key] = _SliceAnswer()
        return answer

    def _evaluate(
        self, answer: _SliceAnswer, content: Slice, key: object, missing: int, budget: Budget
    ) -> None:
        matches = self.matches
        for number, (device, those) in enumerate(self.kinds.of(self.reads, content, key), 1):
            if not those & missing:
                continue
            if number % _EVALUATIONS_PER_LOOK == 0:
                budget.look()
            try:
                # Each selector fails on a broken device. Raised again and again, its error would keep all frames.
                if device.broken is not None:
                    answer.failed |= those
                else:
                    for match in matches:
                        if not match(device):
                            break
                    else:
                        answer.selected |= those
            except CelError:
                answer.failed |= those
            answer.known |= those


@dataclass(slots=True, kw_only=True)
class SelectorAnswers(Selection):
    """What one expression says about slices. `error` tells why it does not compile."""

    expression: str
    program: Selector | None
    error: CelError | None

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


@dataclass(slots=True)
class SelectorCache:
    """All expressions in use, each compiled once, alone and as they stand together in requests.

    The oldest half goes when there are too many.
    """

    environment: Environment
    maximum: int = 2048
    _kinds: Kinds = field(default_factory=Kinds)
    _room: Room = field(default_factory=lambda: Room(_MAX_ANSWERS))
    _known: dict[str, SelectorAnswers] = field(default_factory=dict)
    _together: dict[tuple[str, ...], Selection] = field(default_factory=dict)
    _reads: dict[frozenset[str] | None, Reads] = field(default_factory=dict)

    def get(self, expression: str) -> SelectorAnswers:
        """Return the answers of an expression."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= self.maximum:
                for old in list(self._known)[: self.maximum // 2]:
                    self._known.pop(old).forget()
            program: Selector | None = None
            failure: CelError | None = None
            match: _Match = _fail
            read: frozenset[str] | None = frozenset()
            try:
                program = compile_selector(expression, self.environment)
                match, read = program.match, program.reads
            except CelError as error:
                failure = error
            found = SelectorAnswers(
                (match,),
                self._reads_of(read),
                self._kinds,
                self._room,
                expression=expression,
                program=program,
                error=failure,
            )
            self._known[expression] = found
        return found

    def all_of(self, expressions: tuple[str, ...]) -> Selection:
        """Return what expressions say one after the other."""
        found = self._together.get(expressions)
        if found is None:
            if len(self._together) >= self.maximum:
                for old in list(self._together)[: self.maximum // 2]:
                    self._together.pop(old).forget()
            matches: tuple[_Match, ...] = ()
            reads: Reads | None = None
            for expression in expressions:
                alone = self.get(expression)
                matches += alone.matches
                if reads is None or reads.nothing:
                    reads = alone.reads
                elif not alone.reads.nothing:
                    reads = self._reads_of(joined(reads.read, alone.reads.read))
            assert reads is not None
            found = self._together[expressions] = Selection(matches, reads, self._kinds, self._room)
        return found

    def _reads_of(self, read: frozenset[str] | None) -> Reads:
        """Return this as what is read, the same object each time: it remembers schemas."""
        found = self._reads.get(read)
        if found is None:
            if len(self._reads) >= self.maximum:
                self._reads.clear()
            found = self._reads[read] = Reads.of(read)
        return found


def _fail(device: PreparedDevice) -> bool:
    """Stand for an expression that does not compile."""
    del device
    raise compile_error("")
