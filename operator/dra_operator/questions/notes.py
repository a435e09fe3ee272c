"""Notes: what is worth knowing of a state, as faults of objects, rules that taint nothing, devices held twice."""

from collections.abc import Iterator, Sequence

from dra_operator.api.text import listed
from dra_operator.api.types import DeviceTaintRule
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import is_owned_taint, owns
from dra_operator.ledger import Ledger, Overcommitments
from dra_operator.pods.objects import ObjectSet
from dra_operator.questions import fault_texts


def find_notes(objects: ObjectSet, inventory: Inventory, ledger: Ledger) -> Iterator[str]:
    """Yield a line for each thing that is wrong in a state, or that it hides."""
    if owners := find_owners(objects):
        yield _owning(owners)
    for found in inventory.problems():
        yield f'{found.kind} "{found.name}": {found.message}'
    yield from _idle_rules(inventory)
    yield from _odd_labels(objects)
    for item in ledger.collisions():
        yield fault_texts.allocated_twice(item.device, item.claims)
    for case in Overcommitments(inventory, ledger).find():
        yield (
            f'ResourceSlice "{case.slice_name}": {fault_texts.too_much(case)}; {fault_texts.room_for(case)}'
        )


def find_owners(objects: ObjectSet, *, without_policy: bool = False) -> list[str]:
    """Return the rules and slices with the taint by which devices are the operator's, as texts have them.

    With `without_policy`, none of the rules that belong to an AllocationPolicy.
    """
    rules = [record.obj for record in objects.of_kind("DeviceTaintRule")]
    slices = [record.obj for record in objects.of_kind("ResourceSlice")]
    owners = [
        f"DeviceTaintRule {rule.metadata.name}"
        for rule in rules
        if owns(rule) and not (without_policy and _is_of_policy(rule))
    ]
    owners += [
        f"ResourceSlice {item.metadata.name}"
        for item in slices
        if any(is_owned_taint(taint) for device in item.spec.devices for taint in device.taints)
    ]
    return sorted(owners)


def _is_of_policy(rule: DeviceTaintRule) -> bool:
    return any(owner.kind == "AllocationPolicy" for owner in rule.metadata.owner_references)


def _owning(owners: Sequence[str]) -> str:
    return (
        f"the operator allocates only the devices that it owns (by {listed(owners)}), to claims that no pod uses, and "
        "kube-scheduler only the others"
    )


def _idle_rules(inventory: Inventory) -> Iterator[str]:
    """Yield a line for each taint rule that taints no device: after a slip it does so without a word."""
    slices = [content for pool in inventory.pools.values() for content in pool.slices.values()]
    for name, rule in sorted(inventory.rules.items()) if slices else ():
        if inventory.rule_selectors.problem(name) or any(
            inventory.tainted_by(rule, content) for content in slices
        ):
            continue
        selector = rule.spec.device_selector
        if selector is None:
            why = "it has no deviceSelector; {} selects all devices"
        else:
            parts = {
                "driver": selector.driver,
                "pool": selector.pool,
                "device": selector.device,
                "class": selector.device_class_name,
            }
            named = ", ".join(f"{key} {value}" for key, value in parts.items() if value is not None)
            matched = " that its selectors match" if selector.selectors else ""
            why = f"no published device is of {named or 'any driver'}{matched}"
        yield f'DeviceTaintRule "{name}": taints nothing: {why}'


def _odd_labels(objects: ObjectSet) -> Iterator[str]:
    """Yield a line for each claim or template whose label says neither that it is left alone nor that it is not.

    Claims with a controller, as those made of a template, are not the operator's, and their template may have its line.
    """
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        for record in objects.of_kind(kind):
            metadata = record.obj.metadata
            if metadata.is_made_for_pods:
                continue
            labels = metadata.labels if kind == "ResourceClaim" else record.obj.spec.metadata.labels
            if problem := fault_texts.odd_label(labels):
                yield f'{kind} "{metadata.namespace}/{metadata.name}": {problem}'
