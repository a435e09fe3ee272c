"""Edits of selectors: one literal of a plain comparison replaced by what devices have, else the selector dropped.

Numbers, quantities and versions are replaced by the nearest value that helps, texts and flags by the first that helps
of those that most devices have.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from dra_operator.allocator import Allocated, Failed
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.semver import parse_semver
from dra_operator.api.types import CELSelector, DeviceCapacity, DeviceSelector
from dra_operator.explain.comparison import Literal, find_literals
from dra_operator.inventory import Inventory, Slice
from dra_operator.pods.change import Change, Kind, name_request
from dra_operator.pods.request_parts import Part, find_parts, is_monotone, with_part
from dra_operator.pods.situation import Claims
from dra_operator.pods.trials import Trials

MOST_VALUES: Final = 32
"""So many values are tried for one literal."""


@dataclass(frozen=True, slots=True)
class _LiteralPlace:
    """A literal in a selector of a request, and the values to try for it."""

    part: Part
    number: int
    literal: Literal
    values: Sequence[str]


def find_selector(trials: Trials) -> Change | None:
    """Return the edit of one selector that helps: of literals the one whose value is nearest, else one dropped."""
    claims = trials.situation.claims
    parts = find_parts(claims)
    dropped: Change | None = None
    places: list[_LiteralPlace] = []
    published = PublishedValues(trials.situation.allocator.inventory)
    for part in parts:
        for number, selector in enumerate(part.asked.selectors):
            edited = _with_selector(claims, part, number, ())
            decision = trials.decide_claims(edited)
            if isinstance(decision, Allocated):
                text = f"{_name_selector(part, number, parts)} were dropped"
                dropped = dropped or Change(Kind.SELECTOR, text, (1, 0), edited)
            elif not isinstance(decision, Failed) and is_monotone(parts):
                # Whatever a literal of it is, it selects less.
                continue
            for literal in find_literals(selector.cel.expression if selector.cel is not None else ""):
                places.append(_LiteralPlace(part, number, literal, published.find_nearest(literal)))
                if len(places[-1].values) > MOST_VALUES:
                    trials.is_complete = False
    for rank in range(MOST_VALUES):
        for place in places:
            if rank < len(place.values):
                edited = _replaced(claims, place, place.values[rank])
                if trials.fit(edited):
                    text = _describe(place, place.values[rank], parts)
                    return Change(Kind.SELECTOR, text, (0, rank), edited)
    return dropped


def _replaced(claims: Claims, place: _LiteralPlace, value: str) -> Claims:
    selector = place.part.asked.selectors[place.number]
    assert selector.cel is not None
    expression = place.literal.put(selector.cel.expression, value)
    return _with_selector(claims, place.part, place.number, (DeviceSelector(CELSelector(expression)),))


def _with_selector(claims: Claims, part: Part, number: int, items: tuple[DeviceSelector, ...]) -> Claims:
    """Return the claims with others in the place of one selector."""
    selectors = (*part.asked.selectors[:number], *items, *part.asked.selectors[number + 1 :])
    return with_part(claims, part, replace(part.asked, selectors=selectors))


def _describe(place: _LiteralPlace, value: str, parts: Sequence[Part]) -> str:
    what = place.literal.field.name or "the driver"
    return f"{what} in {_name_selector(place.part, place.number, parts)} were {value}"


def _name_selector(part: Part, number: int, parts: Sequence[Part]) -> str:
    where = f" of {name_request(part, parts)}" if len(parts) > 1 else ""
    return f"selector #{number}{where}"


# --- what devices have


@dataclass(frozen=True, slots=True)
class PublishedValues:
    """What published devices have of attributes and capacities."""

    inventory: Inventory

    def find_nearest(self, literal: Literal) -> list[str]:
        """Return other values of the type of a literal than it, in the order in which they are tried."""
        # Most slices share their columns with others.
        alike: dict[object, list[Slice]] = {}
        for slice_ in self._slices():
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
                return _by_order(counts, literal.text)
            case _:
                del counts[literal.text]
                return sorted(counts, key=lambda text: (-counts[text], text))

    def _slices(self) -> Iterator[Slice]:
        for pool in self.inventory.pools.values():
            yield from pool.slices.values()


def _texts(literal: Literal, slice_: Slice) -> Iterable[str]:
    """Return what each device of a slice has there, if it is of the type of the literal."""
    if literal.field.table == "driver":
        return [slice_.driver] * len(slice_.names)
    columns = [column.values for column in literal.field.columns(slice_) if column is not None]
    found = [next((value for value in row if value is not None), None) for row in zip(*columns, strict=True)]
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


def _by_order(texts: Iterable[str], wanted: str) -> list[str]:
    """Return texts that stand for other versions than one: by how many are between them, and the older first."""
    try:
        middle = parse_semver(wanted)
    except ValueError:
        return []
    versions: dict[Any, str] = {}
    for text in sorted(texts, reverse=True):
        try:
            versions[parse_semver(text)] = text
        except ValueError:
            continue
    older = [versions[each] for each in sorted(versions, reverse=True) if each < middle]
    newer = [versions[each] for each in sorted(versions) if each > middle]
    return [text for pair in zip_longest(older, newer) for text in pair if text is not None]
