"""Selectors: a CEL expression, asked about devices as ResourceSlices have them.

The answer is that of Kubernetes. An expression that does not compile, or fails on a device, is a SelectorError with its
place and what to do.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from dra_operator.api.read import ObjectError, PartError, read_part
from dra_operator.api.text import cut, printable, shown
from dra_operator.api.types import Device
from dra_operator.cel.advice import describe, place_of
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import Selector, compile_selector
from dra_operator.cel.run.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES

_KIND: Final = "Device"
_LONGEST: Final = 100
"""So many bytes of an expression are in a message."""


class SelectorError(ValueError):
    """A selector that does not compile, or that failed on a device.

    The text says what is wrong, where, and what to do. `message` is Kubernetes' own; `stage` is `compile` or `runtime`;
    `line` and `column` count from 1 and are None where no place is known.
    """

    def __init__(self, expression: str, error: CelError, device: PreparedDevice | None = None) -> None:
        self.expression = expression
        self.message = error.message
        self.stage: Literal["compile", "runtime"] = error.kind
        place = None if error.position is None else place_of(expression, error.position)
        self.line = None if place is None else place.row
        self.column = None if place is None else place.column
        verb = "" if error.kind == "compile" else "fails: "
        text = " ".join(printable(expression).split())
        super().__init__(f"selector {cut(text, _LONGEST)}: {verb}{describe(expression, error, device)}")


@dataclass(frozen=True, slots=True)
class SelectorProgram:
    """A selector that compiles. Make one by `selector(text)`.

    `cost` is the most that one evaluation can cost; the API server refuses selectors above `COST_LIMIT`. `reads` names
    the parts of a device that it looks at, as `attributes/<domain>/<name>`, `capacity/<domain>/<name>`, `driver` and
    `allowMultipleAllocations`; None stands for any part.
    """

    expression: str
    cost: int
    reads: tuple[str, ...] | None
    _selector: Selector = field(repr=False, compare=False)

    def matches(self, device: Mapping[str, Any], driver: str | None = None) -> bool:
        """Return whether the selector is true for a device.

        `device` is an entry of `spec.devices` of a ResourceSlice, in any version, as a mapping; `driver` is that of the
        slice, and may stand in the mapping instead, under this name. Raises SelectorError if the selector fails on the
        device, which for Kubernetes is an error and not "no match"; ObjectError, a ValueError, if it is no device.
        """
        prepared = _prepare(device, driver)
        try:
            return self._selector.match(prepared)
        except CelError as error:
            raise SelectorError(self.expression, error, prepared) from None


def selector(expression: str) -> SelectorProgram:
    """Return the selector that a CEL expression is, by the rules of Kubernetes 1.37.

    Raises SelectorError if it does not compile, and ValueError if it is longer than the API server admits.
    """
    if (size := len(expression.encode(errors="surrogatepass"))) > MAX_BYTES:
        raise ValueError(
            f"selector: {size:,} bytes are more than the {MAX_BYTES:,} that the API server admits"
        )
    try:
        compiled = compile_selector(expression)
        cost = compiled.program.estimate().high
    except CelError as error:
        raise SelectorError(expression, error) from None
    reads = None if compiled.reads is None else tuple(sorted(compiled.reads))
    return SelectorProgram(expression, cost, reads, compiled)


def _prepare(body: Mapping[str, Any], driver: str | None) -> PreparedDevice:
    """Return a device as expressions see it. Raises ObjectError if it is none, or its driver is not said."""
    if not isinstance(body, Mapping):
        raise ObjectError(_KIND, "", "", "", value=body, message=f"{shown(body)} is not an object")
    name = body.get("name") if isinstance(body.get("name"), str) else ""
    driver = body.get("driver") if driver is None else driver
    if not isinstance(driver, str) or not driver:
        message = (
            "the driver's name is missing: selectors read it, and attributes without a domain are its own"
        )
        raise ObjectError(_KIND, "", str(name), "driver", value=driver, message=message)
    fields = {key: value for key, value in body.items() if key != "driver"}
    prefix = ""
    if isinstance(basic := fields.get("basic"), Mapping):
        # In v1beta1 all but the name stands one level below.
        fields, prefix = {"name": name, **basic}, "basic."
    try:
        return prepare_device(driver, read_part(Device, fields))
    except PartError as error:
        path = prefix + error.path
        raise ObjectError(_KIND, "", str(name), path, value=error.value, message=error.message) from None


__all__ = ["COST_LIMIT", "SelectorError", "SelectorProgram", "selector"]
