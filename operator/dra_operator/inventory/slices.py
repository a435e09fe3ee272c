"""A slice as the core keeps it: columns for what selectors read, one record a device for the rest.

The objects of the API are read once, here, and dropped. A column is one attribute or capacity of all devices, kept once
for all slices that are equal in it (interning): nodes of one kind publish the same devices. Everything a search asks of
a slice again and again is kept as a set of bits, a device each, in published order.
Source: ResourceSlice of resource.k8s.io/v1.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from dra_operator.api.attributes import AttributeValue, by_short_name
from dra_operator.api.quantity import Quantity, is_ordinary
from dra_operator.api.semver import is_semver
from dra_operator.api.types import (
    CapacityRequestPolicy,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceTaint,
    ResourceSlice,
)
from dra_operator.cel.device import prepare_amount, prepare_attribute
from dra_operator.inventory import bits
from dra_operator.inventory.nodes import NOWHERE, NodeFields, SelectorIndex
from dra_operator.inventory.taints import EffectiveTaints, TaintedGroups, tainted_groups

_T = TypeVar("_T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Column(Generic[_T]):
    """The values of one name, a device each in published order; None where a device lacks it.

    Two columns with equal values are the same object; `serial` is never given out again. `keys` holds something for
    each value that is hashable, and equal for equal values alone; of an attribute it is the value itself. `prepared`
    holds each value as expressions see it, or its CelError. `sets` are the sets of devices with equal values, by their
    lowest; those without a value are one. `given_whole`, of a capacity: who asks for no amount is given all
    that a device has, which is never an error; `is_ordinary`: nor is any ordinary amount that is asked for, or nothing,
    and who is refused one is refused all larger ones.
    """

    serial: int
    values: tuple[_T | None, ...]
    keys: tuple[object, ...]
    prepared: tuple[Any, ...]
    sets: tuple[int, ...]
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
            found = Column(next(self._serials), values, values, prepared, sets)
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
            found = Column(next(self._serials), values, key, prepared, _sets(key), whole, ordinary)
            self._capacities[key] = found
        return found


def _sets(keys: tuple[object, ...]) -> tuple[int, ...]:
    sets = defaultdict[object, int](int)
    for position, key in enumerate(keys):
        sets[key] |= 1 << position
    return tuple(sets.values())


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


PoolKey = tuple[str, str]
"""Driver and pool name: what identifies a pool."""
_UNSET: Final = NodeFields()


@dataclass(frozen=True, slots=True)
class CounterUse:
    """What a device takes from one counter set: nano-units by counter name, and the groups it can live with."""

    counter_set: str
    counters: tuple[tuple[str, int], ...]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class DeviceFields:
    """What a device has besides attributes and capacity. Most devices have none of it and share one record."""

    consumes: tuple[CounterUse, ...] = ()
    nodes: NodeFields = _UNSET
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    shareable: bool = False


PLAIN: Final = DeviceFields()
_SHAREABLE: Final = DeviceFields(shareable=True)
_COMMON: Final = ("name", "attributes", "capacity", "allow_multiple_allocations")
"""Fields of a device that are kept in columns, or that most devices have."""
_DOUBTFUL: Final = frozenset(("version", "versions", "unknown"))
_serials = count()
_NOT_FULL: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """One ResourceSlice. A changed slice is a new object with a new serial number.

    `names` holds the names of the devices, `indexes` where each of them stands there; `serials` holds the serial
    numbers of all columns, in the order of the schema. `capacity_shape` is equal for slices that are
    alike in schema and capacity. `full_names` holds, by capacity, the devices that write its name with the driver's
    domain, where that is not how it is kept (`Inventory.full_names`).
    `taints` holds the taints in force, a tuple a device: the published ones and those of rules; it is empty if no
    device has any. `tainted_groups` are the devices by effective taints. `given_whole`: who asks for no amount is
    given all that a device has, which is never an error. `is_ordinary`: no ordinary amount of its capacities is one.
    `selector_index` is over the slice's node fields, or with per-device selection over those of each device; a slice of
    one node needs none.
    Sets of bits: `every` device, `ours` (the operator may allocate them: all, where ownership is not asked for),
    `half_owned` (not ours, as others are not that share counters), `shareable`, `tainted` (any taint, effective or
    not), `counted` (consumes counters), `binding` (has binding conditions), `unreadable` (an attribute has no value
    that CEL knows: each selector fails on the device).
    """

    serial: int
    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    nodes: NodeFields
    selector_index: SelectorIndex
    per_device_nodes: bool
    skip_node_operations: tuple[str, ...]
    counter_sets: tuple[CounterSet, ...]
    names: tuple[str, ...]
    indexes: Mapping[str, int]
    schema: Schema
    serials: tuple[int, ...]
    capacity_shape: tuple[Schema, tuple[int, ...]]
    attributes: Mapping[str, AttributeColumn]
    capacity: Mapping[str, CapacityColumn]
    full_names: Mapping[str, int]
    device_fields: tuple[DeviceFields, ...]
    taints: tuple[tuple[DeviceTaint, ...], ...]
    tainted_groups: TaintedGroups
    given_whole: bool
    is_ordinary: bool
    every: int
    ours: int
    half_owned: int
    shareable: int
    tainted: int
    counted: int
    binding: int
    unreadable: int
    has_groups: bool

    @property
    def key(self) -> PoolKey:
        """Driver and pool name."""
        return (self.driver, self.pool)

    def attribute_columns(self, name: str) -> tuple[AttributeColumn | None, AttributeColumn | None]:
        """Return the columns that hold the attribute `domain/id`: by its literal key, and by its bare id.

        A bare id belongs to the domain that equals the driver's name.
        """
        domain, _, identifier = name.partition("/")
        return (self.attributes.get(name), self.attributes.get(identifier) if domain == self.driver else None)

    def attribute(self, index: int, name: str) -> AttributeValue | None:
        """Return the published attribute `domain/id` of a device, or None if it is missing."""
        literal, bare = self.attribute_columns(name)
        if literal is not None and (value := literal.values[index]) is not None:
            return value
        return None if bare is None else bare.values[index]

    def effective_nodes(self, index: int) -> NodeFields:
        """Return the node fields that hold for a device: its own, if the slice leaves them to its devices."""
        return self.device_fields[index].nodes if self.per_device_nodes else self.nodes

    def path(self, index: int) -> str:
        """Return a device as texts have it: driver, pool and name."""
        return f"{self.driver}/{self.pool}/{self.names[index]}"

    def capacity_of(self, index: int) -> dict[str, DeviceCapacity]:
        """Return the capacities of a device by name."""
        return _of_device(self.capacity, index)

    def written_name(self, index: int, capacity: str) -> str:
        """Return the name of a capacity as a device writes it."""
        is_full = self.full_names.get(capacity, 0) >> index & 1
        return f"{self.driver}/{capacity}" if is_full else capacity

    def device(self, index: int) -> Device:
        """Return the part of a device that CEL sees, as an object of the API."""
        return Device(
            name=self.names[index],
            attributes=_of_device(self.attributes, index),
            capacity=self.capacity_of(index),
            allow_multiple_allocations=self.device_fields[index].shareable,
        )


_CONTENT = tuple(item.name for item in fields(Slice) if item.name not in ("serial", "selector_index"))
_content = attrgetter(*_CONTENT)


def read_slice(wire: ResourceSlice, columns: Columns, *, full_names: bool = False) -> Slice:
    """Return the slice as the core keeps it, with the published taints in force.

    With `full_names` a name in the driver's domain is the one without domain (`Rules.full_names`).
    """
    spec = wire.spec
    devices = spec.devices
    names = tuple(device.name for device in devices)
    device_fields = tuple(_device_fields(device) for device in devices)
    taints = tuple(trait.taints for trait in device_fields)
    published, amounts, written = _tables(devices, spec.driver if full_names else None)
    attributes = {name: columns.attributes(values) for name, values in _by_name(published)}
    capacity = {name: columns.capacities(values) for name, values in _by_name(amounts)}
    shareable = bits.from_flags([trait.shareable for trait in device_fields])
    unreadable = bits.from_flags([_are_unreadable(table, full_names) for table in published])
    nodes = NodeFields(spec.node_name or None, bool(spec.all_nodes), spec.node_selector)
    schema = columns.schema(
        spec.driver, tuple(attributes), tuple(capacity), len(names), shareable, unreadable
    )
    capacity_serials = tuple([column.serial for column in capacity.values()])
    return Slice(
        serial=next(_serials),
        name=wire.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        nodes=nodes,
        selector_index=_index_fields(nodes, device_fields if spec.per_device_node_selection else ()),
        per_device_nodes=bool(spec.per_device_node_selection),
        skip_node_operations=spec.skip_node_operations,
        counter_sets=spec.shared_counters,
        names=names,
        indexes={name: index for index, name in enumerate(names)},
        schema=schema,
        serials=(*[column.serial for column in attributes.values()], *capacity_serials),
        capacity_shape=(schema, capacity_serials),
        attributes=attributes,
        capacity=capacity,
        full_names=written,
        device_fields=device_fields,
        taints=taints if any(taints) else (),
        tainted_groups=tainted_groups(taints),
        given_whole=all(column.given_whole for column in capacity.values()),
        is_ordinary=all(column.is_ordinary for column in capacity.values()),
        every=bits.first(len(names)),
        ours=bits.first(len(names)),
        half_owned=0,
        shareable=shareable,
        tainted=bits.from_flags(taints),
        counted=bits.from_flags([trait.consumes for trait in device_fields]),
        binding=bits.from_flags([trait.binding_conditions for trait in device_fields]),
        unreadable=unreadable,
        has_groups=any(use.groups for trait in device_fields for use in trait.consumes),
    )


def _tables(
    devices: Sequence[Device], driver: str | None
) -> tuple[Sequence[Mapping[str, AttributeValue]], Sequence[Mapping[str, DeviceCapacity]], Mapping[str, int]]:
    """Return the attributes and capacities of devices, and which capacities are written with the driver's domain.

    With a driver, names are those without its domain.
    """
    attributes = [device.attributes for device in devices]
    capacities = [device.capacity for device in devices]
    if driver is None:
        return attributes, capacities, _NOT_FULL
    return (
        [by_short_name(table, driver) for table in attributes],
        [by_short_name(table, driver) for table in capacities],
        _full_names(capacities, driver),
    )


def _full_names(tables: Sequence[Mapping[str, object]], driver: str) -> Mapping[str, int]:
    """Return the names without domain that devices write with that of the driver, each with these devices."""
    domain = f"{driver}/"
    found: dict[str, int] = {}
    for index, table in enumerate(tables):
        for name in table:
            if name.startswith(domain):
                short = name.removeprefix(domain)
                found[short] = found.get(short, 0) | 1 << index
    return found or _NOT_FULL


def with_taints(
    slice_: Slice,
    taints: tuple[tuple[DeviceTaint, ...], ...],
    unowned: Sequence[EffectiveTaints] | None = None,
    half_owned: int = 0,
    fenced: Sequence[EffectiveTaints] | None = None,
) -> Slice:
    """Return the slice with other taints in force, as a new object.

    `unowned` has, for each device, the taint that it is not ours, or nothing; without it all devices are. `fenced` has
    the taint that keeps everybody else from it.
    """
    kept_away = bits.from_flags(unowned) if unowned is not None else 0
    return replace(
        slice_,
        serial=next(_serials),
        taints=taints if any(taints) else (),
        tainted_groups=tainted_groups(taints, unowned, fenced),
        tainted=bits.from_flags(taints) | kept_away,
        ours=slice_.every & ~kept_away,
        half_owned=half_owned,
    )


def same_content(old: Slice, new: Slice) -> bool:
    """True if two slices say the same; columns and records are shared, so this is cheap."""
    return bool(_content(old) == _content(new))


def _of_device(columns: Mapping[str, Column[_T]], index: int) -> dict[str, _T]:
    return {name: value for name, column in columns.items() if (value := column.values[index]) is not None}


def _index_fields(nodes: NodeFields, device_fields: Sequence[DeviceFields]) -> SelectorIndex:
    if nodes.node_name is not None:
        # Its node has it by name.
        return NOWHERE
    return SelectorIndex.from_fields((nodes,) if nodes.is_set else (trait.nodes for trait in device_fields))


def _by_name(tables: Sequence[Mapping[str, _T]]) -> Iterator[tuple[str, tuple[_T | None, ...]]]:
    """Yield, for each name in any of the tables, what each of them has under it."""
    for name in sorted(set().union(*tables)):
        yield name, tuple([table.get(name) for table in tables])


_besides = attrgetter(*(item.name for item in fields(Device) if item.name not in _COMMON))


def _device_fields(device: Device) -> DeviceFields:
    if not any(_besides(device)):
        return _SHAREABLE if device.allow_multiple_allocations else PLAIN
    device_fields = DeviceFields(
        consumes=tuple(
            CounterUse(
                use.counter_set,
                tuple(sorted((name, counter.value.nano) for name, counter in use.counters.items())),
                frozenset(use.compatibility_groups),
            )
            for use in device.consumes_counters
        ),
        nodes=NodeFields(device.node_name or None, bool(device.all_nodes), device.node_selector),
        taints=device.taints,
        binds_to_node=bool(device.binds_to_node),
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        shareable=bool(device.allow_multiple_allocations),
    )
    return next((shared for shared in (PLAIN, _SHAREABLE) if device_fields == shared), device_fields)


def _are_unreadable(attributes: Mapping[str, AttributeValue], full_names: bool) -> bool:  # noqa: FBT001 - the rule
    """Return whether a value is of no known type, which an empty list is by the rules that join names, too."""
    return any(
        (value.type in _DOUBTFUL and _is_unreadable(value)) or (full_names and value.value == ())
        for value in attributes.values()
    )


def _is_unreadable(value: AttributeValue) -> bool:
    if value.type == "unknown":
        return True
    texts = value.value if isinstance(value.value, tuple) else (value.value,)
    return not all(is_semver(str(text)) for text in texts)
