"""Use of attributes: what a selector reads, on how many devices it is there, and whether it is guarded.

An attribute is counted where it is first read: of `a && b`, what only `b` reads is counted on the devices that `a`
selects. Guarded is what the selector does without: it is evaluated on copies of devices that lack the attribute.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.selectors import SelectorAnswers, SelectorCache
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel import CelError, PreparedDevice
from dra_operator.explain.comparison import conjuncts
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column

Devices: TypeAlias = tuple[tuple[Slice, int], ...]
"""Some devices: a set of bits for each slice that has any of them."""
MISSING_KEY: Final = "no such key: "
TABLES: Final = ("attributes", "capacity")
_MOST_KINDS: Final = 256
"""A selector is evaluated on copies of so many different devices at most."""


@dataclass(frozen=True, slots=True)
class TypeCount:
    """A type of an attribute, as a ResourceSlice writes it or `quantity`, and how many devices have it in this type."""

    type: str
    devices: int


@dataclass(frozen=True, slots=True)
class AttributeUse:
    """An attribute or a capacity that a selector reads.

    `table` is `attributes` or `capacity`, `name` is `domain/name`. `present` of `devices` have it: of those that reach
    the part of the expression which reads it first, where `&&` joins parts. `is_guarded`: the selector does not fail on
    a device without it; None if no device is reached.
    """

    table: str
    name: str
    present: int
    devices: int
    types: tuple[TypeCount, ...]
    is_guarded: bool | None


def count(devices: Devices) -> int:
    """Return how many devices these are."""
    return sum([those.bit_count() for _, those in devices])


def ask(answers: SelectorAnswers, devices: Devices, budget: Budget) -> tuple[Devices, Devices]:
    """Return which of some devices a selector selects, and on which it fails.

    Raises AbortedError if the time is used up.
    """
    matched: list[tuple[Slice, int]] = []
    failed: list[tuple[Slice, int]] = []
    for slice_, those in devices:
        selected, failing = answers.ask(slice_, those, budget)
        if selected:
            matched.append((slice_, selected))
        if failing:
            failed.append((slice_, failing))
    return tuple(matched), tuple(failed)


@dataclass(slots=True)
class AttributeUses:
    """Finds what expressions read of devices. Methods with a budget raise AbortedError if the time is used up."""

    selectors: SelectorCache
    _types: dict[object, Counter[str]] = field(default_factory=dict)

    def find(self, expression: str, devices: Devices, budget: Budget) -> tuple[AttributeUse, ...]:
        """Return the attributes and capacities that an expression which compiles reads, sorted.

        There are none where it may read any part of a device.
        """
        answers = self.selectors.get(expression)
        assert answers.program is not None
        reads = [path for path in answers.program.reads or () if path.startswith(TABLES)]
        if not reads:
            return ()
        reached = self.reached(expression, devices, budget)
        return tuple(self._use(answers, path, reached.get(path, devices), budget) for path in sorted(reads))

    def reached(self, expression: str, devices: Devices, budget: Budget) -> dict[str, Devices]:
        """Return, by what is read, the devices that reach the first part of an expression which reads it."""
        found: dict[str, Devices] = {}
        parts = conjuncts(expression)
        for part in parts if len(parts) > 1 else ():
            answers = self.selectors.get(part)
            if answers.program is None or answers.program.reads is None:
                # Cut at a place where it cannot be cut: all of it reads the rest.
                break
            for path in answers.program.reads:
                found.setdefault(path, devices)
            devices, _ = ask(answers, devices, budget)
        return found

    def _use(self, answers: SelectorAnswers, path: str, devices: Devices, budget: Budget) -> AttributeUse:
        table, _, name = path.partition("/")
        types = self.count_types(path, devices)
        counts = tuple(
            TypeCount(*item) for item in sorted(types.items(), key=lambda item: (-item[1], item[0]))
        )
        is_guarded = self._is_guarded(answers, path, devices, budget)
        return AttributeUse(table, name, types.total(), count(devices), counts, is_guarded)

    def count_types(self, path: str, devices: Devices) -> Counter[str]:
        """Return on how many of some devices what a path names is there, by type."""
        table, _, name = path.partition("/")
        types = Counter[str]()
        for slice_, those in devices:
            types.update(self._count_types(slice_, those, table, name))
        return types

    def _count_types(self, slice_: Slice, devices: int, table: str, name: str) -> Counter[str]:
        columns = find_columns(slice_, table, name)
        # Slices of equal nodes share their columns.
        key = (devices, *[column.serial for column in columns])
        found = self._types.get((table, key))
        if found is None:
            found = self._types[table, key] = Counter()
            for column in columns:
                for equal in column.sets:
                    value = column.values[bits.lowest(equal)]
                    if value is not None and (here := equal & devices):
                        kind = value.type if isinstance(value, AttributeValue) else "quantity"
                        found[kind] += here.bit_count()
                        devices &= ~here
        return found

    def _is_guarded(
        self, answers: SelectorAnswers, path: str, devices: Devices, budget: Budget
    ) -> bool | None:
        assert answers.program is not None
        table, _, name = path.partition("/")
        missing = f"{MISSING_KEY}{name.partition('/')[2]}"
        found = None
        for device, _ in self.kinds(answers, devices):
            budget.check_time()
            try:
                answers.program.match(_without(device, table, name))
            except CelError as error:
                if error.message == missing:
                    return False
            found = True
        return found

    def kinds(self, answers: SelectorAnswers, devices: Devices) -> Iterator[tuple[PreparedDevice, int]]:
        """Yield the first kinds of some devices as a selector sees them, each with the number of its devices."""
        reads = answers.selection.reads
        alike: dict[tuple[object, int], list[Slice]] = {}
        for slice_, those in devices:
            alike.setdefault((reads.key(slice_), those), []).append(slice_)
            if len(alike) > _MOST_KINDS:
                break
        number = 0
        for (key, those), slices in alike.items():
            for device, equal in self.selectors.kinds.find(reads, slices[0], key, those):
                if here := equal & those:
                    yield device, here.bit_count() * len(slices)
                    number += 1
                    if number == _MOST_KINDS:
                        return


def find_columns(slice_: Slice, table: str, name: str) -> list[Column[Any]]:
    """Return the columns of a slice that hold an attribute or a capacity `domain/name`: the full name first."""
    if table == "attributes":
        return [column for column in slice_.attribute_columns(name) if column is not None]
    domain, _, bare = name.partition("/")
    columns = slice_.capacity.get(name), slice_.capacity.get(bare) if domain == slice_.driver else None
    return [column for column in columns if column is not None]


def _without(device: PreparedDevice, table: str, name: str) -> PreparedDevice:
    attributes, capacity = (
        {each: value for each, value in values.items() if (kind, each) != (table, name)}
        for kind, values in zip(TABLES, (device.attributes, device.capacity), strict=True)
    )
    return PreparedDevice(device.driver, device.multiple, attributes, capacity, device.broken)
