"""Lists as sets: order and repetition do not count. Source: cel-go `ext/sets.go`."""

from typing import Any, Final

from dra_operator.cel.costs.prices import Implementation, Row, set_price
from dra_operator.cel.library.limits import check_comparisons
from dra_operator.cel.library.lists import only_type
from dra_operator.cel.values import surely_equal


def contains(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether every element of `others` is in `items`."""
    if only_type(items, others) is not None:
        return set(others) <= set(items)
    check_comparisons(len(items) * len(others))
    return all(any(surely_equal(other, item) for item in items) for other in others)


def equivalent(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether each list has every element of the other."""
    return contains(items, others) and contains(others, items)


def intersects(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether the lists have an element in common."""
    if only_type(items, others) is not None:
        return not set(items).isdisjoint(others)
    check_comparisons(len(items) * len(others))
    return any(surely_equal(other, item) for other in others for item in items)


FUNCTIONS: Final[dict[str, Row]] = {
    "sets.contains list_sets_contains_list: (list(<T>), list(<T>)) -> bool": Implementation(
        contains, set_price(1)
    ),
    "sets.equivalent list_sets_equivalent_list: (list(<T>), list(<T>)) -> bool": Implementation(
        equivalent, set_price(2)
    ),
    "sets.intersects list_sets_intersects_list: (list(<T>), list(<T>)) -> bool": Implementation(
        intersects, set_price(1)
    ),
}
