"""Phrases: parts of explanations that follow from what is asked for and has been counted, without asking anybody."""

from collections.abc import Sequence

from dra_operator.allocator.explanation.tally import Tally
from dra_operator.allocator.plan import ClaimPlan, RequestPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import shortened

_MOST_OF_ALTERNATIVES = 700
"""How long what is told of alternatives may be, so that the names of the others still fit into an Event."""


def rivals(tally: Tally) -> str:
    """Return why devices that are left are not left together."""
    return f"as they draw on the same counters{' or have no group in common' if tally.grouped else ''}"


def tell_left_of_all(tally: Tally, last: Reason | None, never: str) -> tuple[Reason, str]:
    """Return why a request for all devices does not get what is left, and what it is.

    `never` says when it would not get them either, if that is so.
    """
    if never:
        left = f", {tally.left} left" if tally.left else ""
        return (
            Reason.NOT_ENOUGH_DEVICES,
            f"{left}, all requested, but not all of a node together even {never}",
        )
    if last is not None:
        return last, f", {tally.left} left, all requested" if tally.left else ""
    together = f"but not all of a node together, {rivals(tally)}"
    rest = together if tally.rivals else "but not all of them on one node"
    return Reason.NOT_ENOUGH_DEVICES, f", {tally.left} left, {rest}"


def first_few(texts: Sequence[str]) -> str:
    """Return what is told of alternatives, of the first ones at least, while an Event has room for more."""
    length = 0
    for number, text in enumerate(texts):
        length += len(text)
        if number and length > _MOST_OF_ALTERNATIVES:
            names = ", ".join(each.partition(":")[0] for each in texts[number:])
            return f"{'; '.join(texts[:number])}; nor do these fit: {names}"
    return "; ".join(texts)


def devices(count: int) -> str:
    """Return a number of devices."""
    return f"{count} device{'s' if count != 1 else ''}"


def names_of(requests: Sequence[RequestPlan]) -> str:
    """Return the names of some requests, of at least two; of many the first ones and how many there are besides."""
    *most, last = shortened([request.name for request in requests])
    return f"{', '.join(most)} and {last}"


def constraint_name(plan: ClaimPlan, number: int | None) -> str:
    """Return a constraint by number, kind and attribute; None stands for all of them."""
    if number is None:
        return f"its {len(plan.constraints)} constraints"
    return f"constraint #{number} ({plan.constraints[number]})"
