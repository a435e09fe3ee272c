"""Devices: what expressions see of a device, made once for each slice that publishes it.

Upstream builds its maps again for every evaluation. Here a device is prepared when its slice changes, and
evaluating is looking things up: the tables `attributes` and `capacity` answer a constant path with one access,
`root` is the nested value for everything else.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`, `DeviceMatches`.
"""

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver, parse_semver
from dra_operator.cel.errors import CelError, kept, runtime_error
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values.values import DefaultMap, StringMap, legal_text

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
    attributes: dict[str, Any] = {}
    broken: CelError | None = None
    for name, attribute in device.attributes.items():
        value = prepare_attribute(attribute)
        if not isinstance(value, CelError):
            attributes[full_name(name, driver)] = value
        elif broken is None:
            broken = runtime_error(f"attribute {name}: {value.message}")
    capacity = {full_name(name, driver): prepare_amount(item.value) for name, item in device.capacity.items()}
    return PreparedDevice(
        legal_text(driver), bool(device.allow_multiple_allocations), attributes, capacity, broken
    )


def prepare_attribute(attribute: AttributeValue) -> Any:
    """Return the value of an attribute as expressions see it, or the CelError that each of them gives."""
    try:
        return _value(attribute)
    except CelError as error:
        return kept(error)


def prepare_amount(amount: Quantity) -> Any:
    """Return an amount of a capacity as expressions see it: whatever can be published can be seen."""
    try:
        return parse_quantity(str(amount))
    except CelError:
        # Nothing but zero has an exponent that the API takes and an expression cannot write.
        assert not amount.nano
        return parse_quantity("0")


@lru_cache(maxsize=4096)
def full_name(name: str, driver: str) -> str:
    """Return the name of an attribute or capacity as `domain/id`: a bare one is of the driver's domain."""
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
