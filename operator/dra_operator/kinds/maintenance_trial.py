"""What would fit if devices were in maintenance: their taint is tried on, and claims are decided by the allocator.

It runs in the thread of cycles, between two cycles, and leaves all as it was. A claim counts as fitting if
kube-scheduler or the operator would find devices for it, as either may decide it. Source: docs/kinds.md.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dra_operator.allocator.decision import Allocated, Decider, Failed, claim_key
from dra_operator.api.names import MAINTENANCE_KEY
from dra_operator.api.read import read_object
from dra_operator.api.types import DeviceTaintRule, ResourceClaim, ResourceClaimStatus
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.kinds.changes import first_lines, first_names, taint_rule
from dra_operator.kinds.device_reservation import Template
from dra_operator.kinds.maintenance_cards import Card
from dra_operator.kinds.maintenance_plan import name_rule
from dra_operator.kinds.selector import DeviceKey
from dra_operator.kinds.world import State
from dra_operator.ledger import Ledger

_SECONDS: Final = 5.0
"""So long a trial may hold up decisions in all."""
_NO_TIME: Final = "there was no time left for it"
_MOST_TRIED: Final = 500
"""So many devices are tried on at most: each taint is derived anew, which takes a while for thousands."""


def find_misfit(
    state: State, devices: Mapping[str, DeviceKey], demands: Mapping[str, Sequence[ResourceClaim]]
) -> str:
    """Return what would not fit beside all that is held, if devices were in maintenance, and why, or nothing.

    `devices` are by the names of their rules, `demands` are claims by the names of the templates that they are made of.
    """
    with _tainted(state.inventory, devices):
        trial = _Trial(state.explainer, state.ledger, _find_decider(state.inventory, devices.values()))
        try:
            for template, claims in demands.items():
                for number, claim in enumerate(claims):
                    if (why := trial.decide(claim)) is not None:
                        if trial.is_undecided:
                            return f"{template}: it was not decided if {len(claims)} copies would fit: {why}"
                        return f"{template}: {number} of {len(claims)} copies would fit: {why}"
        finally:
            trial.withdraw()
    return ""


def preview(state: State, cards: Sequence[Card], uid: str) -> str:
    """Return what a maintenance hits, and which of the claims would get other devices if they began anew.

    `cards` are those of the maintenance that has a uid; of very many the first are tried.
    """
    count = len({key for card in cards for key in card.devices})
    names = sorted({name for card in cards for name in card.claims})
    if not names:
        return f"{count} devices, which no claim holds"
    held = f"{count} devices, held by claims {first_names(['/'.join(each) for each in names])}"
    cards = _find_first([card for card in cards if card.claims]) if count > _MOST_TRIED else cards
    if not cards:
        return f"{held}; not tried, as a card of them has more than {_MOST_TRIED} devices"
    devices = {name_rule(uid, key): key for card in cards for key in card.devices}
    if len(devices) < count:
        held = f"{held}; tried with {len(devices)} of the {count} devices"
        names = sorted({name for card in cards for name in card.claims})
    claims = [claim for name in names if (claim := state.find_claim(name)) is not None]
    freed = {claim_key(claim) for claim in claims if claim.status.allocation is not None}
    ledger = Ledger(shares=state.ledger.shares, full_names=state.ledger.full_names)
    for claim in state.find_allocated():
        if claim_key(claim) not in freed:
            ledger.put(claim)
    allocator = state.explainer.allocator.for_copy(state.inventory, ledger)
    try:
        with _tainted(state.inventory, devices):
            trial = _Trial(Explainer(allocator), ledger, _find_decider(state.inventory, devices.values()))
            stuck, undecided = [], 0
            for claim in claims:
                why = trial.decide(replace(claim, status=ResourceClaimStatus()))
                if why is not None and trial.is_undecided:
                    undecided += 1
                elif why is not None:
                    stuck.append(f"{'/'.join(claim_key(claim))}: {why}")
    finally:
        allocator.release()
    if not stuck and not undecided:
        return f"{held}; all would get other devices"
    fitting = len(claims) - len(stuck) - undecided
    told = f"{held}; {fitting} of {len(claims)} would get other devices"
    told += f", of {undecided} it was not decided in the time that there is" if undecided else ""
    return told + (f", not {first_lines(stuck)}" if stuck else "")


def make_claim(template: Template, namespace: str, name: str, number: int) -> ResourceClaim:
    """Return a claim as made of a template of a name; `number` tells it from the others of that template."""
    # No object has such a name, and whoever reads it knows what is meant.
    metadata = {**template.metadata, "namespace": namespace, "name": f"copy {number} of {name}"}
    body = {
        "apiVersion": template.api_version,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template.spec,
    }
    made: ResourceClaim = read_object(body)
    return made


@contextlib.contextmanager
def _tainted(inventory: Inventory, devices: Mapping[str, DeviceKey]) -> Iterator[None]:
    """Have devices tainted for a while, by rules of the names that theirs have or will have."""
    before: dict[str, DeviceTaintRule | None] = {}
    try:
        for name, key in devices.items():
            before[name] = inventory.rules.get(name)
            inventory.put(read_object(taint_rule(name, key.selector, MAINTENANCE_KEY, "resource.k8s.io/v1")))
        yield
    finally:
        for name, rule in before.items():
            if rule is None:
                inventory.remove("DeviceTaintRule", name)
            else:
                inventory.put(rule)


def _find_first(cards: Iterable[Card]) -> list[Card]:
    """Return the first cards, of which the devices are few enough to be tried."""
    found: list[Card] = []
    count = 0
    for card in cards:
        count += len(card.devices)
        if count > _MOST_TRIED:
            break
        found.append(card)
    return found


def _find_decider(inventory: Inventory, devices: Iterable[DeviceKey]) -> Decider:
    """Return who decides about such devices, and so says why a claim does not fit."""
    for key in devices:
        if any(slice_.ours >> index & 1 for slice_, index in inventory.find_device(*key)):
            return Decider.OPERATOR
    return Decider.KUBE_SCHEDULER


class _Trial:
    """Decides claims one after the other, each beside those before it, until its time is over.

    `decider` is who says why one does not fit; `is_undecided` says of the last one that its time, or the budget of the
    search, was used up.
    """

    def __init__(self, explainer: Explainer, ledger: Ledger, decider: Decider) -> None:
        self._explainer, self._ledger = explainer, ledger
        self._deciders = sorted(Decider, key=lambda each: each is decider)
        self._ends_at = explainer.allocator.clock() + _SECONDS
        self._assumed: list[ResourceClaim] = []
        self.is_undecided = False

    def decide(self, claim: ResourceClaim) -> str | None:
        """Let a claim count if it gets devices; else return why not."""
        allocator = self._explainer.allocator
        self.is_undecided = False
        for decider in self._deciders:
            left = self._ends_at - allocator.clock()
            if left <= 0:
                self.is_undecided = True
                return _NO_TIME
            limits = replace(allocator.limits, seconds=left)
            decision = allocator.allocate([claim], decider=decider, limits=limits)
            if isinstance(decision, Allocated):
                self._ledger.assume(*claim_key(claim), decision.results[0])
                self._assumed.append(claim)
                return None
            self.is_undecided |= isinstance(decision, Failed) and decision.kind == "aborted"
        (found,) = self._explainer.explain([claim], decision, decider=decider, limits=limits)
        return f"{found.reason}: {found.message}"

    def withdraw(self) -> None:
        """Take all back."""
        for claim in self._assumed:
            self._ledger.withdraw(*claim_key(claim))
