"""Devices: what expressions see of a device, made once for each slice that publishes it.

Upstream builds its maps again for every evaluation. Here a device is prepared when its slice changes, and
evaluating is looking things up: the tables `attributes` and `capacity` answer a constant path with one access,
`root` is the nested value for everything else.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`, `DeviceMatches`.
"""

from collections.abc import Iterator
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver, parse_semver
from dra_operator.cel.errors import CelError, kept, runtime_error
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values import EMPTY_MAP, MISSING, DefaultMap, StringMap, Uint, format_double, legal_text

if TYPE_CHECKING:
    # Not at run time: with it comes pydantic, which takes longer to import than an expression takes to check.
    from dra_operator.api.types import Device


class DeviceMap(StringMap):
    """A map of a device as 1.38 has it: a key becomes a string, and who reads a value that is not known gets an error.

    Source: k8s.io/dynamic-resource-allocation 0.38 `cel/compile.go`, `nameToAttributes`.
    """

    __slots__ = ()
    type_name = "map"
    is_strict = True

    def find(self, key: Any) -> Any:
        """Return the value of `key`, or MISSING; raises CelError if there is one and it is not known."""
        return known_value(self.index.get(_as_text(key), MISSING))

    def contains(self, key: Any) -> bool:
        """Return whether there is a value for `key`, which is known."""
        try:
            return self.find(key) is not MISSING
        except CelError:
            return False

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the entries; an error stands for a value that is not known."""
        return iter([(key, unknown() if is_unknown(value) else value) for key, value in self.index.items()])


class DomainMap(DeviceMap):
    """The outer map of attributes or capacities as 1.38 has it: it finds an empty map where it has no entry."""

    __slots__ = ()

    def find(self, key: Any) -> Any:
        """Return the value of `key`, or an empty map."""
        return self.index.get(_as_text(key), EMPTY_MAP)

    def contains(self, key: Any) -> bool:
        """Return whether there is a real entry for `key`."""
        return super().contains(key) and self.find(key) is not EMPTY_MAP


def unknown() -> CelError:
    """Return the error of who reads a value that 1.38 does not know."""
    return runtime_error("value is invalid or its type is not supported by this version")


def is_unknown(value: Any) -> bool:
    """Return whether 1.38 does not know a value: it is of another type, no version, or an empty list."""
    return isinstance(value, CelError) or value == ()


def known_value(value: Any) -> Any:
    """Return a value; raises CelError if 1.38 does not know it."""
    if is_unknown(value):
        raise unknown()
    return value


def _as_text(key: Any) -> Any:
    kind = type(key)
    if kind is str:
        return key
    if kind is bool:
        return str(key).lower()
    if kind is float:
        return format_double(key)
    if kind is bytes:
        return key.decode(errors="replace")
    return str(int(key)) if kind in (int, Uint) else None


class PreparedDevice:
    """A device as expressions see it.

    `attributes` and `capacity` map `domain/id` to a value, or to an error if it is not known; `broken` is the error
    that every evaluation gives then, up to 1.37.
    """

    __slots__ = ("_looked_up", "_root", "attributes", "broken", "capacity", "driver", "multiple")

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
        self._looked_up: StringMap | None = None

    @property
    def root(self) -> StringMap:
        """The device as a map of maps: made when it is asked for, since most expressions read by paths alone."""
        root = self._root
        if root is None:
            root = self._root = self._nested(DefaultMap, StringMap)
        return root

    @property
    def looked_up(self) -> StringMap:
        """The same as 1.38 has it."""
        root = self._looked_up
        if root is None:
            root = self._looked_up = self._nested(DomainMap, DeviceMap)
        return root

    def _nested(self, outer: type[StringMap], inner: type[StringMap]) -> StringMap:
        return StringMap(
            {
                "driver": self.driver,
                "allowMultipleAllocations": self.multiple,
                "attributes": _nested(self.attributes, outer, inner),
                "capacity": _nested(self.capacity, outer, inner),
            }
        )


def prepare_device(driver: str, device: "Device") -> PreparedDevice:
    """Return `device` of `driver` as expressions see it; never raises."""
    attributes: dict[str, Any] = {}
    broken: CelError | None = None
    for name in sorted(device.attributes, key=is_qualified):
        value = attributes[full_name(name, driver)] = prepare_attribute(device.attributes[name])
        if broken is None and isinstance(value, CelError):
            broken = runtime_error(f"attribute {name}: {value.message}")
    capacity = {
        full_name(name, driver): prepare_amount(device.capacity[name].value)
        for name in sorted(device.capacity, key=is_qualified)
    }
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


def is_qualified(name: str) -> bool:
    """Return whether a name has its domain. Where a device has both spellings, that one counts, and comes last."""
    return "/" in name


@lru_cache(maxsize=4096)
def full_name(name: str, driver: str) -> str:
    """Return the name of an attribute or capacity as `domain/id`: a bare one is of the driver's domain."""
    # Thousands of devices have the same few names: kept once, and looked up by identity.
    return intern(name if "/" in name else f"{driver}/{name}")


def _nested(flat: dict[str, Any], outer: type[StringMap], inner: type[StringMap]) -> StringMap:
    domains: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        domain, identity = name.split("/", 1)
        domains.setdefault(domain, {})[identity] = value
    return outer({domain: inner(values) for domain, values in domains.items()})


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
