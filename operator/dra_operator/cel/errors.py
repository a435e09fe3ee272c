"""The one exception that leaves this package, and the limits at which a function of the library stops.

Whatever a user wrote, and whatever a device holds, the outcome is an answer or a `CelError`, whose text is the one that
Kubernetes' own evaluator gives. Functions whose own work can be large in relation to their arguments check here that
it stays within what Kubernetes' cost limit of 1,000,000 allows, in far less than a tenth of a second.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

Stage: TypeAlias = Literal["compile", "runtime"]


class CelError(Exception):
    """An expression that does not compile, or that failed on a device.

    `kind` says which of the two, `message` is the text, `position` the byte offset in the expression where it
    belongs (None where no place is known). On its way there it is something else: a stage of compilation counts
    characters, an engine names the node that failed; `program` makes bytes of both.
    """

    __slots__ = ("kind", "message", "position")

    def __init__(self, kind: Stage, message: str, position: int | None = None) -> None:
        super().__init__(kind, message, position)
        self.kind: Stage = kind
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return self.message


class Abort(CelError):  # noqa: N818 - an error of a special kind, seen from outside as any other
    """An error that ends the evaluation at once: no `&&`, `||` or quantifier absorbs it.

    Upstream's evaluator panics in these places: the cost limit, and values that Go cannot hash.
    """

    __slots__ = ()


def compile_error(message: str, position: int | None = None) -> CelError:
    """Return an error of the expression itself."""
    return CelError("compile", message, position)


def runtime_error(message: str) -> CelError:
    """Return an error of one evaluation."""
    return CelError("runtime", message)


def conversion_error(target: str) -> CelError:
    """Return the error of a text that stands for no `target`."""
    return runtime_error(f"type conversion error from 'string' to '{target}'")


def succeeds(call: Callable[..., object]) -> Callable[..., bool]:
    """Return the function that says whether `call` has an answer, where `call` raises CelError if not."""

    def check(*arguments: Any) -> bool:
        try:
            call(*arguments)
        except CelError:
            return False
        return True

    return check


def kept(error: CelError) -> CelError:
    """Return the error for somebody who keeps it: without the frames it came through, and all that these refer to."""
    return type(error)(error.kind, error.message, error.position)


def place(error: CelError) -> int:
    """Return where an error belongs; those without a place come first. Source: cel-go `common/errors.go`."""
    return -1 if error.position is None else error.position


LONGEST_TEXT: Final = 200_000
"""Characters a string may grow to; an expression of 10 KiB has to try hard to get there."""
MOST_COMPARISONS: Final = 150_000
"""Comparisons of elements that one call may make."""
MOST_ELEMENTS: Final = 50_000
"""Elements that a list may have."""


def cost_exceeded() -> Abort:
    """Return the error of an evaluation that costs too much."""
    return Abort("runtime", "operation cancelled: actual cost limit exceeded")


def check_length(length: int) -> None:
    """Refuse to make a text of `length` characters if that is too long. Raises CelError."""
    if length > LONGEST_TEXT:
        raise cost_exceeded()


def check_elements(count: int) -> None:
    """Refuse to make a list of `count` elements if those are too many. Raises CelError."""
    if count > MOST_ELEMENTS:
        raise cost_exceeded()


def check_comparisons(count: int) -> None:
    """Refuse to make `count` comparisons if those are too many. Raises CelError."""
    if count > MOST_COMPARISONS:
        raise cost_exceeded()
