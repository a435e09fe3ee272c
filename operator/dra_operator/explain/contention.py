"""Contention: what requests that each fit alone take from each other, on the first node on which each fits alone.

What there is left of devices, counters and capacity is told beside what they take at least; of a constraint, what
values of its attribute are left for each.
Source: docs/dra-semantics 3.7, 4.3 and 4.4.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import MATCH, elements
from dra_operator.allocator.matching.capacity import Consumption
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan, RequestPlan
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import format_beside
from dra_operator.api.text import listed, shortened
from dra_operator.explain.comparison import listed_values
from dra_operator.explain.pools import SliceRecord
from dra_operator.explain.stages import DeviceCounter
from dra_operator.inventory import bits


class _Device(NamedTuple):
    """A device by its slice's serial number and its position there, so that it can be told from others fast."""

    serial: int
    position: int


@dataclass(frozen=True, slots=True)
class _Option:
    """An alternative of a request, and the devices that it could have on a node."""

    item: Alternative
    devices: frozenset[_Device]

    @property
    def count(self) -> int:
        """How many devices it asks for."""
        return len(self.devices) if self.item.count is None else self.item.count


_Amounts: TypeAlias = Callable[[_Option], Sequence[int]]
"""What each of the devices of an option takes."""


@dataclass(slots=True)
class Contention:
    """The requests of a plan on a node. Raises AbortedError when made, if the time is used up."""

    counter: DeviceCounter
    plan: ClaimPlan
    node: str
    budget: Budget
    options: list[list[_Option]]
    records: dict[int, SliceRecord]

    @classmethod
    def find(cls, counter: DeviceCounter, plan: ClaimPlan, node: str, budget: Budget) -> "Contention":
        """Return what the requests of a plan could have on a node."""
        records: dict[int, SliceRecord] = {}

        def devices(item: Alternative) -> Iterator[_Device]:
            for record, left in counter.left_on(node, item, budget):
                records[record.slice_.serial] = record
                yield from (_Device(record.slice_.serial, index) for index in bits.each(left))

        options = [
            _able([_Option(item, frozenset(devices(item))) for item in request.alternatives])
            for request in plan.requests
        ]
        return cls(counter, plan, node, budget, options, records)

    def describe(self) -> str:
        """Return a clause on why the requests do not fit together, or nothing where no sum says so."""
        names = names_of(self.plan.requests)
        admin = any(option.item.admin_access for options in self.options for option in options)
        left = "" if admin else " left"
        reached = self._reached()
        shareable = {device for device in reached if self._is_shareable(device)}
        least, most = self._taken(lambda option: [1] * len(option.devices))
        if not shareable and least > len(reached):
            have = f"{len(reached)} device{'s' if len(reached) != 1 else ''}"
            return f"{self.node} has {have}{left} for {names}, which {_want(str(least), least, most)}"
        # Where shares pay counters, what requests take of them depends on who has the same device.
        counters = () if shareable else self._counters(reached)
        capacities = self._capacities(reached) if shareable == reached else ()
        for title, there, amounts in (*counters, *capacities):
            fewest, largest = self._taken(amounts)
            if fewest > there:
                shown, wanted = format_beside(there, fewest)
                what = f"{shown} of {title}{left}"
                return f"{self.node} has {what} for {names}, which {_want(wanted, fewest, largest)}"
        if least > MAX_DEVICES:
            return (
                f"on {self.node}, {names} want at least {least} devices, and a claim can have {MAX_DEVICES}"
            )
        return ""

    def describe_constraint(self, number: int) -> str:
        """Return what the node has left for the requests that a constraint binds, if they cannot satisfy it with that.

        Nothing where it does not show, and where one of them has an alternative that is not bound.
        """
        bound = [
            (request, options)
            for request, options in zip(self.plan.requests, self.options, strict=True)
            if all(number in item.constraints for item in request.alternatives)
        ]
        if len(bound) < 2:
            return ""
        constraint = self.plan.constraints[number]
        counts = [[option.count for option in options] for _, options in bound]
        least, most = sum(map(min, counts)), sum(map(max, counts))
        wanted = f"for {names_of([request for request, _ in bound])}, which {_want(str(least), least, most)}"
        holders: dict[AttributeValue, set[_Device]] = {}
        enough: dict[str, set[AttributeValue]] = {}
        for request, options in bound:
            for option in options:
                for value, devices in self._values(option, constraint.attribute).items():
                    holders.setdefault(value, set()).update(devices)
                    if len(devices) >= option.count:
                        enough.setdefault(request.name, set()).add(value)
        if constraint.kind != MATCH:
            values = f"{len(holders)} value{'s' if len(holders) != 1 else ''}"
            return f"{self.node} has {values} left {wanted}" if len(holders) < least else ""
        if len(enough) < len(bound):
            return ""
        if not set.intersection(*enough.values()):
            several = len({value.type for values in enough.values() for value in values}) > 1
            texts = [
                f"for {name} with {listed_values(values, with_types=several)}"
                for name, values in enough.items()
            ]
            return f"{self.node} has enough left {listed(texts)}"
        # Several requests may have the same of those that are shared.
        have = max(map(len, holders.values()))
        if have >= least or any(map(self._is_shareable, chain.from_iterable(holders.values()))):
            return ""
        return f"{self.node} has at most {have} with the same value left {wanted}"

    def _values(self, option: _Option, attribute: str) -> dict[AttributeValue, set[_Device]]:
        """Return the devices of an option by their values of an attribute, of lists by each member."""
        expression = option.item.derived.get(attribute)
        found: dict[AttributeValue, set[_Device]] = {}
        for device in option.devices:
            slice_, position = self.records[device.serial].slice_, device.position
            if expression is None:
                value = slice_.attribute(position, attribute)
            else:
                derived = self.counter.candidates.derived.values(
                    expression, slice_, 1 << position, self.budget
                )
                value = next(
                    (each for each, those in derived.by_value.items() if those >> position & 1), None
                )
            for element in elements(value) if value is not None else ():
                found.setdefault(element, set()).add(device)
        return found

    def _reached(self) -> set[_Device]:
        return {device for options in self.options for option in options for device in option.devices}

    def _is_shareable(self, device: _Device) -> bool:
        if not self.counter.candidates.features.consumable_capacity:
            return False
        return bool(self.records[device.serial].slice_.shareable >> device.position & 1)

    def _taken(self, amounts: _Amounts) -> tuple[int, int]:
        """Return what requests take at least and at most, by what each of the devices of an option takes."""
        least = most = 0
        for options in self.options:
            taken = [(sorted(amounts(option)), option.count) for option in options]
            least += min(sum(each[:count]) for each, count in taken)
            most += max(sum(each[max(0, len(each) - count) :]) for each, count in taken)
        return least, most

    def _counters(self, reached: set[_Device]) -> Iterator[tuple[str, int, _Amounts]]:
        draws: dict[tuple[str, int], dict[_Device, int]] = {}
        for device in reached:
            record = self.records[device.serial]
            state = self.counter.availability.find_counters(record.counters)
            if state is not None and record.slice_.counted >> device.position & 1:
                for place, amount in state.layout.draw(record.slice_, device.position).amounts:
                    title = f"counter {'/'.join(state.layout.names[place])}"
                    draws.setdefault((title, state.left[place]), {})[device] = amount
        for (title, left), taken in sorted(draws.items(), key=itemgetter(0)):
            yield title, left, partial(_drawn, taken)

    def _capacities(self, reached: set[_Device]) -> Iterator[tuple[str, int, _Amounts]]:
        left = Counter[str]()
        for device in reached:
            record = self.records[device.serial]
            used = record.shared.get(device.position, {})
            for name, capacity in record.slice_.capacity_of(device.position).items():
                left[name] += capacity.value.nano - used.get(name, 0)
        for name in sorted(left):
            yield f"capacity {name}", left[name], partial(self._shares, name)

    def _shares(self, name: str, option: _Option) -> list[int]:
        """Return what shares of the devices of an option take of a capacity."""
        consumed = self.counter.candidates.consumed
        shares = [
            consumed(option.item.key, self.records[device.serial].slice_, device.position)
            for device in option.devices
        ]
        return [
            sum(amount for of, amount, _ in share.amounts if of == name)
            if isinstance(share, Consumption)
            else 0
            for share in shares
        ]


def _drawn(taken: Mapping[_Device, int], option: _Option) -> list[int]:
    return [taken.get(device, 0) for device in option.devices]


def _able(options: list[_Option]) -> list[_Option]:
    """Return the options for which there are devices enough, or else all."""
    return [option for option in options if 0 < option.count <= len(option.devices)] or options


def _want(amount: str, least: int, most: int) -> str:
    return f"want {amount}" if least == most else f"want at least {amount}"


def names_of(requests: Sequence[RequestPlan]) -> str:
    """Return the names of some requests, of at least two; of many the first ones and how many there are besides."""
    *names, last = shortened([request.name for request in requests])
    return f"{', '.join(names)} and {last}"
