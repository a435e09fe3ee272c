"""Taint rules, merged into slices: the taints in force on a device are the published ones and those of the rules.

Rules are applied in the order of their names, so that the outcome does not depend on the order they arrived in. A rule
without a selector matches nothing; one with an empty selector matches every device.
Source: DeviceTaintRule of resource.k8s.io/v1; upstream's ResourceSlice tracker appends without removing duplicates.
"""

from collections.abc import Sequence

from dra_operator.api.types import DeviceTaint, DeviceTaintRule
from dra_operator.inventory import bits
from dra_operator.inventory.rule_selectors import RuleSelectors
from dra_operator.inventory.slices import Slice


def touches(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    """True if the rule can match a device of this pool."""
    selector = rule.spec.device_selector
    return selector is not None and selector.driver in (None, driver) and selector.pool in (None, pool)


def in_force(
    content: Slice, rules: Sequence[DeviceTaintRule], selectors: RuleSelectors
) -> tuple[tuple[DeviceTaint, ...], ...]:
    """Return the taints in force, a tuple a device; `rules` are in the order of their names."""
    matching = [rule for rule in rules if touches(rule, content.driver, content.pool)]
    published = tuple(trait.taints for trait in content.traits)
    if not matching:
        return published
    selected = [(rule.spec.taint, devices_of(rule, content, selectors)) for rule in matching]
    return tuple(
        taints + tuple(taint for taint, devices in selected if devices >> index & 1)
        for index, taints in enumerate(published)
    )


def devices_of(rule: DeviceTaintRule, content: Slice, selectors: RuleSelectors) -> int:
    """Return which devices of a slice a rule taints, as a set of bits."""
    selector = rule.spec.device_selector
    if selector is None or not touches(rule, content.driver, content.pool):
        return 0
    selected = selectors.selected(rule.metadata.name, content)
    return selected & bits.of([names_device(rule, name) for name in content.names])


def names_device(rule: DeviceTaintRule, device: str) -> bool:
    """True if the rule, which touches the pool of a device, matches the device, class and CEL aside."""
    selector = rule.spec.device_selector
    return selector is not None and selector.device in (None, device)
