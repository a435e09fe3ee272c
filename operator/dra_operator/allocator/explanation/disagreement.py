"""Disagreement: requests whose devices have no value of an attribute in common.

Devices that are to agree in an attribute may never do so, whoever is in use: a driver writes what another numbers, or
counts from another start. That is worth more to whoever waits than the name of the constraint, and it is seen from the
values alone. Where some devices do agree, nothing is said.
Source: docs/dra-semantics 3.7: values of lists agree if they have a member in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.comparison import listed_values
from dra_operator.allocator.constraints import elements
from dra_operator.allocator.explanation.absent import selected_devices
from dra_operator.allocator.explanation.published import Published
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import Alternative
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.text import listed
from dra_operator.inventory import bits


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """A request by name, with the alternatives that a constraint applies to: all it has."""

    name: str
    alternatives: Sequence[Alternative]


def tell_disagreement(
    attribute: str,
    requests: Sequence[BoundRequest],
    published: Published,
    candidates: Candidates,
    budget: Budget,
) -> str:
    """Return a clause that says what each request's devices have of an attribute, if no value is common to all.

    Of one request alone it says what types there are, if there are several, as no two of these agree. Devices are those
    that a request selects. The clause is empty where some value is common, or where an alternative derives the
    attribute. Raises AbortedError if the time is used up.
    """
    if any(attribute in item.derived for request in requests for item in request.alternatives):
        return ""
    values = [_values(attribute, request, published, candidates, budget) for request in requests]
    if len(values) == 1:
        return _tell_types(values[0])
    if not all(values) or set.intersection(*map(set, values)):
        return ""
    # Types are told only where they may be what keeps the values apart.
    several = len({value.type for found in values for value in found}) > 1
    texts = [
        f"{request.name} has {listed_values(found, with_types=several)}"
        for request, found in zip(requests, values, strict=True)
    ]
    return f"their devices have no value in common: {listed(texts)}"


def _tell_types(values: set[AttributeValue]) -> str:
    """Return a clause that names a value of each type, if there are several."""
    examples = {value.type: value for value in sorted(values, key=str, reverse=True)}
    if len(examples) < 2:
        return ""
    return f"its values are of different types, as {listed_values(set(examples.values()), with_types=True)}"


def _values(
    attribute: str, request: BoundRequest, published: Published, candidates: Candidates, budget: Budget
) -> set[AttributeValue]:
    """Return the values that the devices of a request have, of lists each member."""
    seen: set[AttributeValue] = set()
    looked: set[object] = set()
    for content in published.slices():
        selected = selected_devices(content, request.alternatives, candidates, budget)
        columns = content.attribute_columns(attribute)
        # Slices of equal nodes share their columns: what one of them has, all have.
        if (key := (*(column and column.serial for column in columns), selected)) in looked:
            continue
        looked.add(key)
        seen.update(filter(None, (content.attribute(index, attribute) for index in bits.each(selected))))
    return {element for value in seen for element in elements(value)}
