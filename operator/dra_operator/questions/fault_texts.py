"""What is said of a state that cannot be right: devices held twice, more allocated than there is, broken allocations.

The same words stand in Events, in the annotations of claims and in the answers of commands. `find_notes` has those of a
whole state, with rules that taint nothing and odd labels.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from dra_operator.api.names import OPT_OUT_LABEL
from dra_operator.api.quantity import format_beside
from dra_operator.api.text import listed, shown
from dra_operator.api.types import AllocationResult, DeviceTaintRule
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import is_owned_taint, owns
from dra_operator.inventory.taints import taint_text
from dra_operator.ledger import Breakage, Ledger, Overcommitment, Overcommitments, Resource
from dra_operator.pods.objects import ObjectSet

END_BOTH = (
    "two allocators serve this driver; nothing is taken back: let no new pod start there, end what uses any of these "
    "claims, and then restart kube-scheduler (docs/operator.md, Two holders)"
)
"""What to do where several claims hold a device, in this order."""
DELETE_CLAIM = "end what uses this claim, and delete it: a new claim gets other devices"
"""What to do about an allocation that is broken."""
DRIVER_FIRST = (
    "see whether its driver runs: one that restarts publishes its devices again, and pods go on meanwhile; "
    "if it does not come back, end what uses this claim, and delete it"
)
"""What to do about an allocation of whose pool there is no slice."""
MAKE_ROOM = "delete claims until the others fit, or have the driver publish more"
"""What to do where more is allocated than there is, and slices are the cause."""
NOT_REACHED = "the claim was allocated before such a device was reached; kube-scheduler would refuse it"
"""What a selector that fails on some devices comes to, of a claim that is allocated."""


def everywhere(allocation: AllocationResult) -> str:
    """Return the nodes on which pods can use an allocation without a node selector."""
    return "every node that can skip node operations" if allocation.skips_node_operations else "every node"


def too_much(case: Overcommitment, namespace: str = "") -> str:
    """Return of what more is allocated than there is, how much, and to whom; claims of other namespaces by number."""
    path = "/".join(case.pool)
    if case.resource is Resource.COUNTER:
        what = f"counter {case.owner}/{case.name} of pool {path}"
    else:
        what = f"capacity {case.name} of device {path}/{case.owner}"
    node = f" on node {case.node}" if case.node else ""
    total, used = format_beside(case.total, case.used)
    if not case.parts:
        # The API server admits amounts below zero.
        return f"{what}{node}: {total} published, nothing allocated"
    owners = listed(
        [
            f"{known_claims(part.claims, namespace)} ({format_beside(part.amount, case.total)[0]})"
            for part in case.parts
        ]
    )
    return f"{what}{node}: {total} published, {used} allocated, to {owners}"


def room_for(case: Overcommitment) -> str:
    """Return what to do about it."""
    return MAKE_ROOM if case.parts else "the driver must not publish less than nothing"


def join_claims(claims: Sequence[tuple[str, str]]) -> str:
    """Return the names of some claims, each with its namespace."""
    return " and ".join(f"{namespace}/{name}" for namespace, name in claims)


def known_claims(claims: Collection[tuple[str, str]], namespace: str) -> str:
    """Return some claims by name, but those of other namespaces than this one by number; empty: all by name."""
    known = sorted(claim for claim in claims if not namespace or claim[0] == namespace)
    texts = [join_claims([claim]) for claim in known]
    if foreign := len(claims) - len(known):
        texts.append(
            "a claim of another namespace" if foreign == 1 else f"{foreign} claims of other namespaces"
        )
    return " and ".join(texts)


def broken(breakages: Sequence[Breakage]) -> str:
    """Return the sentence about an allocation whose devices cannot be used any more."""
    return f"{describe_breakages(breakages)}; {DELETE_CLAIM}"


def describe_breakages(breakages: Sequence[Breakage]) -> str:
    """Return why the devices of an allocation cannot be used any more."""
    return listed([_breakage(item) for item in breakages])


def _breakage(item: Breakage) -> str:
    if item.device is None:
        return f"node {item.node} is gone"
    device = f"device {'/'.join(item.device)}"
    if item.taint is None:
        return f"{device} is not in generation {item.generation} of its pool, which is complete"
    rule = f" of DeviceTaintRule {item.rule}" if item.rule else ""
    return f"{device} has the taint {taint_text(item.taint)}{rule}, which is not tolerated"


def odd_label(labels: Mapping[str, str]) -> str | None:
    """Return what is wrong with the label that keeps the operator away from a claim; None if nothing is."""
    value = labels.get(OPT_OUT_LABEL)
    if value in (None, "true", "false"):
        return None
    return f'label {OPT_OUT_LABEL} is {shown(value)}, neither "false" nor "true": the claim is allocated as without it'


# --- of a whole state


def find_notes(objects: ObjectSet, inventory: Inventory, ledger: Ledger) -> Iterator[str]:
    """Yield a line for each thing that is wrong in a state, or that it hides."""
    if owners := find_owners(objects):
        yield (
            f"the operator allocates only the devices that it owns (by {listed(owners)}), to claims that no pod uses, "
            "and kube-scheduler only the others"
        )
    for found in inventory.problems():
        yield f'{found.kind} "{found.name}": {found.message}'
    yield from _idle_rules(inventory)
    yield from _odd_labels(objects)
    for item in ledger.collisions():
        yield f"device {'/'.join(item.device)} is allocated to {join_claims(item.claims)}; {END_BOTH}"
    for case in Overcommitments(inventory, ledger).find():
        yield (f'ResourceSlice "{case.slice_name}": {too_much(case)}; {room_for(case)}')


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
            if problem := odd_label(labels):
                yield f'{kind} "{metadata.namespace}/{metadata.name}": {problem}'
