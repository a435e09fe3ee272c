"""Cards of a maintenance: devices that draw on one counter set, or one device, and who holds them.

A device that draws on several counter sets belongs to the card of each. Whether a claim goes with its pod is decided as
the claim controller does it: it made the claim for that pod, or kube-scheduler for its extended resources.
Source: KEP-4815; docs/dra-semantics 4.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dra_operator.api.names import ENDED_PHASES, GROUP, MAINTENANCE_KEY
from dra_operator.api.types import ResourceClaim, ResourceClaimConsumerReference
from dra_operator.inventory import Inventory
from dra_operator.inventory.pool import Pool
from dra_operator.inventory.slices import Slice
from dra_operator.inventory.taints import EffectiveTaint, is_effective, tolerates
from dra_operator.kinds.device_maintenance import CardStatus, Maintenance
from dra_operator.kinds.selector import DeviceKey

if TYPE_CHECKING:
    # `kubectl dra` uses this module, without what a client needs.
    from dra_operator.kinds.world import State

ClaimName: TypeAlias = tuple[str, str]
_TAINT = EffectiveTaint(MAINTENANCE_KEY, "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Card:
    """A card: `node` publishes it alone, empty if none does; `taints` are those of others that keep claims away."""

    name: str
    devices: tuple[DeviceKey, ...]
    node: str = ""
    is_published: bool = True
    taints: tuple[str, ...] = ()
    claims: tuple[ClaimName, ...] = ()

    @property
    def all_names(self) -> frozenset[str]:
        """By what `spec.finished` may name it: its name, and those of its devices."""
        return frozenset((self.name, *("/".join(key) for key in self.devices)))


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; `owner` is the uid of its controller, or its own."""

    namespace: str
    name: str
    uid: str
    owner: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds devices. `users` says who uses it, `pod` is its pod, `obstacle` why that stays."""

    users: str
    devices: tuple[DeviceKey, ...]
    pod: Pod | None = None
    obstacle: str = ""


def find_cards(own: Maintenance, state: "State") -> tuple[list[Card], dict[ClaimName, ResourceClaim]]:
    """Return the cards that a maintenance names, published now or begun before, and the claims that hold the latter."""
    begun = {each.name: each for each in own.begun}
    cards = [_with_known(card, begun.get(card.name)) for card in find_named_cards(own, state.inventory)]
    published = {card.name for card in cards}
    cards += [
        Card(each.name, each.keys, each.node, is_published=False)
        for each in begun.values()
        if each.name not in published and own.names(each.keys, each.node)
    ]
    cards = [replace(card, claims=_find_claims(card, state)) for card in cards]
    names = {name for card in cards if card.name in begun for name in card.claims}
    return cards, {name: claim for name in names if (claim := state.find_claim(name)) is not None}


def find_named_cards(own: Maintenance, inventory: Inventory) -> Iterator[Card]:
    """Yield the cards that a maintenance names and that are published now, without their claims."""
    for (driver, name), pool in inventory.pools.items():
        nodes = pool.newest_nodes()
        if any(each.may_be_in(driver, name, nodes) for each in own.spec.devices):
            yield from _find_named(own, pool)


def _with_known(card: Card, entry: CardStatus | None) -> Card:
    """Return a card with what was tainted of it before: a claim may still hold a partition that is gone."""
    known = () if entry is None else entry.keys
    return replace(card, devices=tuple(sorted({*card.devices, *known})))


def _find_claims(card: Card, state: "State") -> tuple[ClaimName, ...]:
    claims: set[ClaimName] = set()
    for key in card.devices:
        claims |= state.ledger.holders((key.driver, key.pool), [key.name])
    return tuple(sorted(claims))


def _find_named(own: Maintenance, pool: Pool) -> Iterator[Card]:
    driver, name = pool.key
    slices = pool.newest()
    nodes = {slice_.nodes.node_name for slice_ in slices}
    node = next(iter(nodes)) or "" if len(nodes) == 1 else ""
    sets: dict[str, list[tuple[Slice, int]]] = {}
    named: dict[str, None] = {}
    for slice_ in slices:
        for index, device in enumerate(slice_.names):
            here = [use.counter_set for use in slice_.device_fields[index].consumes] or [device]
            for each in here:
                sets.setdefault(each, []).append((slice_, index))
            if own.names([DeviceKey(driver, name, device)], node):
                named |= dict.fromkeys(here)
    for each in named:
        devices = sorted({DeviceKey(driver, name, slice_.names[index]) for slice_, index in sets[each]})
        foreign = dict.fromkeys(
            text for slice_, index in sets[each] for text in _foreign_taints(slice_, index)
        )
        yield Card(f"{driver}/{name}/{each}", tuple(devices), node, taints=tuple(foreign))


def _foreign_taints(slice_: Slice, index: int) -> list[str]:
    return [
        f"{taint.key}:{taint.effect}"
        for taint in (slice_.taints[index] if slice_.taints else ())
        if is_effective(taint) and not taint.key.startswith(f"{GROUP}/")
    ]


def read_holder(claim: ResourceClaim, pod: Mapping[str, Any] | None) -> Holder:
    """Return what is to be known of a claim that holds devices; `pod` is that of `find_pod`, as on the wire."""
    allocation, users = claim.status.allocation, claim.status.reserved_for
    results = () if allocation is None else allocation.devices.results
    held = [each for each in results if not each.admin_access]
    devices = tuple([DeviceKey(each.driver, each.pool, each.device) for each in held])
    named = _name_users(users)
    if find_pod(claim) is None:
        return Holder(named, devices, obstacle="which does not go with one pod, and is left to people")
    if pod is None or pod["metadata"]["uid"] != users[0].uid:
        return Holder(named, devices, obstacle="which is gone, so the claim goes as well")
    metadata = pod["metadata"]
    owners: Sequence[Mapping[str, Any]] = metadata.get("ownerReferences") or ()
    owner: Mapping[str, Any] = next((each for each in owners if each.get("controller")), {})
    found = Pod(metadata["namespace"], metadata["name"], metadata["uid"], owner.get("uid") or metadata["uid"])
    is_tolerating = any(tolerates(one, _TAINT) for each in held for one in each.tolerations)
    return Holder(named, devices, found, _find_obstacle(pod, owner, is_tolerating=is_tolerating))


def _find_obstacle(pod: Mapping[str, Any], owner: Mapping[str, Any], *, is_tolerating: bool) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "which is ending"
    if (pod.get("status") or {}).get("phase") in ENDED_PHASES:
        return "which has ended, so the claim goes as well"
    if owner.get("kind") == "DaemonSet":
        return "which is of a DaemonSet, and is left to people"
    return f"not evicted, as the claim tolerates {MAINTENANCE_KEY}" if is_tolerating else ""


def find_pod(claim: ResourceClaim) -> str | None:
    """Return the name of the pod that a claim goes with: it was made for it, and is reserved for it alone."""
    users = claim.status.reserved_for
    if len(users) != 1 or users[0].resource != "pods" or users[0].api_group:
        return None
    owners = claim.metadata.owner_references
    is_made_for = any(each.controller and each.kind == "Pod" and each.uid == users[0].uid for each in owners)
    return users[0].name if is_made_for else None


def _name_users(users: Sequence[ResourceClaimConsumerReference]) -> str:
    if not users:
        return "that nobody uses"
    kind = "pod" if users[0].resource == "pods" else users[0].resource
    more = f" and {len(users) - 1} others" if len(users) > 1 else ""
    return f"of {kind} {users[0].name}{more}"
