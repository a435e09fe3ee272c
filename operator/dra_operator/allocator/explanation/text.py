"""Parts of explanations that follow from what is asked for and has been counted, without asking anybody.

Claims of the reader's own namespace are named. Of others only the number is told: a line stands in an Event and an
annotation of the user's namespace, and may say nothing that the user has no right to list.
"""

from collections.abc import Collection, Sequence

from dra_operator.allocator.plan import ClaimPlan, RequestPlan
from dra_operator.api.text import shortened
from dra_operator.api.types import DeviceTaint, DeviceToleration
from dra_operator.inventory.taints import EffectiveTaint
from dra_operator.ledger import ClaimKey

_MOST_OF_ALTERNATIVES = 700
"""How long what is told of alternatives may be, so that the names of the others still fit into an Event."""


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


def holders_text(claims: Collection[ClaimKey], namespace: str) -> tuple[str, str]:
    """Return how many claims there are, and the names of those of a namespace beside the number of the others.

    The second text is empty if none is of the namespace. Both are clauses, as "by 3 claims" and "a, b, 1 of another
    namespace".
    """
    own = sorted([name for space, name in claims if space == namespace])
    others = len(claims) - len(own)
    count = f"by {len(claims)} claim{'s' if len(claims) != 1 else ''}"
    elsewhere = "of another namespace" if others == 1 else "of other namespaces"
    if not own:
        return (f"{count} {elsewhere}" if others else count), ""
    return count, ", ".join([*shortened(own), *([f"{others} {elsewhere}"] if others else [])])


def taint_text(taint: DeviceTaint | EffectiveTaint) -> str:
    """Return a taint as kubectl writes those of nodes: `key=value:effect`."""
    return _key_value_effect(taint.key, taint.value, taint.effect)


def toleration_text(item: DeviceToleration) -> str:
    """Return a toleration as taints are written.

    Without a value it tolerates only taints that have none, which does not look so without the quotes.
    """
    value = "" if item.operator == "Exists" else item.value or '""'
    return _key_value_effect(item.key or "any", value, item.effect)


def _key_value_effect(key: str, value: str, effect: str) -> str:
    return key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
