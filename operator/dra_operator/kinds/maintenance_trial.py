"""What would fit if devices were in maintenance: their taint is tried on, and claims are decided by the allocator.

It runs in the thread of cycles, between two cycles, and leaves all as it was. A claim counts as fitting if
kube-scheduler or the operator would find devices for it, as either may decide it. Source: docs/kinds.md.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_operator.allocator.decision import Allocated, Decider, claim_key
from dra_operator.api.names import MAINTENANCE_KEY
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaim, ResourceClaimStatus
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.kinds.changes import first_lines, first_names
from dra_operator.kinds.device_reservation import Template
from dra_operator.kinds.maintenance_cards import Card
from dra_operator.kinds.selector import DeviceKey
from dra_operator.kinds.world import State
from dra_operator.ledger import Ledger

_SECONDS: Final = 5.0
"""So long a trial may hold up decisions in all."""
_NO_TIME: Final = "it could not be decided in the time that there is"


@dataclass(frozen=True, slots=True)
class Demand:
    """Claims, as made of a template, that must still fit together."""

    template: str
    claims: tuple[ResourceClaim, ...]


def find_misfit(state: State, devices: Iterable[DeviceKey], demands: Iterable[Demand]) -> str:
    """Return what would not fit beside all that is held, if devices were in maintenance, and why, or nothing."""
    hit = set(devices)
    with _tainted(state.inventory, hit):
        trial = _Trial(state.explainer, state.ledger, _find_decider(state.inventory, hit))
        try:
            for demand in demands:
                for number, claim in enumerate(demand.claims):
                    if (why := trial.decide(claim)) is not None:
                        return f"{demand.template}: {number} of {len(demand.claims)} copies would fit: {why}"
        finally:
            trial.withdraw()
    return ""


def preview(state: State, cards: Sequence[Card]) -> str:
    """Return what a maintenance of cards hits, and which of the claims would get other devices if they began anew."""
    devices = {key for card in cards for key in card.devices}
    names = sorted({name for card in cards for name in card.claims})
    if not names:
        return f"{len(devices)} devices, which no claim holds"
    held = f"{len(devices)} devices, held by claims {first_names(['/'.join(each) for each in names])}"
    claims = [claim for name in names if (claim := state.find_claim(name)) is not None]
    freed = {claim_key(claim) for claim in claims if claim.status.allocation is not None}
    ledger = Ledger(shares=state.ledger.shares, full_names=state.ledger.full_names)
    for claim in state.find_allocated():
        if claim_key(claim) not in freed:
            ledger.put(claim)
    allocator = state.explainer.allocator.for_copy(state.inventory, ledger)
    try:
        with _tainted(state.inventory, devices):
            trial = _Trial(Explainer(allocator), ledger, _find_decider(state.inventory, devices))
            stuck = [
                f"{'/'.join(claim_key(claim))}: {why}"
                for claim in claims
                if (why := trial.decide(replace(claim, status=ResourceClaimStatus()))) is not None
            ]
    finally:
        allocator.release()
    if not stuck:
        return f"{held}; all would get other devices"
    return f"{held}; {len(claims) - len(stuck)} of {len(claims)} would get other devices, not {first_lines(stuck)}"


def make_claim(template: Template, namespace: str, index: int) -> ResourceClaim:
    """Return a claim as made of a template; no object has its name."""
    metadata = {**template.metadata, "namespace": namespace, "name": f"~{template.uid}-{index}"}
    body = {
        "apiVersion": template.api_version,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template.spec,
    }
    made: ResourceClaim = read_object(body)
    return made


@contextlib.contextmanager
def _tainted(inventory: Inventory, devices: Iterable[DeviceKey]) -> Iterator[None]:
    """Have devices tainted for a while."""
    made = []
    try:
        for number, key in enumerate(devices):
            # No object has such a name.
            name = f"~trial-{number}"
            chosen = {"driver": key.driver, "pool": key.pool, "device": key.name}
            spec = {"deviceSelector": chosen, "taint": {"key": MAINTENANCE_KEY, "effect": "NoSchedule"}}
            body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}}
            inventory.put(read_object({**body, "spec": spec}))
            made.append(name)
        yield
    finally:
        for name in made:
            inventory.remove("DeviceTaintRule", name)


def _find_decider(inventory: Inventory, devices: Iterable[DeviceKey]) -> Decider:
    """Return who decides about such devices, and so says why a claim does not fit."""
    for key in devices:
        pool = inventory.pools.get((key.driver, key.pool))
        for slice_ in pool.slices.values() if pool is not None else ():
            index = slice_.indexes.get(key.name)
            if index is not None and slice_.ours >> index & 1:
                return Decider.OPERATOR
    return Decider.KUBE_SCHEDULER


class _Trial:
    """Decides claims one after the other, each beside those before it, until its time is over.

    `decider` is who says why one does not fit.
    """

    def __init__(self, explainer: Explainer, ledger: Ledger, decider: Decider) -> None:
        self._explainer, self._ledger = explainer, ledger
        self._deciders = sorted(Decider, key=lambda each: each is decider)
        self._ends_at = explainer.allocator.clock() + _SECONDS
        self._assumed: list[ResourceClaim] = []

    def decide(self, claim: ResourceClaim) -> str | None:
        """Let a claim count if it gets devices; else return why not."""
        allocator = self._explainer.allocator
        for decider in self._deciders:
            left = self._ends_at - allocator.clock()
            if left <= 0:
                return _NO_TIME
            limits = replace(allocator.limits, seconds=left)
            decision = allocator.allocate([claim], decider=decider, limits=limits)
            if isinstance(decision, Allocated):
                self._ledger.assume(*claim_key(claim), decision.results[0])
                self._assumed.append(claim)
                return None
        (found,) = self._explainer.explain([claim], decision, decider=decider, limits=limits)
        return f"{found.reason}: {found.message}"

    def withdraw(self) -> None:
        """Take all back."""
        for claim in self._assumed:
            self._ledger.withdraw(*claim_key(claim))
