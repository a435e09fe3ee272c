"""Failures of selectors, in one wording.

A broken selector is found by the search when it reaches a device, or by the explanation of a claim that waits because
all devices are in use. What has to be mended is the same in both cases, and so is the text.
"""

from dataclasses import dataclass
from typing import Final

from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.selectors import SelectorAnswers
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue, typed_text
from dra_operator.api.types import Device, DeviceCapacity
from dra_operator.api.validation.names import DRIVER
from dra_operator.cel import CelError, prepare_device
from dra_operator.cel.advice import DOMAIN_ADVICE, describe, domains
from dra_operator.cel.device import full_name
from dra_operator.inventory import Slice

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
