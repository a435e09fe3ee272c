"""Selectors, evaluated once for all devices that they cannot tell apart (an equivalence cache by the values they read).

The selectors of a class and a request are evaluated together. A slice whose columns are known is answered as a whole.
Explanations ask selectors one by one, as they tell which of them refuses a device. An error is an answer as well: it is
raised when a search reaches the device.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from dra_operator.allocator.budget import Budget, unlimited
from dra_operator.allocator.decision import AbortedError, FatalError, PreemptedError
from dra_operator.allocator.matching.equivalence import (
    CacheLimit,
    EquivalentDevices,
    ExpressionCache,
    FieldSet,
    drop_older_half,
)
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue, typed_text
from dra_operator.api.types import Device, DeviceCapacity
from dra_operator.api.validation.checks import DRIVER
from dra_operator.cel.advice import DOMAIN_ADVICE, describe, domains
from dra_operator.cel.device import PreparedDevice, full_name, prepare_device
from dra_operator.cel.errors import CelError, compile_error, kept
from dra_operator.cel.program import Selector, compile_selector
from dra_operator.cel.types.environment import Environment
from dra_operator.cel.values import legal_text
from dra_operator.inventory import Slice, bits

_MAX_ANSWERS = 262_144
_KEPT_AT_FIRST = 16
"""If no two of so many slices are alike in what selectors read, the next ones are not either."""
_MAX_DRIVERS = 1024
_LONG: Final = 256
"""If the selectors of a request have more characters than this, it does not keep their code alive."""
_Match: TypeAlias = Callable[[PreparedDevice], bool]
Answer: TypeAlias = tuple[int, int, int]
"""Of the devices of a slice those known, those selected, and those on which a selector fails."""
_NOTHING: Final[Answer] = (0, 0, 0)
_DRIVER: Final = frozenset(("driver",))


class _Verdict(Enum):
    """What selectors that read nothing but the driver say about a driver."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    FAILED = "failed"


_ADMITTED: Final = _Verdict.ADMITTED


@dataclass(slots=True)
class Selection:
    """Selectors that are asked in order, and their answers about slices. The first that is false or fails decides.

    `before` are the selectors of the class that read devices; they are asked once for all requests that name it. Of the
    others, the first ones (`of_driver`) read nothing but the driver, as in most classes. Their answers hold for all
    devices of a driver and are kept in `drivers`; `refused` are the drivers that they refuse. The rest is asked about
    each kind of device.

    `room` limits the answers of all selections together. Answers are kept (`keeps`) if several candidate keys share the
    selection (`has_key`: one asked for it), if slices are alike in what is read, or if an answer `may_take_long`: then
    an attempt that ran out of time can go on from there. If slices differ, as with UUIDs, answers are not kept:
    that takes longer than most evaluations. `fails_unread`: each fails on a device with an attribute of an unknown
    type, whether it reads that or not.
    """

    of_driver: tuple[_Match, ...]
    matches: tuple[_Match, ...]
    reads: FieldSet
    kinds: EquivalentDevices
    room: CacheLimit
    drivers: dict[str, _Verdict]
    refused: set[str]
    may_take_long: bool
    keeps: bool
    fails_unread: bool
    before: "Selection | None" = None
    has_key: bool = False
    _by_columns: dict[object, Answer] = field(default_factory=dict)

    def answer(self, slice_: Slice, wanted: int, budget: Budget) -> Answer:
        """Return the answers about a slice, at least those about the wanted devices.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        if self.before is None:
            return self._answer(slice_, wanted, budget)
        known, admitted, failed = self.before.answer(slice_, wanted, budget)
        if not admitted & wanted:
            return known & ~admitted, 0, failed
        known_of_rest, selected, failed_of_rest = self._answer(slice_, admitted & wanted, budget)
        return (
            known & ~admitted | admitted & known_of_rest,
            admitted & selected,
            failed | admitted & failed_of_rest,
        )

    def _answer(self, slice_: Slice, wanted: int, budget: Budget) -> Answer:
        verdict = self.drivers.get(slice_.driver) or self._ask_of_driver(slice_.driver)
        if verdict is not _ADMITTED:
            unreadable = slice_.unreadable if self.fails_unread else 0
            return (slice_.every, 0, unreadable if verdict is _Verdict.REFUSED else slice_.every)
        key = self.reads.key(slice_)
        found = self._by_columns.get(key)
        if found is None:
            found = _NOTHING
        else:
            self.keeps = True
        known, selected, failed = found
        missing = wanted & ~known
        if not missing:
            return found
        matches = self.matches
        kinds = self.kinds.find(self.reads, slice_, key, missing)
        if slice_.unreadable and self.fails_unread and (matches or self.of_driver):
            # Each fails on a broken device. Raised again and again, its error would keep the frames of all.
            broken = missing & slice_.unreadable
            known, failed, missing = known | broken, failed | broken, missing ^ broken
        evaluated = 0
        try:
            for device, those in budget.each(kinds) if self.may_take_long else kinds:
                if not those & missing:
                    continue
                try:
                    for match in matches:
                        evaluated += 1
                        if not match(device):
                            break
                    else:
                        selected |= those
                except CelError:
                    failed |= those
                known |= those
        except (AbortedError, PreemptedError):
            self._keep(key, (known, selected, failed))
            raise
        found = (known, selected, failed)
        if self.keeps or len(self._by_columns) < _KEPT_AT_FIRST:
            self._keep(key, found)
        budget.count_evaluations(evaluated)
        return found

    def forget(self) -> None:
        """Drop all answers: the selectors are no longer in use."""
        self.room.release(self._by_columns)

    def _ask_of_driver(self, driver: str) -> _Verdict:
        if len(self.drivers) >= _MAX_DRIVERS:
            # Most are gone by now; of the others it is asked again.
            self.drivers.clear()
            self.refused.clear()
        device = PreparedDevice(legal_text(driver), False, {}, {}, None)
        found = _Verdict.ADMITTED
        try:
            for match in self.of_driver:
                if not match(device):
                    found = _Verdict.REFUSED
                    self.refused.add(driver)
                    break
        except CelError:
            found = _Verdict.FAILED
        self.drivers[driver] = found
        return found

    def _keep(self, key: object, answer: Answer) -> None:
        """Keep an answer for slices that look the same to the selectors."""
        if key not in self._by_columns:
            self.room.reserve(self._by_columns)
        self._by_columns[key] = answer


@dataclass(frozen=True, slots=True)
class SelectorAnswers:
    """One expression and its own answers. `error` says why it does not compile."""

    expression: str
    program: Selector | None
    error: CelError | None
    selection: Selection

    def ask(self, slice_: Slice, wanted: int, budget: Budget) -> tuple[int, int]:
        """Return which of the wanted devices of a slice are selected, and on which the selector fails.

        Raises AbortedError if the time is used up; what was computed is kept.
        """
        _, selected, failed = self.selection.answer(slice_, wanted & slice_.every, budget)
        return selected & wanted, failed & wanted

    def errors(self, slice_: Slice, failed: int) -> Counter[str]:
        """Return the errors of the devices on which the selector fails, each with their number."""
        if self.program is None:
            return Counter({str(self.error): failed.bit_count()})
        return Counter([str(self.failure(slice_, index)) for index in bits.each(failed)])

    def failure(self, slice_: Slice, index: int) -> CelError:
        """Return the error of a device on which the selector fails."""
        assert self.program is not None
        try:
            self.program.match(prepare_device(slice_.driver, slice_.device(index)))
        except CelError as error:
            return error
        raise AssertionError("the selector does not fail on this device")


@dataclass(slots=True)
class SelectorCache:
    """All expressions in use, each compiled once. If they are too many, or too long, the oldest half is dropped.

    `budget` is that of the attempt under way, whose time it takes to compile what it asks for.
    `kinds` and what `field_set` returns are shared with derived attributes.
    """

    environment: Environment
    maximum: int = 2048
    kinds: EquivalentDevices = field(default_factory=EquivalentDevices)
    budget: Budget = field(default_factory=unlimited)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_ANSWERS))
    _known: ExpressionCache[SelectorAnswers] = field(default_factory=ExpressionCache)
    _joined: dict[tuple[tuple[str, ...], tuple[str, ...]], Selection] = field(default_factory=dict)
    _reads: dict[frozenset[str] | None, FieldSet] = field(default_factory=dict)
    _drivers: dict[tuple[_Match, ...], tuple[dict[str, _Verdict], set[str]]] = field(default_factory=dict)

    def get(self, expression: str) -> SelectorAnswers:
        """Return the answers of an expression. Raises AbortedError if the time is used up."""
        found = self._known.get(expression)
        if found is None:
            # A claim may bring more of them than can be compiled in the time of an attempt.
            self.budget.check_time()
            for dropped in self._known.make_room(expression, self.maximum):
                dropped.selection.forget()
            program = error = None
            try:
                program = compile_selector(expression, self.environment)
            except CelError as failure:
                error = kept(failure)
            found = self._known[expression] = SelectorAnswers(
                expression, program, error, self._selection([program])
            )
        return found

    def together(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Selection:
        """Return what the selectors of a class and a request select together, for one more candidate key."""
        found = self.joined(of_class, of_request)
        found.keeps = found.keeps or found.has_key
        found.has_key = True
        return found

    def joined(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Selection:
        """Return the selectors of a class and a request together, whoever asks for them."""
        found = self._joined.get((of_class, of_request))
        if found is not None:
            return found
        programs = [self.get(expression).program for expression in of_class]
        before = None
        if of_request and not all(map(_is_of_driver, programs)):
            # Each request may bring a selector of its own, and what a class reads of a device may take long to tell.
            before, programs = self.joined(of_class, ()), []
            before.keeps = True
        programs += [self.get(expression).program for expression in of_request]
        if len(self._joined) >= self.maximum:
            for old in drop_older_half(self._joined):
                old.forget()
        text = sum(map(len, of_request))
        found = self._joined[of_class, of_request] = self._selection(programs, on_demand=text > _LONG)
        found.before = before
        return found

    def field_set(self, names: frozenset[str] | None) -> FieldSet:
        """Return what an expression reads: the same object for all that read the same, as it remembers schemas."""
        found = self._reads.get(names)
        if found is None:
            if len(self._reads) >= self.maximum:
                self._reads.clear()
            found = self._reads[names] = FieldSet.parse(names)
        return found

    def _selection(self, programs: Sequence[Selector | None], *, on_demand: bool = False) -> Selection:
        of_driver: tuple[_Match, ...] = ()
        matches: tuple[_Match, ...] = ()
        names: frozenset[str] | None = frozenset()
        may_take_long = False
        for program in programs:
            if program is None:
                matches += (_fail,)
                break
            if not matches and not on_demand and _is_of_driver(program):
                of_driver += (program.match,)
                continue
            matches += (_MatchOnDemand(self, program.expression) if on_demand else program.match,)
            names = None if names is None or program.reads is None else names | program.reads
            may_take_long = may_take_long or program.may_take_long
        if len(self._drivers) >= self.maximum:
            self._drivers.clear()
        drivers, refused = self._drivers.setdefault(of_driver, ({}, set()))
        reads = self.field_set(names)
        fails_unread = not self.environment.rules.device_is_looked_up
        return Selection(
            of_driver,
            matches,
            reads,
            self.kinds,
            self._room,
            drivers,
            refused,
            may_take_long,
            may_take_long,
            fails_unread,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _MatchOnDemand:
    """Stands for the function of a selector among long ones, which is made again if it was dropped meanwhile."""

    cache: SelectorCache
    expression: str

    def __call__(self, device: PreparedDevice) -> bool:
        """Return whether the device fits; raises CelError, and AbortedError if the time is used up."""
        program = self.cache.get(self.expression).program
        assert program is not None
        return program.match(device)


def _is_of_driver(program: Selector | None) -> bool:
    return program is not None and program.reads == _DRIVER and not program.may_take_long


def _fail(device: PreparedDevice) -> bool:
    """Stand for an expression that does not compile."""
    del device
    raise compile_error("")


_OF_ALL_DRIVERS: Final = "resource.kubernetes.io"
"""The domain of attributes that Kubernetes defines, such as `pcieRoot`."""
_WRONG_TYPES: Final = ("no such overload", "CEL result of type ", "got '")
_MOST_READ: Final = 3


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where selectors stand: how texts begin, the object to be mended (kind, name), and the request it is met for."""

    title: str
    subject: tuple[str, str]
    request: str


def in_class(name: str, request: str) -> Whereabouts:
    """Return the selectors of a class as a source."""
    return Whereabouts(f"class {name}", ("DeviceClass", name), request)


def in_request(claim: str, request: str) -> Whereabouts:
    """Return the selectors of a claim's request as a source."""
    return Whereabouts(f"request {request}", ("ResourceClaim", claim), request)


def selector_failure(
    answers: SelectorAnswers, source: Whereabouts, number: int, slice_: Slice, index: int
) -> FatalError:
    """Return the error of a selector that fails on a device."""
    if answers.error is not None:
        return FatalError(
            invalid(answers, source, number),
            Reason.SELECTOR_INVALID,
            request=source.request,
            subject=source.subject,
        )
    text = failing(answers, source, number, slice_, index)
    return FatalError(text, Reason.SELECTOR_FAILED, request=source.request, subject=source.subject)


def invalid(answers: SelectorAnswers, source: Whereabouts, number: int) -> str:
    """Return what is wrong with a selector that does not compile."""
    assert answers.error is not None
    return f"{source.title}: selector #{number} {describe(answers.expression, answers.error)}"


def failing(answers: SelectorAnswers, source: Whereabouts, number: int, slice_: Slice, index: int) -> str:
    """Return how a selector fails on a device."""
    how = describe_failure(answers, source, number, slice_, index)
    return f"{source.title}: selector #{number} fails on device {slice_.path(index)}: {how}"


def partly_failing(
    answers: SelectorAnswers,
    source: Whereabouts,
    number: int,
    slice_: Slice,
    index: int,
    *,
    failed: int,
    asked: int,
) -> str:
    """Return on how many of those that were asked a selector fails, and how on one of them."""
    how = describe_failure(answers, source, number, slice_, index)
    devices = f"{failed} of {asked} device{'s' if asked != 1 else ''}"
    return f"{source.title}: selector #{number} fails on {devices}: {slice_.path(index)}: {how}"


def describe_failure(
    answers: SelectorAnswers, source: Whereabouts, number: int, slice_: Slice, index: int
) -> str:
    """Return how a selector fails on a device, and what to do about it."""
    device = slice_.device(index)
    error = answers.failure(slice_, index)
    reads = None if answers.program is None else answers.program.reads
    text = described(answers.expression, error, reads, slice_.driver, device)
    # Selectors behind the first of a class only see devices that those before them take.
    first = number == 0 and source.subject[0] == "DeviceClass"
    if first and DOMAIN_ADVICE in text and (driver := find_driver_meant(answers.expression)):
        text += f'; if only devices of that driver are meant, begin with device.driver == "{driver}" &&'
    return text


def is_type_failure(error: CelError) -> bool:
    """True if a selector fails because a value is of another type than it takes."""
    return error.message.startswith(_WRONG_TYPES)


def described(
    expression: str, error: CelError, reads: frozenset[str] | None, driver: str, device: Device
) -> str:
    """Return how a selector fails on a device, in one line: of wrong types, those of what it `reads` are told."""
    text = describe(expression, error, prepare_device(driver, device))
    if is_type_failure(error):
        # Which operator or function has it is not known any more; what it was given is.
        types = _types_of(reads or frozenset(), driver, device)
        text += f"; here {types}" if types else ""
    return text


def _types_of(reads: frozenset[str], driver: str, device: Device) -> str:
    """Return the attributes and capacities that an expression reads with their types: `model is string "a100"`."""
    values: dict[str, AttributeValue | DeviceCapacity] = {
        f"attributes/{full_name(name, driver)}": value for name, value in device.attributes.items()
    }
    values |= {f"capacity/{full_name(name, driver)}": item for name, item in device.capacity.items()}
    texts: list[str] = []
    for part in sorted(reads & values.keys()):
        value = values[part]
        typed = f"quantity {value.value.text}" if isinstance(value, DeviceCapacity) else typed_text(value)
        texts.append(f"{part.rpartition('/')[2]} is {typed}")
    return " and ".join(texts[:_MOST_READ])


def find_driver_meant(expression: str) -> str:
    """Return the domain that an expression reads without asking for the driver, if a driver can have that name."""
    named = domains(expression)
    if len(named) != 1 or "device.driver" in expression:
        return ""
    (domain,) = named
    return domain if domain != _OF_ALL_DRIVERS and DRIVER.fullmatch(domain) else ""
