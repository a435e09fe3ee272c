"""Hints: what was probably meant by a name, a value or a toleration that no device goes with, and what to do.

A name that is misspelt looks like a cluster whose devices are free and yet never fit, unless somebody counts who has
it. All follows from what is published, whoever uses it, and is kept while that stays.
Source: docs/dra-semantics 3.7 and 5.1.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from typing import Any, Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import MATCH, elements
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.likeness import NEAR, near_name
from dra_operator.api.text import listed, shortened
from dra_operator.api.types import Device, DeviceToleration
from dra_operator.cel import CelError, Selector, prepare_device
from dra_operator.explain.comparison import conjuncts, listed_values
from dra_operator.explain.pools import PublishedSlices
from dra_operator.explain.relax import Kept
from dra_operator.explain.stages import key_value_effect, taint_text
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column
from dra_operator.inventory.ownership import OWNED_TAINT, tolerates_owned
from dra_operator.inventory.taints import touches

_DRIVER: Final = frozenset(("driver",))
_ANY_VALUE: Final = "; without operator: Exists, a toleration is for one value: add it to tolerate any"


@dataclass(slots=True)
class Hints:
    """Finds hints. All methods with a budget raise AbortedError if the time is used up."""

    published: PublishedSlices
    candidates: Candidates
    _known: Kept = field(default_factory=Kept)

    # --- attributes that constraints compare

    def absent(
        self, plan: ClaimPlan, number: int, bound: Sequence[Alternative], budget: Budget
    ) -> tuple[int, str]:
        """Return on how many of the devices for alternatives a constraint's attribute is, and a clause that says so.

        The clause is empty where all have it, and where an alternative derives it. A name that was probably meant is
        told if devices for each other request that is to have it have that name, too; or if it is one of the attributes
        that requests of the claim derive. If the attribute itself is, no other was meant.
        """
        attribute = plan.constraints[number].attribute
        if any(attribute in item.derived for item in bound):
            return 1, ""
        matching = list(self._selected(bound, budget))
        total = sum([devices.bit_count() for _, devices in matching])
        having = sum([_having(slice_, devices, attribute).bit_count() for slice_, devices in matching])
        if having == total:
            return having, ""
        text = f"attribute {attribute} is on {having} of {total} matching device{'s' if total != 1 else ''}"
        derived = derived_names(plan)
        if attribute in derived:
            # What other requests derive was meant, and not a name like it.
            requests, do = ("requests", "do") if len(bound) > 1 else ("request", "does")
            return (
                having,
                f"{text}, and {requests} {listed([item.name for item in bound])} {do} not derive it",
            )
        if having:
            return having, text
        names = _attribute_names(matching)
        for request in plan.requests:
            items = request.alternatives
            if any(number in item.constraints for item in items) and not any(
                item in bound or attribute in item.derived for item in items
            ):
                names &= _attribute_names(self._selected(items, budget))
        near = near_name(attribute, names.union(derived))
        return having, f'{text}; did you mean "{near}"?' if near else text

    def misread(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        """Return what the derived attributes that a constraint compares read, which no device for them has.

        Only where another name is close: what is guarded may be absent on purpose.
        """
        attribute = plan.constraints[number].attribute
        texts: dict[str, None] = {}
        for item in chain.from_iterable(request.alternatives for request in plan.requests):
            if number in item.constraints and (expression := item.derived.get(attribute)) is not None:
                content = item.key.content
                names = self._names_on((*content.class_selectors, *content.request_selectors), budget)
                texts[_meant(self.candidates.derived.reads(expression) or (), names)] = None
        return "".join(texts)

    def disagreement(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        """Return what the devices for each request have of a constraint's attribute, if no value is common to all.

        Of one request alone it says what types there are, if there are several, as no two of these agree. Nothing is
        said where an alternative derives the attribute.
        """
        constraint = plan.constraints[number]
        bound = [
            request
            for request in plan.requests
            if all(number in item.constraints for item in request.alternatives)
        ]
        items = chain.from_iterable(request.alternatives for request in bound)
        if constraint.kind != MATCH or any(constraint.attribute in item.derived for item in items):
            return ""
        values: dict[str, set[AttributeValue]] = {}
        for request in bound:
            seen: set[AttributeValue] = set()
            for slice_, devices in self._selected(request.alternatives, budget):
                found = [slice_.attribute(index, constraint.attribute) for index in bits.each(devices)]
                seen.update([value for value in found if value is not None])
            values[request.name] = {element for value in seen for element in elements(value)}
        text = _no_common_value(values)
        return f"; {text}" if text else ""

    # --- what selectors read

    def unknown(
        self, expression: str, before: tuple[str, ...], all_of_them: Sequence[str], budget: Budget
    ) -> str:
        """Return what a selector reads that none of the devices has which those before it leave, where it is close.

        Of a selector that `&&` joins each part is asked about the devices that the parts before it leave: what others
        have was not meant. Nor was what other drivers have than those that one of all the selectors asks for.
        """
        if drivers := self._about_drivers(all_of_them):
            if not self._names_on(drivers, budget):
                return ""
            before = (*drivers, *before)
        names = self._names_on(before, budget)
        parts = conjuncts(expression)
        if not self._unknown(expression, names):
            return ""
        texts: dict[str, None] = {}
        for part in parts:
            # Where the parts before it leave no device, what is known of those before.
            names = self._names_on(before, budget) or names
            texts[self._unknown(part, names)] = None
            before += (part,)
        return "".join(texts)

    def _unknown(self, expression: str, names: frozenset[str]) -> str:
        program = self.candidates.selectors.get(expression).program
        return "" if program is None or program.reads is None else _meant(program.reads, names)

    def _names_on(self, expressions: tuple[str, ...], budget: Budget) -> frozenset[str]:
        """Return what devices that selectors select publish, as `attributes/domain/id` and `capacity/domain/id`."""
        version = self.published.inventory.version
        return self._known.find(version, expressions, lambda: self._find_names(expressions, budget))

    def _find_names(self, expressions: tuple[str, ...], budget: Budget) -> frozenset[str]:
        selectors = [self.candidates.selectors.get(expression) for expression in expressions]
        devices: list[tuple[Slice, int]] = []
        for slice_ in self.published:
            selected = slice_.every
            for selector in selectors:
                selected, _ = selector.ask(slice_, selected, budget)
            devices.append((slice_, selected))
        return published_names(devices)

    # --- drivers

    def empty(self, selectors: Sequence[str]) -> str:
        """Return which drivers that some selectors ask for publish slices, and none with a device."""
        empty = self._known.find(self.published.inventory.version, "drivers", self._find_empty)
        wanted = [self.candidates.selectors.get(part).program for part in self._about_drivers(selectors)]
        texts = [
            f"; no device of driver {driver} is published: {text}"
            for driver, text in empty.items()
            if all(selector is None or _admits(selector, driver) for selector in wanted)
        ]
        return "".join(shortened(texts))

    def _find_empty(self) -> Mapping[str, str]:
        """Return a clause about the slices of each driver that publishes some and no device in them, by driver.

        Slices with counters are not meant to have any.
        """
        empty: dict[str, list[Slice]] = {}
        having: set[str] = set()
        for slice_ in self.published:
            if slice_.names:
                having.add(slice_.driver)
            elif not slice_.counter_sets:
                empty.setdefault(slice_.driver, []).append(slice_)
        return {driver: _empty_text(empty[driver]) for driver in sorted(empty.keys() - having)}

    def _about_drivers(self, selectors: Sequence[str]) -> tuple[str, ...]:
        """Return the parts of some selectors that look at nothing but the driver."""
        found: list[str] = []
        for part in chain.from_iterable(map(conjuncts, selectors)):
            program = self.candidates.selectors.get(part).program
            if program is not None and program.reads == _DRIVER:
                found.append(part)
        return tuple(found)

    # --- taints

    def taint_rules(self, taints: Collection[str], alternative: Alternative, budget: Budget) -> str:
        """Return a clause that names the rules that set some of these taints on devices which an alternative selects.

        A taint of a rule is on no device, so whoever looks there does not find it.
        """
        inventory = self.published.inventory
        names = [
            name
            for name, rule in sorted(inventory.rules.items())
            if taint_text(rule.spec.taint) in taints
            and any(
                inventory.tainted_by(rule, slice_) & self.candidates.select(alternative.key, slice_, budget)
                for slice_ in self.published
                if touches(rule, *slice_.key)
            )
        ]
        return f"; set by DeviceTaintRule {listed(names)}" if names else ""

    def _selected(self, alternatives: Sequence[Alternative], budget: Budget) -> Iterator[tuple[Slice, int]]:
        """Yield the devices that belong to the class of an alternative, and that its selectors select, by slice."""
        for slice_ in self.published:
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
                if path not in found and _is_on_any(column, those):
                    found.add(path)
    return frozenset(found)


def _is_on_any(column: Column[Any], devices: int) -> bool:
    return any(column.values[bits.lowest(alike)] is not None for alike in column.sets if alike & devices)


def _having(slice_: Slice, devices: int, attribute: str) -> int:
    """Return those of some devices that have an attribute."""
    return bits.from_positions(
        index for index in bits.each(devices) if slice_.attribute(index, attribute) is not None
    )


def _full(name: str, slice_: Slice) -> str:
    return name if "/" in name else f"{slice_.driver}/{name}"


def _attribute_names(selected: Iterable[tuple[Slice, int]]) -> set[str]:
    """Return the attributes of some devices, each as `domain/id`."""
    return {
        _full(name, slice_)
        for slice_, devices in selected
        for name, column in slice_.attributes.items()
        if any(column.values[index] is not None for index in bits.each(devices))
    }


def _no_common_value(values: Mapping[str, set[AttributeValue]]) -> str:
    """Return what requests have, by name, if no value is common to all; of one request its types, if several."""
    if len(values) == 1:
        (only,) = values.values()
        examples = {value.type: value for value in sorted(only, key=str, reverse=True)}
        types = listed_values(set(examples.values()), with_types=True)
        return f"its values are of different types, as {types}" if len(examples) > 1 else ""
    if not values or not all(values.values()) or set.intersection(*values.values()):
        return ""
    # Types are told only where they may be what keeps the values apart.
    several = len({value.type for found in values.values() for value in found}) > 1
    texts = [f"{name} has {listed_values(found, with_types=several)}" for name, found in values.items()]
    return f"their devices have no value in common: {listed(texts)}"


def _meant(reads: Iterable[str], published: frozenset[str]) -> str:
    """Return a clause about each attribute or capacity that is not published, where another was probably meant."""
    texts: list[str] = []
    for path in sorted(set(reads) - published):
        table, _, name = path.partition("/")
        names = {each.partition("/")[2] for each in published if each.startswith(f"{table}/")}
        if name and (near := near_name(name, names)):
            texts.append(f'; for {name}, did you mean "{near}"?')
    return "".join(texts)


def _empty_text(slices: Sequence[Slice]) -> str:
    names = [
        f"{slice_.name} {f'on {node}' if (node := slice_.nodes.node_name) else f'in pool {slice_.pool}'}"
        for slice_ in sorted(slices, key=lambda slice_: slice_.name)
    ]
    if len(names) == 1:
        return f"its ResourceSlice {names[0]} is empty"
    return f"its {len(names)} ResourceSlices are empty ({listed(names)})"


def _admits(selector: Selector, driver: str) -> bool:
    """True if a selector that looks at nothing but the driver selects the devices of a driver."""
    try:
        return selector.match(prepare_device(driver, Device(name="")))
    except CelError:
        return False


def derived_names(plan: ClaimPlan) -> tuple[str, ...]:
    """Return the attributes that a claim derives, whether or not a constraint asks for them."""
    return tuple(
        [
            derived.name
            for request in plan.claim.spec.devices.requests
            for item in (request.exactly, *request.first_available)
            if item is not None
            for derived in item.derived_attributes
        ]
    )


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
    advice = _ANY_VALUE if any(_lacks_operator(item, taints) for item in tolerations) else ""
    return f"; the request tolerates {only}{listed(texts)}{advice}" if texts else ""


def _toleration_text(item: DeviceToleration) -> str:
    """Return a toleration as taints are written.

    Without a value it tolerates only taints that have none, which does not look so without the quotes.
    """
    value = "" if item.operator == "Exists" else item.value or '""'
    return key_value_effect(item.key or "any", value, item.effect)


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


def _is_near_key(one: str, other: str) -> bool:
    """True if one key may have been meant for the other: the domain is left out or wrong, or some letters are.

    Domains are long, and would make any two keys of one domain look alike.
    """
    mine, theirs = one.rpartition("/"), other.rpartition("/")
    if mine[2] == theirs[2]:
        return True
    return mine[0] == theirs[0] and bool(get_close_matches(mine[2], [theirs[2]], 1, cutoff=NEAR))
