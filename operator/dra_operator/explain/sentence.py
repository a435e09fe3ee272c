"""Sentences: what has been counted and found out, as a person reads it in an Event.

Claims of the reader's own namespace are named. Of others only the number is told: a line stands in an Event and an
annotation of the user's namespace, and may say nothing that the user has no right to list.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import listed, shortened
from dra_operator.explain.hints import Hints, tolerations_meant
from dra_operator.explain.stages import PASSING, TITLES, DeviceCounts
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


class Most(NamedTuple):
    """How many devices a request could have that is too many: now and where, and even if none were in use.

    The numbers are None where that is not known; `never` says that it does not fit even then, and `when` when that is.
    """

    now: int | None = None
    node: str = ""
    never: bool = False
    idle: int | None = None
    when: str = ""


@dataclass(frozen=True, slots=True)
class StageText:
    """What is told of the devices for an alternative of a plan. What takes too long raises AbortedError."""

    plan: ClaimPlan
    item: Alternative
    counts: DeviceCounts
    hints: Hints
    budget: Budget

    def describe(self) -> tuple[Reason | None, str]:
        """Return how many devices there are and what keeps them away, and the reason.

        It is None where no stage behind the selectors keeps any away.
        """
        counts, hints, content = self.counts, self.hints, self.item.key.content
        of_class, of_request = content.class_selectors, content.request_selectors
        selectors, left, refusals = (*of_class, *of_request), counts.figures.in_class, counts.of_class()
        if not counts.figures.published:
            return Reason.NO_DEVICES, f"no devices are published{hints.empty(selectors)}"
        published = devices(counts.figures.published)
        text = f"{published} published, {left} in class {self.item.device_class.metadata.name}"
        if not left or refusals.failure:
            text += refusals.detail()
        if not left:
            meant = "".join([hints.unknown(each, (), of_class, self.budget) for each in of_class])
            return Reason.CLASS_MATCHES_NO_DEVICE, text + meant + hints.empty(selectors)
        for number, expression in enumerate(of_request):
            refusals = counts.of_stage(number)
            left -= refusals.count
            text += f", {left} match selector #{number}"
            if not left or refusals.failure:
                text += refusals.detail()
            if not left:
                meant = hints.unknown(expression, (*of_class, *of_request[:number]), selectors, self.budget)
                return Reason.SELECTOR_MATCHES_NO_DEVICE, text + meant + hints.empty(selectors)
        stages = [reason for reason in TITLES if reason in counts.refusals]
        texts = [
            f", {counts.refusals[each].count} {self._title(each)}{self._detail(each)}" for each in stages
        ]
        return stages[-1] if stages else None, text + "".join(texts)

    def _title(self, reason: Reason) -> str:
        surplus = [record.judgement.has_surplus for record in self.counts.incomplete]
        if reason is not Reason.POOL_INCOMPLETE or not any(surplus):
            return TITLES[reason]
        return (
            f"in pools with {'' if all(surplus) else 'slices missing or '}too many{' slices' * all(surplus)}"
        )

    def _detail(self, reason: Reason) -> str:
        refusals = self.counts.refusals[reason]
        if claims := self.counts.holders.get(reason):
            count, names = holders_text(claims, self.plan.key[0])
            if reason is Reason.DEVICE_IN_USE:
                return f" {count} ({names})" if names else f" {count}"
            return refusals.detail(f"; in use {count}: {names}" if names else f"; in use {count}")
        more = ""
        if reason is Reason.DEVICE_NOT_OWNED:
            # Whoever reads it may not take them; the command is in docs/reasons.md.
            is_free = Ownership.UNOWNED.value in refusals.details
            more = "; an admin takes the devices for the operator" if is_free else ""
        elif reason is Reason.DEVICE_TAINTED:
            taints = refusals.details.keys()
            more = tolerations_meant(taints, self.item.tolerations)
            more += self.hints.taint_rules(taints, self.item, self.budget)
        elif reason is Reason.POOL_INCOMPLETE:
            pools = [record.pool for record in self.counts.incomplete if record.judgement.has_surplus]
            more = f"; {surplus_advice(min(pools, key=lambda pool: pool.key))}" if pools else ""
        return refusals.detail(more)


def left_text(item: Alternative, counts: DeviceCounts, last: Reason | None, most: Most) -> tuple[Reason, str]:
    """Return why what is left for an alternative, which no constraint binds, is too little, and what it is.

    `last` is the last stage that kept devices away, if one did.
    """
    figures, count = counts.figures, item.count
    left = f", {figures.left} left" if figures.left else ""
    if count is None:
        if most.never:
            text = f", all requested, but not all of a node together even {most.when}"
            return Reason.NOT_ENOUGH_DEVICES, left + text
        if last is not None:
            return last, f"{left}, all requested" if left else ""
        rest = f"a node together, {_rivalry(counts)}" if figures.rivals else "them on one node"
        return Reason.NOT_ENOUGH_DEVICES, f"{left}, but not all of {rest}"
    if not left and last is not None and not most.never:
        return last, ""
    now = 0
    if left:
        now, node = counts.most_on_a_node, counts.node
        together = ""
        if most.now is not None:
            node = most.node
            if most.now < now:
                now, node = most.now, ""
                why = f" {_rivalry(counts)}" if figures.rivals else ""
                together = f", but only {most.now} of them together{why}"
        where = f" ({node})" if node else ""
        left += f", at most {counts.most_on_a_node} on one node{where}{together}"
    if not most.never:
        behind = ""
    elif most.idle is None:
        behind = f", which no node has even {most.when}"
    elif left and most.idle <= now:
        left, behind = f"{left} even {most.when}", ""
    elif most.idle < counts.most_if_idle:
        behind = f", only {most.idle} of them together {most.when}"
    else:
        behind = f", at most {most.idle} on one node {most.when}"
    return Reason.NOT_ENOUGH_DEVICES, f"{left}, {count} requested{behind}"


def _rivalry(counts: DeviceCounts) -> str:
    """Return why devices that are left are not left together."""
    groups = " or have no group in common" if counts.figures.grouped else ""
    return f"as they draw on the same counters{groups}"


def when_idle(all_counts: Iterable[DeviceCounts]) -> str:
    """Return what would have to be otherwise, for devices that are in use or tainted."""
    tainted = any(Reason.DEVICE_TAINTED in counts.refusals for counts in all_counts)
    return f"if none were in use{' or tainted' if tainted else ''}"


def may_pass(counts: DeviceCounts) -> bool:
    """True if something keeps devices away that may end: uses or taints."""
    return not PASSING.isdisjoint(counts.refusals)


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


def devices(count: int) -> str:
    """Return a number of devices."""
    return f"{count} device{'s' if count != 1 else ''}"


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


def no_nodes(inventory: Inventory) -> str:
    """Return why no node can be used."""
    nodes = inventory.nodes.values()
    causes = sorted([node.unusable or "" for node in nodes])
    counted = ", ".join(f"{causes.count(cause)} {cause}" for cause in dict.fromkeys(causes))
    return f"none of {len(nodes)} nodes can be used ({counted})" if nodes else "there are no nodes"


def places_text(nodes: dict[str, str]) -> str:
    """Return on which node each request fits, by name."""
    return listed([f"{name} on {where}" for name, where in nodes.items()])
