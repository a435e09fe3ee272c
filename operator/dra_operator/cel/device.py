"""Devices: what expressions see of a device, made once for each slice that publishes it.

Upstream builds its maps again for every evaluation. Here a device is prepared when its slice changes, and
evaluating is looking things up: the tables `attributes` and `capacity` answer a constant path with one access,
`root` is the nested value for everything else.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`, `DeviceMatches`.
"""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver, parse_semver
from dra_operator.cel.errors import CelError, runtime_error
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values import DefaultMap, StringMap, legal_text

if TYPE_CHECKING:
    # Not at run time: with it comes pydantic, which takes longer to import than an expression takes to check.
    from dra_operator.api.types import Device


class PreparedDevice:
    """A device as expressions see it.

    `attributes` and `capacity` map `domain/id` to a value; `broken` is the error that every evaluation gives
    if an attribute has no value that is known.
    """

    __slots__ = ("_root", "attributes", "broken", "capacity", "driver", "multiple")

    def __init__(
        self,
        driver: str,
        multiple: bool,  # noqa: FBT001 - a field of the device
        attributes: dict[str, Any],
        capacity: dict[str, Any],
        broken: CelError | None,
    ) -> None:
        self.driver = driver
        self.multiple = multiple
        self.attributes = attributes
        self.capacity = capacity
        self.broken = broken
        self._root: StringMap | None = None

    @property
    def root(self) -> StringMap:
        """The device as a map of maps: made when it is asked for, since most expressions read by paths alone."""
        root = self._root
        if root is None:
            root = self._root = StringMap(
                {
                    "driver": self.driver,
                    "allowMultipleAllocations": self.multiple,
                    "attributes": _nested(self.attributes),
                    "capacity": _nested(self.capacity),
                }
            )
        return root


def prepare_device(driver: str, device: "Device") -> PreparedDevice:
    """Return `device` of `driver` as expressions see it; never raises."""
    return assemble_device(
        driver,
        bool(device.allow_multiple_allocations),
        [(name, prepare_attribute(value)) for name, value in device.attributes.items()],
        [(name, prepare_amount(amount.value)) for name, amount in device.capacity.items()],
    )


def assemble_device(
    driver: str,
    multiple: bool,  # noqa: FBT001 - a field of the device
    attributes: Iterable[tuple[str, Any]],
    capacity: Iterable[tuple[str, Any]],
) -> PreparedDevice:
    """Return a device of values that are prepared already, each under its name as published."""
    seen, unseen = _told_apart("attribute", attributes, driver)
    amounts, unreadable = _told_apart("capacity", capacity, driver)
    return PreparedDevice(legal_text(driver), multiple, seen, amounts, unseen or unreadable)


def prepare_attribute(attribute: AttributeValue) -> Any:
    """Return the value of an attribute as expressions see it, or the CelError that each of them gives."""
    try:
        return _value(attribute)
    except CelError as error:
        return error.with_traceback(None)


def prepare_amount(amount: Quantity) -> Any:
    """Return an amount of a capacity as expressions see it, or the CelError that each of them gives."""
    try:
        return parse_quantity(str(amount))
    except CelError as error:
        return error.with_traceback(None)


def _told_apart(
    kind: str, named: Iterable[tuple[str, Any]], driver: str
) -> tuple[dict[str, Any], CelError | None]:
    """Return the values by their full names, and the first error among them."""
    values: dict[str, Any] = {}
    broken: CelError | None = None
    for name, value in named:
        if not isinstance(value, CelError):
            values[_qualified(name, driver)] = value
        elif broken is None:
            broken = runtime_error(f"{kind} {name}: {value.message}")
    return values, broken


@lru_cache(maxsize=4096)
def _qualified(name: str, driver: str) -> str:
    # Thousands of devices have the same few names: kept once, and looked up by identity.
    return intern(name if "/" in name else f"{driver}/{name}")


def _nested(flat: dict[str, Any]) -> DefaultMap:
    domains: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        domain, identity = name.split("/", 1)
        domains.setdefault(domain, {})[identity] = value
    return DefaultMap({domain: StringMap(values) for domain, values in domains.items()})


def _value(attribute: AttributeValue) -> Any:
    match attribute.type:
        case "version":
            return _version(str(attribute.value))
        case "versions":
            assert isinstance(attribute.value, tuple)
            return tuple(_version(str(text)) for text in attribute.value)
        case "string":
            return legal_text(attribute.value)
        case "strings":
            assert isinstance(attribute.value, tuple)
            return tuple(map(legal_text, attribute.value))
        case "unknown":
            raise runtime_error("unsupported attribute value")
        case _:
            return attribute.value


def _version(text: str) -> Semver:
    try:
        return parse_semver(text)
    except ValueError as error:
        raise runtime_error(f"parse semantic version: {error}") from None
