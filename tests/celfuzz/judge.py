"""The judge: takes one expression and one device through everything, and says what must not be.

Time is that of the thread, against the pace of the machine, so that a busy machine is no finding; what took too long is
asked again before it counts.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from celfuzz.pace import Pace
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.semver import Semver
from dra_operator.api.types import Device
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import (
    Program,
    as_attribute,
    as_bool,
    compile_derived_attribute,
    compile_program,
    compile_selector,
)
from dra_operator.cel.run.meter import COST_LIMIT, Meter
from dra_operator.cel.types.environment import STORED, Environment
from dra_operator.cel.values import CelMap, Optional_

LONGEST = 0.1
"""Seconds of one thread that no call may take longer; below, how many times longer an evaluation may."""
_LONGER = 20
_NO_LONGER = 0.05
"""Seconds after which the second evaluation, without a device, may end."""
_EVALUATIONS = ("evaluate", "evaluate_without_device", "match", "derive")
_LONGEST_A_CHARACTER = 30e-6
"""What compiling may take for each character, where that is more: up to 0.3 seconds for 10 KiB, once for an expression."""
_GO_PANICS = (
    "internal error: runtime error: hash of unhashable type",
    "internal error: interface conversion: *types.Err is not",
)
"""What upstream's evaluator says itself where Go panics; any other inner error is a finding."""
_GIVEN_UP = "error operation cancelled: actual cost limit exceeded"
_DEEP = "error expression nests too deep"
"""What is said, metered, where it would take too long or nest too deep; plainly there may be an answer."""
_FRAMES_BETWEEN = 8
"""How many calls at most are between asking plainly and then being metered."""
ENVIRONMENTS = {
    "stored-1.37": STORED,
    "stored-1.36": Environment(kubernetes="1.36"),
    "new-1.36": Environment(
        kubernetes="1.36", expressions="new", list_type_attributes=False, consumable_capacity=False
    ),
    "new-1.37": Environment(expressions="new"),
}


class Hang(BaseException):
    """A call that was ended because it did not come back."""


def metered(program: Program, device: PreparedDevice) -> bool:
    """Return the metered answer of a selector, for a second opinion."""
    return as_bool(program.evaluate(device, Meter()))


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, and the device that it is evaluated for."""

    expression: str
    driver: str
    device: dict[str, Any]
    environment: str = "stored-1.37"

    def wire(self) -> dict[str, Any]:
        """Return it as it is written down."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be: where, and what."""

    stage: str
    what: str

    @property
    def sort(self) -> str:
        """What findings of one cause have in common."""
        return f"{self.stage}: {self.what.splitlines()[0][:60]}" if self.what else self.stage

    @property
    def is_slow(self) -> bool:
        """Whether it is about time, which is not the same twice."""
        return self.what.startswith("takes longer")


@cache
def _reader() -> TypeAdapter[Device]:
    return TypeAdapter(Device)


@cache
def _pace() -> Pace:
    return Pace()


def prepared(case: Case) -> PreparedDevice:
    """Return the device of a case; raises ValueError if the wire form is none."""
    return prepare_device(case.driver, _reader().validate_python(case.device))


def judge(case: Case, *, longest: float = LONGEST) -> Finding | None:
    """Return what is wrong with how this case is answered, or None; `longest` is for a machine that is quiet."""
    return _Judge(longest, len(case.expression), _pace()).judge(case)


@dataclass(slots=True)
class _Judge:
    longest: float
    length: int
    pace: Pace
    finding: Finding | None = None

    def judge(self, case: Case) -> Finding | None:
        environment = ENVIRONMENTS[case.environment]
        device = self._run("prepare_device", lambda: prepared(case))
        if self.finding is not None:
            return self.finding
        program = self._run("compile_program", lambda: compile_program(case.expression, environment))
        if isinstance(program, CelError):
            return self.finding
        self._run("estimate", program.estimate)
        self._run("reads", program.reads)
        self._run("evaluate", lambda: program.evaluate(device, Meter(COST_LIMIT)))
        self._run(
            "evaluate_without_device",
            lambda: program.evaluate(None, Meter(COST_LIMIT, _NO_LONGER)),
        )
        self._selector(case, environment, device)
        derived = self._run(
            "compile_derived_attribute", lambda: compile_derived_attribute(case.expression, environment)
        )
        if not isinstance(derived, CelError) and self.finding is None:
            self._run("derive", lambda: derived.evaluate(device))
            if not derived.may_take_long:
                self._compare(
                    "derive",
                    lambda: derived.evaluate(device),
                    lambda: as_attribute(derived.program.evaluate(device, Meter())),
                )
        return self.finding

    def _selector(self, case: Case, environment: Environment, device: PreparedDevice) -> None:
        selector = self._run("compile_selector", lambda: compile_selector(case.expression, environment))
        if isinstance(selector, CelError) or self.finding is not None:
            return
        answer = self._run("match", lambda: selector.match(device))
        if not isinstance(answer, CelError | bool):
            self._found("match", f"answer {answer!r} is no bool")
        if not selector.may_take_long:
            self._compare("match", lambda: selector.match(device), lambda: metered(selector.program, device))

    def _run(self, stage: str, call: Callable[[], Any]) -> Any:
        """Return the answer of a call, which may be a CelError; anything else that it raises is a finding."""
        if self.finding is not None:
            return CelError("runtime", "not asked any more")
        longest = self.longest
        if stage.startswith("compile"):
            longest = max(longest, self.length * _LONGEST_A_CHARACTER)
        elif stage in _EVALUATIONS:
            longest *= _LONGER
        taken = math.inf
        for _ in range(4):
            started = time.thread_time()
            try:
                answer = call()
            except CelError as error:
                answer = error
            except Hang:
                self._found(stage, "does not come back")
                return CelError("runtime", "a hang")
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                self._found(stage, f"raises {type(error).__name__}: {error}")
                return CelError("runtime", "a foreign exception")
            taken = min(taken, time.thread_time() - started)
            if taken <= longest or taken <= longest * self.pace.slowdown():
                break
        else:
            self._found(stage, f"takes longer than {longest * 1000:.0f} ms")
        if isinstance(answer, CelError):
            self._check_error(stage, answer)
        return answer

    def _check_error(self, stage: str, error: CelError) -> None:
        message = error.message
        if type(message) is not str or error.kind not in ("compile", "runtime"):
            self._found(stage, f"an error of kind {error.kind!r} with the message {message!r}")
        elif message.startswith("internal error") and not message.startswith(_GO_PANICS):
            self._found(stage, message)
        if error.position is not None and (type(error.position) is not int or error.position < 0):
            self._found(stage, f"an error at {error.position!r}")

    def _compare(self, stage: str, fast: Callable[[], Any], exact: Callable[[], Any]) -> None:
        if self.finding is not None:
            return
        said, told = _told(fast), _told(exact)
        if said == _DEEP:
            # Plain evaluation is followed by the metered one, from as deep as it is itself.
            told = _told(lambda: _deeper(_FRAMES_BETWEEN, exact))
        if said != told and told not in (_GIVEN_UP, _DEEP):
            self._found(stage, f"plainly {said}, metered {told}")

    def _found(self, stage: str, what: str) -> None:
        if self.finding is None:
            self.finding = Finding(stage, what)


def _deeper(frames: int, call: Callable[[], Any]) -> Any:
    return _deeper(frames - 1, call) if frames else call()


def _told(call: Callable[[], Any]) -> str:
    """Return an answer as a text that two engines can be compared by: with types, without addresses."""
    try:
        return _shown(call())
    except CelError as error:
        return f"error {error.message}"


def _shown(value: Any) -> str:
    """Return the beginning of a value, which may be far larger than it looks: lists share their elements."""
    parts: list[str] = []
    waiting = [value]
    while waiting and len(parts) < 200:
        item = waiting.pop()
        parts.append(type(item).__name__)
        if isinstance(item, tuple):
            parts.append(str(len(item)))
            waiting.extend(item[:50])
        elif isinstance(item, CelMap):
            parts.append(str(len(item)))
            waiting.extend(part for entry in list(item.items())[:50] for part in entry)
        elif isinstance(item, Optional_):
            waiting.append(item.value)
        elif isinstance(item, int | str | float | bytes | Semver | AttributeValue):
            parts.append(repr(item)[:200])
    return " ".join(parts)
