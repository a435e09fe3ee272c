"""Sentences: what has been counted and found out, as a person reads it in an Event, and what was probably meant.

Claims of the reader's own namespace are named. Of others only the number is told: a line stands in an Event and an
annotation of the user's namespace, and may say nothing that the user has no right to list. A name that is misspelt
looks like a cluster whose devices are free and yet never fit, unless somebody counts who has it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from typing import Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import NEAR, did_you_mean, listed, near_name, shortened
from dra_operator.api.types import DeviceToleration
from dra_operator.explain.comparison import conjuncts
from dra_operator.explain.relax import Kept
from dra_operator.explain.stages import TITLES, DeviceCounts, published_slices
from dra_operator.inventory import Inventory, Slice, Views, bits
from dra_operator.inventory.ownership import OWNED_TAINT, Ownership, tolerates_owned
from dra_operator.inventory.pool import surplus_advice
from dra_operator.inventory.taints import key_value_effect, taint_text, touches
from dra_operator.ledger import ClaimKey


@dataclass(slots=True)
class Hints:
    """Finds hints. All methods with a budget raise AbortedError if the time is used up."""

    views: Views
    candidates: Candidates
    _known: Kept = field(default_factory=Kept)

    def absent(self, plan: ClaimPlan, number: int, bound: Sequence[Alternative], budget: Budget) -> str:
        """Return a clause on how many of the devices for alternatives have a constraint's attribute.

        It is empty where all have it, and where an alternative derives it; a name that was probably meant is told where
        none has it.
        """
        attribute = plan.constraints[number].attribute
        if any(attribute in item.derived for item in bound):
            return ""
        matching = list(self._selected(bound, budget))
        total = sum([devices.bit_count() for _, devices in matching])
        having = sum(
            slice_.attribute(index, attribute) is not None
            for slice_, devices in matching
            for index in bits.each(devices)
        )
        if having == total:
            return ""
        text = f"; attribute {attribute} is on {having} of {total} matching device{'s' if total != 1 else ''}"
        if having:
            return text
        # A name is offered that devices for each of the alternatives have.
        paths = [published_names(self._selected((item,), budget)) for item in bound]
        names = {path.removeprefix("attributes/") for path in frozenset.intersection(*paths)}
        return text + did_you_mean(near_name(attribute, names))

    def unknown(self, before: tuple[str, ...], expressions: Sequence[str], budget: Budget) -> str:
        """Return what selectors read that none of the devices has which those before them select, where it is close.

        Each part that `&&` joins is asked about the devices that the parts before it leave: what others have was not
        meant.
        """
        version, texts = self.views.inventory.version, dict[str, None]()
        for part in chain.from_iterable(map(conjuncts, expressions)):
            program, asked = self.candidates.selectors.get(part).program, before
            names = self._known.find(version, asked, lambda asked=asked: self._find_names(asked, budget))  # type: ignore[misc]
            texts[_meant(program.reads or (), names) if program is not None else ""] = None
            before += (part,)
        return "".join(texts)

    def _find_names(self, expressions: tuple[str, ...], budget: Budget) -> frozenset[str]:
        selectors = [self.candidates.selectors.get(expression) for expression in expressions]
        devices: list[tuple[Slice, int]] = []
        for slice_ in published_slices(self.views):
            selected = slice_.every
            for selector in selectors:
                selected, _ = selector.ask(slice_, selected, budget)
            devices.append((slice_, selected))
        return published_names(devices)

    def empty(self) -> str:
        """Return a clause that names the first slices if drivers publish some, and none with a device."""
        # Slices with counters are not meant to have any.
        names = sorted([slice_.name for slice_ in published_slices(self.views) if not slice_.counter_sets])
        return f"; empty: ResourceSlice {listed(names)}" if names else ""

    def taint_rules(self, taints: Collection[str], alternative: Alternative, budget: Budget) -> str:
        """Return a clause that names the rules that set some of these taints on devices which an alternative selects.

        A taint of a rule is on no device, so whoever looks there does not find it.
        """
        inventory = self.views.inventory
        names = [
            name
            for name, rule in sorted(inventory.rules.items())
            if taint_text(rule.spec.taint) in taints
            and any(
                inventory.tainted_by(rule, slice_) & self.candidates.select(alternative.key, slice_, budget)
                for slice_ in published_slices(self.views)
                if touches(rule, *slice_.key)
            )
        ]
        return f"; set by DeviceTaintRule {listed(names)}" if names else ""

    def _selected(self, alternatives: Sequence[Alternative], budget: Budget) -> Iterator[tuple[Slice, int]]:
        """Yield the devices that belong to the class of an alternative, and that its selectors select, by slice."""
        for slice_ in published_slices(self.views):
            found = 0
            for item in alternatives:
                found |= self.candidates.select(item.key, slice_, budget)
            if found:
                yield slice_, found


def published_names(devices: Iterable[tuple[Slice, int]]) -> frozenset[str]:
    """Return what some devices of slices publish, as `attributes/domain/id` and `capacity/domain/id`."""
    found: set[str] = set()
    for slice_, those in devices:
        for table, columns in (("attributes", slice_.attributes), ("capacity", slice_.capacity)):
            for name, column in columns.items():
                path = f"{table}/{_full(name, slice_)}"
                if path not in found and any(column.values[index] is not None for index in bits.each(those)):
                    found.add(path)
    return frozenset(found)


def _full(name: str, slice_: Slice) -> str:
    return name if "/" in name else f"{slice_.driver}/{name}"


def _meant(reads: Iterable[str], published: frozenset[str]) -> str:
    """Return a clause about each attribute or capacity that is not published, where another was probably meant."""
    texts: list[str] = []
    for path in sorted(set(reads) - published):
        table, _, name = path.partition("/")
        names = {each.partition("/")[2] for each in published if each.startswith(f"{table}/")}
        if name and (near := near_name(name, names)):
            texts.append(f'; for {name}, did you mean "{near}"?')
    return "".join(texts)


def tolerations_meant(taints: Collection[str], tolerations: Sequence[DeviceToleration]) -> str:
    """Return a clause with the tolerations that may have been meant for these taints, or nothing."""
    tolerations = tuple(tolerations)
    if taint_text(OWNED_TAINT) in taints and tolerates_owned(tolerations):
        return (
            "; dra-operator alone allocates the devices that it owns, so a toleration of this taint counts for "
            "nothing: use other devices, or ask the admin of this cluster"
        )
    keys = {text.rpartition(":")[0].partition("=")[0] for text in taints}
    texts = [
        _toleration_text(item)
        for item in tolerations
        if not item.key or any(_is_near_key(item.key, key) for key in keys)
    ]
    only = "only " if len(texts) == len(tolerations) else ""
    return f"; the request tolerates {only}{listed(texts)}" if texts else ""


def _toleration_text(item: DeviceToleration) -> str:
    """Return a toleration as taints are written.

    Without a value it tolerates only taints that have none, which does not look so without the quotes.
    """
    value = "" if item.operator == "Exists" else item.value or '""'
    return key_value_effect(item.key or "any", value, item.effect)


def _is_near_key(one: str, other: str) -> bool:
    """True if one key may have been meant for the other: the domain is left out or wrong, or some letters are.

    Domains are long, and would make any two keys of one domain look alike.
    """
    mine, theirs = one.rpartition("/"), other.rpartition("/")
    if mine[2] == theirs[2]:
        return True
    return mine[0] == theirs[0] and bool(get_close_matches(mine[2], [theirs[2]], 1, cutoff=NEAR))


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
