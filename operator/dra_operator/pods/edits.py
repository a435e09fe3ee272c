"""Edits with which claims may fit: one table, by kind, of the places that can be edited, the smallest edit first.

What is edited is a request or one of its alternatives, or what keeps the pod from nodes. Which of the edits helps is
found by `smallest_change`. Source: docs/pods.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import Enum
from fractions import Fraction
from math import gcd
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.names import OWNED_KEY
from dra_operator.api.quantity import NANO, Quantity, family, format_amount, parse_quantity
from dra_operator.api.semver import parse_semver
from dra_operator.api.text import listed
from dra_operator.api.types import (
    CapacityRequirements,
    CELSelector,
    DeviceCapacity,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
)
from dra_operator.explain.comparison import Literal, find_literals
from dra_operator.inventory import Inventory, Slice
from dra_operator.inventory.taints import UNOWNED, EffectiveTaint, taint_text
from dra_operator.ledger import Ledger
from dra_operator.pods.situation import Claims, Situation

Size: TypeAlias = tuple[Fraction | int, ...]
"""Changes of one kind are compared by it; those of different kinds are not compared."""
MOST_VALUES: Final = 32
"""So many values are tried for one literal."""
_MOST_TOLERATIONS: Final = 16
"""Source: k8s.io/api/resource/v1, `DeviceTolerationsMaxLength`."""
_UNITS: Final = (*(1024**power * NANO for power in (4, 3, 2, 1)), NANO, NANO // 1000, 1)
"""Amounts are lowered in steps of the largest of these that divides all that there are."""
_Item = TypeVar("_Item")


class Kind(Enum):
    """What is edited, in the order in which changes are shown."""

    TOLERATION = "T"
    SELECTOR = "S"
    AMOUNT = "A"
    COUNT = "C"
    NODE_CONDITION = "N"
    CLAIMS_ENDED = "E"


@dataclass(frozen=True, slots=True)
class Change:
    """An edit with which claims may fit. `text` goes on after "it would fit if"; `fields` of a situation are edited."""

    kind: Kind
    text: str
    size: Size
    fields: Mapping[str, Any]

    def apply(self, situation: Situation) -> Situation:
        """Return the situation for which the change was made, with it."""
        return replace(situation, **self.fields)


@dataclass(frozen=True, slots=True)
class Series:
    """The edits of one place, the smallest first: `length` of them, made by number.

    `bound` asks for less than any of them: where it does not fit, none does. In a chain each asks for less than the one
    before. Neither holds where all devices are asked for.
    """

    length: int
    edit: Callable[[int], Change]
    bound: Change | None = None
    is_chain: bool = False


# --- the parts of requests


@dataclass(frozen=True, slots=True)
class Part:
    """What a request of a claim asks for, or one of its alternatives; by entry and positions.

    `alternative` is None if the request has none. `path` is its name as results have it.
    """

    entry: str
    request: int
    alternative: int | None
    path: str
    asked: ExactDeviceRequest | DeviceSubRequest


def find_parts(claims: Claims) -> tuple[Part, ...]:
    """Return all that claims ask for, in order."""
    found: list[Part] = []
    for entry, claim in claims.items():
        for number, request in enumerate(claim.spec.devices.requests):
            if request.exactly is not None:
                found.append(Part(entry, number, None, request.name, request.exactly))
            for place, item in enumerate(request.first_available if request.exactly is None else ()):
                found.append(Part(entry, number, place, f"{request.name}/{item.name}", item))
    return tuple(found)


def is_monotone(claims: Claims) -> bool:
    """Return whether to ask for less never makes claims unfit: not of those that ask for all devices there are."""
    return all(part.asked.allocation_mode != "All" for part in find_parts(claims))


def _edit(claims: Claims, part: Part, **fields: Any) -> Claims:
    """Return claims of which a part has other fields."""
    claim = claims[part.entry]
    request, asked = claim.spec.devices.requests[part.request], replace(part.asked, **fields)
    if isinstance(asked, ExactDeviceRequest):
        request = replace(request, exactly=asked)
    elif part.alternative is not None:
        items = _with_item(request.first_available, part.alternative, asked)
        request = replace(request, first_available=items)
    devices = claim.spec.devices
    devices = replace(devices, requests=_with_item(devices.requests, part.request, request))
    return {**claims, part.entry: replace(claim, spec=replace(claim.spec, devices=devices))}


def _with_item(items: tuple[_Item, ...], place: int, *item: _Item) -> tuple[_Item, ...]:
    """Return items with another one in a place, or without it."""
    return (*items[:place], *item, *items[place + 1 :])


def _name(part: Part, claims: Claims) -> str:
    """Return a request as texts have it, with its claim if there are several."""
    return f"request {part.path}" + (f' of claim "{part.entry}"' if len(claims) > 1 else "")


# --- tolerations


def _tolerations(situation: Situation) -> Iterator[Series]:
    """Yield the tolerations of one taint for all requests."""
    claims, inventory = situation.claims, situation.allocator.inventory
    parts = find_parts(claims)
    if not parts or any(len(part.asked.tolerations) >= _MOST_TOLERATIONS for part in parts):
        return
    taints = _taints_in_force(inventory)
    subject = _name(parts[0], claims) if len(parts) == 1 else "all requests"

    def tolerating(text: str, toleration: DeviceToleration) -> Change:
        edited = claims
        for part in parts:
            edited = _edit(edited, part, tolerations=(*part.asked.tolerations, toleration))
        return Change(Kind.TOLERATION, text, (1,), {"claims": edited})

    def edit(number: int) -> Change:
        taint = taints[number]
        text = f"{subject} tolerated {taint_text(taint)}{_source(inventory, taint)}"
        return tolerating(text, DeviceToleration(taint.key, "Equal", taint.value, taint.effect))

    yield Series(len(taints), edit, tolerating("", DeviceToleration(operator="Exists")))


def _taints_in_force(inventory: Inventory) -> list[EffectiveTaint]:
    """Return the taints of devices, those that let pods stay first; those of ownership are not for users."""
    found = {
        taint
        for slice_ in inventory.slices()
        for taints, _ in slice_.tainted_groups
        for taint in taints
        if taint.effect != UNOWNED and taint.key != OWNED_KEY
    }
    return sorted(found, key=lambda taint: (taint.effect != "NoSchedule", taint))


def _source(inventory: Inventory, taint: EffectiveTaint) -> str:
    """Return a clause with the rules by which devices have a taint; nothing if drivers publish it."""
    rules = [
        name
        for name, rule in sorted(inventory.rules.items())
        if (rule.spec.taint.key, rule.spec.taint.value, rule.spec.taint.effect) == taint
        and any(inventory.tainted_by(rule, slice_) for slice_ in inventory.slices())
    ]
    return f" (set by DeviceTaintRule {listed(rules)})" if rules else ""


# --- selectors


def _selectors(situation: Situation) -> Iterator[Series]:
    """Yield, for each selector, other values for each of its literals, the nearest first, and then none at all."""
    claims = situation.claims
    parts = find_parts(claims)
    for part in parts:
        for number, selector in enumerate(part.asked.selectors):
            of_part = f" of {_name(part, claims)}" if len(parts) > 1 else ""
            place = f"selector #{number}{of_part}"
            edited = _edit(claims, part, selectors=_with_item(part.asked.selectors, number))
            dropped = Change(Kind.SELECTOR, f"{place} were dropped", (1, 0), {"claims": edited})
            expression = selector.cel.expression if selector.cel is not None else ""
            changes: list[Change] = []
            for literal in find_literals(expression):
                values = _find_nearest(situation.allocator.inventory, literal)[:MOST_VALUES]
                for rank, value in enumerate(values):
                    text = f"{literal.field.name or 'the driver'} in {place} were {value}"
                    item = DeviceSelector(CELSelector(literal.put(expression, value)))
                    edited = _edit(claims, part, selectors=_with_item(part.asked.selectors, number, item))
                    changes.append(Change(Kind.SELECTOR, text, (0, rank), {"claims": edited}))
            changes.sort(key=lambda change: change.size)
            changes.append(dropped)
            yield Series(len(changes), changes.__getitem__, dropped)


def _find_nearest(inventory: Inventory, literal: Literal) -> list[str]:
    """Return other values of the type of a literal that devices have, the nearest first."""
    # Most slices share their columns with others.
    alike: dict[object, list[Slice]] = {}
    for slice_ in inventory.slices():
        serials = [column and column.serial for column in literal.field.columns(slice_)]
        alike.setdefault((slice_.driver, len(slice_.names), *serials), []).append(slice_)
    counts = Counter[str]()
    for slices in alike.values():
        for text, number in Counter(_texts(literal, slices[0])).items():
            counts[text] += number * len(slices)
    match literal.kind:
        case "int":
            return _by_distance(counts, literal.text, int)
        case "quantity":
            return _by_distance(counts, literal.text, lambda text: parse_quantity(text).nano)
        case "version":
            return _by_place(counts, literal.text)
    del counts[literal.text]
    return sorted(counts, key=lambda text: (-likeness(text, literal.text), -counts[text], text))


def likeness(one: str, other: str) -> float:
    """Return how much two texts are alike, whatever their case: 1 for all of it."""
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


def _texts(literal: Literal, slice_: Slice) -> Iterable[str]:
    """Return what each device of a slice has there, if it is of the type of the literal."""
    if literal.field.table == "driver":
        return [slice_.driver] * len(slice_.names)
    found = (literal.field.value(slice_, index) for index in range(len(slice_.names)))
    return [text for value in found if (text := _text(literal, value)) is not None]


def _text(literal: Literal, value: AttributeValue | DeviceCapacity | None) -> str | None:
    if isinstance(value, DeviceCapacity):
        return value.value.text
    if value is None or value.type != literal.kind:
        return None
    return str(value.value).lower() if literal.kind == "bool" else str(value.value)


def _by_distance(texts: Iterable[str], wanted: str, read: Callable[[str], int]) -> list[str]:
    """Return texts that stand for other numbers than one, the nearest first, and of two as near the smaller."""
    try:
        middle = read(wanted)
    except ValueError:
        return []
    numbers = {read(text): text for text in sorted(texts, reverse=True)}
    numbers.pop(middle, None)
    return [numbers[each] for each in sorted(numbers, key=lambda number: (abs(number - middle), number))]


def _by_place(texts: Iterable[str], wanted: str) -> list[str]:
    """Return texts that stand for other versions than one: by how many are between them, and the older first."""
    versions: dict[Any, str] = {}
    for text in (*sorted(texts, reverse=True), wanted):
        try:
            versions[parse_semver(text)] = text
        except ValueError:
            continue
    ordered = [versions[each] for each in sorted(versions)]
    if wanted not in ordered:
        return []
    places = {text: number - ordered.index(wanted) for number, text in enumerate(ordered) if text != wanted}
    return sorted(places, key=lambda text: (abs(places[text]), places[text]))


# --- amounts and counts


def _amounts(situation: Situation) -> Iterator[Series]:
    """Yield, for each amount of a request, smaller ones."""
    for part in find_parts(situation.claims):
        asked = part.asked.capacity.requests if part.asked.capacity is not None else {}
        for name, quantity in asked.items():
            if quantity.nano > 0:
                yield _amounts_below(situation, part, name, quantity)


def _amounts_below(situation: Situation, part: Part, name: str, requested: Quantity) -> Series:
    claims, known = situation.claims, {0}
    for slice_ in situation.allocator.inventory.slices():
        known |= _amounts_to_give(slice_, situation.allocator.ledger, name)
    for each in find_parts(claims):
        if each.asked.capacity is not None and name in each.asked.capacity.requests:
            known.add(each.asked.capacity.requests[name].nano)
    step = gcd(requested.nano, *known)
    unit = next(each for each in _UNITS if step % each == 0)
    smaller: Sequence[int] = range(requested.nano - unit, -1, -unit)
    if not (monotone := is_monotone(claims)):
        # Who asks for all devices may get them with more, as fewer of them have that much.
        smaller = sorted((amount for amount in known if 0 <= amount < requested.nano), reverse=True)

    def edit(number: int) -> Change:
        nano = smaller[number]
        amount = Quantity(nano, format_amount(nano, family(requested)))
        assert part.asked.capacity is not None
        capacity = CapacityRequirements({**part.asked.capacity.requests, name: amount})
        text = f"{_name(part, claims)} asked for {name} {amount}"
        size = Fraction(requested.nano - nano, requested.nano)
        return Change(Kind.AMOUNT, text, (size,), {"claims": _edit(claims, part, capacity=capacity)})

    return Series(len(smaller), edit, is_chain=monotone)


def _amounts_to_give(slice_: Slice, ledger: Ledger, name: str) -> set[int]:
    """Return amounts of a capacity up to which devices can give it: all that there is, or that is left, by policy."""
    found: set[int] = set()
    column = slice_.capacity.get(name)
    for device, capacity in zip(slice_.names, column.values, strict=True) if column is not None else ():
        if capacity is None:
            continue
        amounts = [
            capacity.value.nano,
            capacity.value.nano - ledger.consumed(slice_.key, device).get(name, 0),
        ]
        found.update(amounts)
        if (policy := capacity.request_policy) is None:
            continue
        found.update(value.nano for value in policy.valid_values)
        if (span := policy.valid_range) is not None and span.min is not None:
            most = [min(each, span.max.nano) if span.max is not None else each for each in amounts]
            found.update((span.min.nano, *most))
            if span.step is not None and span.step.nano > 0:
                found.update(each - (each - span.min.nano) % span.step.nano for each in most)
    return found


def _counts(situation: Situation) -> Iterator[Series]:
    """Yield, for each request for several devices, smaller numbers."""
    claims = situation.claims
    for part in find_parts(claims):

        def edit(number: int, part: Part = part) -> Change:
            count = part.asked.count - 1 - number
            text = f"{_name(part, claims)} asked for {count} device{'s' if count > 1 else ''}"
            return Change(Kind.COUNT, text, (number + 1,), {"claims": _edit(claims, part, count=count)})

        if part.asked.allocation_mode == "ExactCount" and part.asked.count > 1:
            yield Series(part.asked.count - 1, edit, is_chain=True)


# --- what keeps the pod from nodes

_CONDITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nodeName": "its nodeName were dropped",
        "unschedulable": "the nodes were not cordoned",
        "nodeSelector": "its nodeSelector were dropped or met",
        "affinity": "its node affinity were dropped or met",
        "taint": "it tolerated the taints of the nodes",
        "ports": "its host ports were free",
        "pods": "the nodes had room for more pods",
        "volume": "its volumes were to be had there",
        "features": "the nodes had the features that it needs",
    }
)


def _node_conditions(situation: Situation) -> Iterator[Series]:
    """Yield the conditions that could keep the pod from no node, those of few nodes first."""
    conditions = sorted(situation.conditions.items(), key=lambda item: (item[1], item[0]))

    def edit(number: int) -> Change:
        name, nodes = conditions[number]
        text = _CONDITIONS.get(name, f"the nodes had enough {name}, or the pod requested less")
        suitable = situation.find_nodes_without(name)
        return Change(Kind.NODE_CONDITION, text, (nodes,), {"nodes": suitable})

    yield Series(len(conditions), edit)


EDITS: Final[Mapping[Kind, Callable[[Situation], Iterator[Series]]]] = MappingProxyType(
    {
        Kind.TOLERATION: _tolerations,
        Kind.SELECTOR: _selectors,
        Kind.AMOUNT: _amounts,
        Kind.COUNT: _counts,
        Kind.NODE_CONDITION: _node_conditions,
    }
)
"""The places that can be edited, by kind; those of claims that end are found by `ended_claims`."""
