"""Columns: one attribute or capacity of all devices of a slice, kept once for all slices that are equal in it.

Interning of columns: nodes of one kind publish the same devices, which cost 500 bytes each this way. Answers about a
column are kept by its serial number, and what searches ask of it is found out when it is published.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from dra_operator.api.attributes import SCALARS, AttributeValue
from dra_operator.api.quantity import Quantity, is_ordinary
from dra_operator.api.types import CapacityRequestPolicy, DeviceCapacity
from dra_operator.cel.device import prepare_amount, prepare_attribute
from dra_operator.inventory import bits

_T = TypeVar("_T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Column(Generic[_T]):
    """The values of one name, a device each in published order; None where a device lacks it.

    Two columns with equal values are the same object; `serial` is never given out again. `keys` holds something for
    each value that is hashable, and equal for equal values alone; of an attribute it is the value itself. `prepared`
    holds each value as expressions see it, or its CelError. `sets` are the sets of devices with equal values, by their
    lowest; those without a value are one. `groups`, of an attribute, are the same without that one; None if a value is
    no scalar, and may be in part equal to others. `given_whole`, of a capacity: who asks for no amount is given all
    that a device has, which is never an error; `is_ordinary`: nor is any ordinary amount that is asked for, or nothing,
    and who is refused one is refused all larger ones.
    """

    serial: int
    values: tuple[_T | None, ...]
    keys: tuple[object, ...]
    prepared: tuple[Any, ...]
    sets: tuple[int, ...]
    groups: tuple[int, ...] | None = None
    given_whole: bool = False
    is_ordinary: bool = True


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Schema:
    """What a slice is like apart from the values of its columns: slices that are alike in this have the same object.

    `attributes` and `capacity` are the names that any device has, `size` the number of devices; `shareable` and
    `unreadable` are sets of them, as in the slice.
    """

    driver: str
    attributes: tuple[str, ...]
    capacity: tuple[str, ...]
    size: int
    shareable: int
    unreadable: int


AttributeColumn = Column[AttributeValue]
CapacityColumn = Column[DeviceCapacity]


@dataclass(slots=True)
class Columns:
    """All columns and schemas in use. One goes with the last slice that has it."""

    _serials: Iterator[int] = field(default_factory=count)
    _attributes: WeakValueDictionary[object, AttributeColumn] = field(default_factory=WeakValueDictionary)
    _capacities: WeakValueDictionary[object, CapacityColumn] = field(default_factory=WeakValueDictionary)
    _schemas: WeakValueDictionary[object, Schema] = field(default_factory=WeakValueDictionary)

    def schema(  # noqa: PLR0917 - the fields of a schema
        self,
        driver: str,
        attributes: tuple[str, ...],
        capacity: tuple[str, ...],
        size: int,
        shareable: int,
        unreadable: int,
    ) -> Schema:
        """Return the schema with these fields."""
        fields = (driver, attributes, capacity, size, shareable, unreadable)
        found = self._schemas.get(fields)
        if found is None:
            found = self._schemas[fields] = Schema(*fields)
        return found

    def attributes(self, values: tuple[AttributeValue | None, ...]) -> AttributeColumn:
        """Return the column with these attribute values."""
        found = self._attributes.get(values)
        if found is None:
            prepared = tuple([None if value is None else prepare_attribute(value) for value in values])
            sets = _sets(values)
            found = Column(next(self._serials), values, values, prepared, sets, _groups(values, sets))
            self._attributes[values] = found
        return found

    def capacities(self, values: tuple[DeviceCapacity | None, ...]) -> CapacityColumn:
        """Return the column with these capacities, written in the same way: results copy amounts as written."""
        key = tuple(None if value is None else capacity_key(value) for value in values)
        found = self._capacities.get(key)
        if found is None:
            whole = all(value is None or _is_given_whole(value) for value in values)
            prepared = tuple([None if value is None else prepare_amount(value.value) for value in values])
            ordinary = all(value is None or _is_ordinary(value) for value in values)
            found = Column(next(self._serials), values, key, prepared, _sets(key), None, whole, ordinary)
            self._capacities[key] = found
        return found


def _sets(keys: tuple[object, ...]) -> tuple[int, ...]:
    last, start = keys[0], 0
    sets: dict[object, int] = {}
    # Devices of one kind lie side by side, and equal values mostly are one object: a set grows by whole runs.
    for position, key in enumerate(keys):
        if key is not last and key != last:
            sets[last] = sets.get(last, 0) | (1 << position) - (1 << start)
            last, start = key, position
    sets[last] = sets.get(last, 0) | (1 << len(keys)) - (1 << start)
    return tuple(sets.values())


def _groups(values: tuple[AttributeValue | None, ...], sets: tuple[int, ...]) -> tuple[int, ...] | None:
    if not all(value is None or value.type in SCALARS for value in values):
        return None
    return sets if None not in values else tuple([those for those in sets if values[bits.lowest(those)]])


def _is_given_whole(capacity: DeviceCapacity) -> bool:
    return capacity.request_policy is None and capacity.value.nano >= 0


def _is_ordinary(capacity: DeviceCapacity) -> bool:
    """True if a policy makes no error of an ordinary amount, and permits none after it has refused a smaller one.

    So nothing is negative, what is computed is held by an int64, and the default, which is permitted whatever else the
    policy says, is within what it permits.
    """
    policy = capacity.request_policy
    if capacity.value.nano < 0:
        return False
    if policy is None:
        return True
    span, default = policy.valid_range, policy.default
    most = span.max if span is not None else max(policy.valid_values, default=None)
    if default is not None and (default.nano < 0 or (most is not None and default > most)):
        return False
    if span is None:
        return True
    if span.min is None or span.min.nano < 0:
        return False
    return span.step is None or (span.step.nano > 0 and is_ordinary(span.step))


def capacity_key(capacity: DeviceCapacity) -> object:
    """Return something hashable that is equal for capacities that are equal to the letter."""
    return (_written(capacity.value), _policy_key(capacity.request_policy))


def _policy_key(policy: CapacityRequestPolicy | None) -> object:
    if policy is None:
        return None
    span = policy.valid_range
    return (
        _written(policy.default),
        tuple(_written(value) for value in policy.valid_values),
        None if span is None else (_written(span.min), _written(span.max), _written(span.step)),
    )


def _written(quantity: Quantity | None) -> tuple[int, str] | None:
    return None if quantity is None else (quantity.nano, quantity.text)
