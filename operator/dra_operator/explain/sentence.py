"""Sentences: what has been counted and found out, as a person reads it in an Event.

Claims of the reader's own namespace are named. Of others only the number is told: a line stands in an Event and an
annotation of the user's namespace, and may say nothing that the user has no right to list.
"""

from collections.abc import Collection, Sequence
from typing import Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import shortened
from dra_operator.explain.hints import Hints, tolerations_meant
from dra_operator.explain.stages import TITLES, DeviceCounts
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Ownership
from dra_operator.inventory.pool import surplus_advice
from dra_operator.ledger import ClaimKey

NONE_SELECTED: Final = (
    Reason.NO_DEVICES,
    Reason.CLASS_MATCHES_NO_DEVICE,
    Reason.SELECTOR_MATCHES_NO_DEVICE,
)
"""The reasons of a request for which there is no device, whoever uses which."""
_MOST_OF_ALTERNATIVES: Final = 700
"""How long what is told of alternatives may be, so that the names of the others still fit into an Event."""


def describe_stages(
    plan: ClaimPlan, item: Alternative, counts: DeviceCounts, hints: Hints, budget: Budget
) -> tuple[Reason | None, str]:
    """Return how many devices there are for an alternative and what keeps them away, and the reason.

    It is None where no stage behind the selectors keeps any away. Raises AbortedError if the time is used up.
    """
    content = item.key.content
    of_class, of_request = content.class_selectors, content.request_selectors
    published, left, refusals = counts.figures.published, counts.figures.in_class, counts.of_class()
    if not published:
        return Reason.NO_DEVICES, f"no devices are published{hints.empty()}"
    devices = f"{published} device{'s' if published != 1 else ''} published"
    text = f"{devices}, {left} in class {item.device_class.metadata.name}"
    if not left or refusals.failure:
        text += refusals.detail()
    if not left:
        return Reason.CLASS_MATCHES_NO_DEVICE, text + hints.unknown((), of_class, budget)
    for number in range(len(of_request)):
        refusals = counts.of_stage(number)
        left -= refusals.count
        text += f", {left} match selector #{number}"
        if not left or refusals.failure:
            text += refusals.detail()
        if not left:
            before = (*of_class, *of_request[:number])
            return (
                Reason.SELECTOR_MATCHES_NO_DEVICE,
                text + hints.unknown(before, of_request[number : number + 1], budget),
            )
    stages = [reason for reason in TITLES if reason in counts.refusals]
    for reason in stages:
        refusals = counts.refusals[reason]
        text += f", {refusals.count} {_title(reason, counts)}"
        if claims := counts.holders.get(reason):
            count, names = holders_text(claims, plan.key[0])
            if reason is Reason.DEVICE_IN_USE:
                text += f" {count} ({names})" if names else f" {count}"
            else:
                text += refusals.detail(f"; in use {count}: {names}" if names else f"; in use {count}")
        else:
            text += refusals.detail(_advice(reason, item, counts, hints, budget))
    return stages[-1] if stages else None, text


def _title(reason: Reason, counts: DeviceCounts) -> str:
    surplus = [record.judgement.has_surplus for record in counts.incomplete]
    if reason is not Reason.POOL_INCOMPLETE or not any(surplus):
        return TITLES[reason]
    return f"in pools with {'' if all(surplus) else 'slices missing or '}too many{' slices' * all(surplus)}"


def _advice(reason: Reason, item: Alternative, counts: DeviceCounts, hints: Hints, budget: Budget) -> str:
    """Return what to do about what a stage keeps away, behind its details."""
    details = counts.refusals[reason].details
    if reason is Reason.DEVICE_NOT_OWNED:
        # Whoever reads it may not take them; the command is in docs/reasons.md.
        is_free = Ownership.UNOWNED.value in details
        return "; an admin takes the devices for the operator" if is_free else ""
    if reason is Reason.DEVICE_TAINTED:
        meant = tolerations_meant(details.keys(), item.tolerations)
        return meant + hints.taint_rules(details.keys(), item, budget)
    pools = [record.pool for record in counts.incomplete if record.judgement.has_surplus]
    if reason is Reason.POOL_INCOMPLETE and pools:
        return f"; {surplus_advice(min(pools, key=lambda pool: pool.key))}"
    return ""


def describe_left(item: Alternative, counts: DeviceCounts, most: tuple[int | None, str]) -> str:
    """Return what is left for an alternative, which no constraint binds, and is too little.

    `most` is how many of them a claim could have together, and on which node; None where that is not known.
    """
    figures = counts.figures
    left = f", {figures.left} left" if figures.left else ""
    if item.count is None:
        is_told = any(reason in counts.refusals for reason in TITLES)
        rest = "" if is_told else ", but not all of them together on one node"
        return f"{left}, all requested{rest}"
    if left:
        together, node = most
        if together is None:
            together, node = counts.most_on_a_node, counts.node
        is_less = together < counts.most_on_a_node
        where = f" ({node})" if node and not is_less else ""
        left += f", at most {counts.most_on_a_node} on one node{where}"
        if is_less:
            why = " as they draw on the same counters" if figures.rivals else ""
            left += f", but only {together} of them together{why}"
    return f"{left}, {item.count} requested"


def first_few(texts: Sequence[tuple[str, str]]) -> str:
    """Return what is told of alternatives, by name, of the first ones at least, while an Event has room for more."""
    length = 0
    told = [f"{name}: {text}" for name, text in texts]
    for number, text in enumerate(told):
        length += len(text)
        if number and length > _MOST_OF_ALTERNATIVES:
            names = ", ".join(name for name, _ in texts[number:])
            return f"{'; '.join(told[:number])}; nor do these fit: {names}"
    return "; ".join(told)


def constraint_name(plan: ClaimPlan, number: int) -> str:
    """Return a constraint by number, kind and attribute."""
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


def no_nodes(inventory: Inventory) -> str:
    """Return why no node can be used."""
    nodes = inventory.nodes.values()
    causes = sorted([node.unusable or "" for node in nodes])
    counted = ", ".join(f"{causes.count(cause)} {cause}" for cause in dict.fromkeys(causes))
    return f"none of {len(nodes)} nodes can be used ({counted})" if nodes else "there are no nodes"
