"""Taints as they are told: which, who sets them, and what the request tolerates instead.

A taint of a rule is on no device, so whoever looks there does not find it: the rule is named. And a toleration that
misses by its effect, its value or a letter looks right to whoever wrote it, until it stands beside the taint.
Source: docs/dra-semantics 5.1.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.explanation.absent import selected_devices
from dra_operator.allocator.explanation.published import Published
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import Alternative
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceTaint, DeviceToleration
from dra_operator.inventory import Slice
from dra_operator.inventory.ownership import UNOWNED, Ownership
from dra_operator.inventory.taints import EffectiveTaint, touches

_NEAR = 0.7
_ANY_VALUE = "; without operator: Exists, a toleration is for one value: add it to tolerate any"


def taint_text(taint: DeviceTaint | EffectiveTaint) -> str:
    """Return a taint as kubectl writes those of nodes: `key=value:effect`."""
    return _text(taint.key, taint.value, taint.effect)


def tell_rules(
    taints: Collection[str],
    alternative: Alternative,
    published: Published,
    candidates: Candidates,
    budget: Budget,
) -> str:
    """Return a clause that names the rules that set some of these taints on devices which an alternative selects.

    It is empty where there are none. Raises AbortedError if the time is used up.
    """
    names = [
        name
        for name, rule in sorted(published.inventory.rules.items())
        if taint_text(rule.spec.taint) in taints
        and any(
            published.inventory.tainted_by(rule, content)
            & selected_devices(content, (alternative,), candidates, budget)
            for content in published.slices()
            if touches(rule, *content.key)
        )
    ]
    return f"; set by DeviceTaintRule {listed(names)}" if names else ""


def tell_owning(
    alternative: Alternative, published: Published, candidates: Candidates, budget: Budget
) -> str:
    """Return a clause with the command by which an admin takes devices that an alternative selects and nobody owns.

    It is empty where there are none. Raises AbortedError if the time is used up.
    """
    pools = {
        content.key
        for content in published.slices()
        if (unowned := _unowned(content))
        and unowned & selected_devices(content, (alternative,), candidates, budget)
    }
    if not pools:
        return ""
    driver, pool = min(pools)
    more = f" takes those of one of {len(pools)} pools" if len(pools) > 1 else " takes them"
    return f"; dra-operator own --driver {driver} --pool {pool}{more}"


def _unowned(content: Slice) -> int:
    """Return the devices of a slice that no taint makes ours."""
    wanted = Ownership.UNOWNED.value
    return sum(
        behind
        for barriers, behind in content.tainted_groups
        if barriers[0].effect == UNOWNED and barriers[0].value == wanted
    )


def tell_tolerations(taints: Collection[str], tolerations: Iterable[DeviceToleration]) -> str:
    """Return a clause with the tolerations that may have been meant for these taints, or nothing."""
    keys = {text.rpartition(":")[0].partition("=")[0] for text in taints}
    items = list(tolerations)
    texts = [
        _toleration_text(item) for item in items if not item.key or any(_alike(item.key, key) for key in keys)
    ]
    only = "only " if len(texts) == len(items) else ""
    advice = _ANY_VALUE if any(_lacks_operator(item, taints) for item in items) else ""
    return f"; the request tolerates {only}{listed(texts)}{advice}" if texts else ""


def _lacks_operator(item: DeviceToleration, taints: Collection[str]) -> bool:
    """True if a toleration would cover one of these taints, if only it did not ask for the empty value."""
    if item.operator == "Exists" or item.value:
        return False
    for text in taints:
        name, _, effect = text.rpartition(":")
        key, _, value = name.partition("=")
        if value and item.key in ("", key) and item.effect in ("", effect):
            return True
    return False


def _alike(one: str, other: str) -> bool:
    """True if one key may have been meant for the other: the domain is left out or wrong, or some letters are.

    Domains are long, and would make any two keys of one domain look alike.
    """
    mine, theirs = one.rpartition("/"), other.rpartition("/")
    if mine[2] == theirs[2]:
        return True
    return mine[0] == theirs[0] and bool(get_close_matches(mine[2], [theirs[2]], 1, cutoff=_NEAR))


def _toleration_text(item: DeviceToleration) -> str:
    if item.operator == "Exists":
        return _text(item.key or "any", "", item.effect)
    # Without a value it tolerates only taints that have none, which does not look so without the quotes.
    return _text(item.key or "any", item.value or '""', item.effect)


def _text(key: str, value: str, effect: str) -> str:
    return key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
