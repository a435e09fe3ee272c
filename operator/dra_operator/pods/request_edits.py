"""Edits of what requests tolerate, how much and how many they ask for, and of constraints: the smallest that helps.

Each is tried by deciding again. Where asking for less cannot make claims unfit, the least that an edit could leave is
tried first, and amounts are found by bisection.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from dra_operator.allocator import Allocated, Failed
from dra_operator.api.names import OWNED_KEY
from dra_operator.api.quantity import NANO, Quantity, family, format_amount
from dra_operator.api.text import listed
from dra_operator.api.types import CapacityRequirements, DeviceCapacity, DeviceConstraint, DeviceToleration
from dra_operator.explain.stages import taint_text
from dra_operator.inventory import Inventory
from dra_operator.inventory.taints import UNOWNED, EffectiveTaint
from dra_operator.ledger import Ledger
from dra_operator.pods.change import Change, Kind, name_request
from dra_operator.pods.request_parts import Part, find_parts, is_monotone, with_item, with_part
from dra_operator.pods.situation import Claims
from dra_operator.pods.trials import Trials

_MILLI: Final = NANO // 1000
_MOST_TOLERATIONS: Final = 16
"""Source: k8s.io/api/resource/v1, `DeviceTolerationsMaxLength`."""


# --- tolerations


def find_toleration(trials: Trials) -> Change | None:
    """Return the toleration of one taint that helps, if all requests have it."""
    claims = trials.situation.claims
    parts = find_parts(claims)
    if any(len(part.asked.tolerations) >= _MOST_TOLERATIONS for part in parts):
        return None
    taints = _taints_in_force(trials.situation.allocator.inventory)
    if not taints or (
        len(taints) > 1 and trials.cannot_help(_tolerating(claims, DeviceToleration(operator="Exists")))
    ):
        return None
    for taint in taints:
        edited = _tolerating(claims, DeviceToleration(taint.key, "Equal", taint.value, taint.effect))
        if trials.fit(edited):
            subject = name_request(parts[0], parts) if len(parts) == 1 else "all requests"
            source = _source(trials.situation.allocator.inventory, taint)
            return Change(Kind.TOLERATION, f"{subject} tolerated {taint_text(taint)}{source}", (1,), edited)
    return None


def _tolerating(claims: Claims, toleration: DeviceToleration) -> Claims:
    for part in find_parts(claims):
        tolerations = (*part.asked.tolerations, toleration)
        claims = with_part(claims, part, replace(part.asked, tolerations=tolerations))
    return claims


def _taints_in_force(inventory: Inventory) -> list[EffectiveTaint]:
    """Return the taints of devices, those that let pods stay first; those of ownership are not for users."""
    found = {
        taint
        for pool in inventory.pools.values()
        for slice_ in pool.slices.values()
        for taints, _ in slice_.tainted_groups
        for taint in taints
        if taint.effect != UNOWNED and taint.key != OWNED_KEY
    }
    return sorted(found, key=lambda taint: (taint.effect != "NoSchedule", taint))


def _source(inventory: Inventory, taint: EffectiveTaint) -> str:
    """Return a clause with the rules by which devices have a taint; nothing if drivers publish it."""
    slices = [slice_ for pool in inventory.pools.values() for slice_ in pool.slices.values()]
    rules = [
        name
        for name, rule in sorted(inventory.rules.items())
        if (rule.spec.taint.key, rule.spec.taint.value, rule.spec.taint.effect) == taint
        and any(inventory.tainted_by(rule, slice_) for slice_ in slices)
    ]
    return f" (set by DeviceTaintRule {listed(rules)})" if rules else ""


# --- amounts


def find_amount(trials: Trials) -> Change | None:
    """Return the largest amount of one request that helps; of several the one that is lowered by the least part."""
    claims = trials.situation.claims
    parts = find_parts(claims)
    found: list[Change] = []
    for part in parts:
        asked = part.asked.capacity.requests if part.asked.capacity is not None else {}
        for name, quantity in asked.items():
            if quantity.nano <= 0:
                continue
            amount = _find_largest(trials, part, name, quantity)
            if amount is not None:
                text = f"{name_request(part, parts)} asked for {name} {amount}"
                size = Fraction(quantity.nano - amount.nano, quantity.nano)
                found.append(Change(Kind.AMOUNT, text, (size,), _with_amount(claims, part, name, amount)))
    return min(found, key=lambda change: change.size, default=None)


def _find_largest(trials: Trials, part: Part, name: str, requested: Quantity) -> Quantity | None:
    claims = trials.situation.claims
    written = family(requested)

    def amount(nano: int) -> Quantity:
        return Quantity(nano, format_amount(nano, written))

    def fits(nano: int) -> bool:
        return trials.fit(_with_amount(claims, part, name, amount(nano)))

    if trials.cannot_help(_with_amount(claims, part, name, amount(0))):
        return None
    known = {nano for nano in _amounts_to_give(trials, name) if 0 < nano < requested.nano}
    points = [0, *sorted(known), requested.nano]
    places = range(len(points) - 1)
    if is_monotone(find_parts(claims)):
        low = _last(len(places), lambda place: fits(points[place]))
    else:
        # Who asks for all devices may get them with more, as fewer of them have that much.
        low = next((place for place in reversed(places) if fits(points[place])), None)
    if low is None:
        return None
    unit = _MILLI if all(point % _MILLI == 0 for point in points) else 1
    start, steps = points[low], (points[low + 1] - points[low]) // unit
    if steps > 1 and fits(start + unit):
        more = _last(steps, lambda step: step <= 1 or fits(start + step * unit))
        assert more is not None
        start += more * unit
    return amount(start)


def _last(count: int, fits: Callable[[int], bool]) -> int | None:
    """Return the last of the numbers below `count` that fits, of those that fit from 0 on; None if 0 does not."""
    low, high = -1, count
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low if low >= 0 else None


def _with_amount(claims: Claims, part: Part, name: str, amount: Quantity) -> Claims:
    assert part.asked.capacity is not None
    capacity = CapacityRequirements({**part.asked.capacity.requests, name: amount})
    return with_part(claims, part, replace(part.asked, capacity=capacity))


def _amounts_to_give(trials: Trials, name: str) -> Iterator[int]:
    """Yield amounts of a capacity up to which devices can give it: all that there is, or that is left, by policy."""
    allocator = trials.situation.allocator
    seen: set[int] = set()
    for pool in allocator.inventory.pools.values():
        for slice_ in pool.slices.values():
            column = slice_.capacity.get(name)
            if column is None:
                continue
            shared = allocator.ledger.shared(slice_.key)
            if column.serial in seen and not shared:
                continue
            seen.add(column.serial)
            for device, capacity in zip(slice_.names, column.values, strict=True):
                if capacity is not None:
                    left = capacity.value.nano - _consumed(allocator.ledger, slice_.key, device, name)
                    yield from _amounts_by_policy(capacity, left)


def _consumed(ledger: Ledger, pool: tuple[str, str], device: str, name: str) -> int:
    return ledger.consumed(pool, device).get(name, 0)


def _amounts_by_policy(capacity: DeviceCapacity, left: int) -> Iterator[int]:
    yield capacity.value.nano
    yield left
    policy = capacity.request_policy
    if policy is None:
        return
    yield from [value.nano for value in policy.valid_values]
    span = policy.valid_range
    if span is None or span.min is None:
        return
    yield span.min.nano
    if span.max is not None:
        yield span.max.nano
    if span.step is not None and span.step.nano > 0:
        for amount in (capacity.value.nano, left):
            most = min(amount, span.max.nano) if span.max is not None else amount
            yield span.min.nano + (most - span.min.nano) // span.step.nano * span.step.nano


# --- counts


def find_count(trials: Trials) -> Change | None:
    """Return the largest count of one request that helps; of several requests, the one that loses the fewest."""
    claims = trials.situation.claims
    parts = find_parts(claims)
    found: list[Change] = []
    for part in parts:
        count = part.asked.count
        if part.asked.allocation_mode != "ExactCount" or count < 2:
            continue
        if trials.cannot_help(with_part(claims, part, replace(part.asked, count=1))):
            continue
        for fewer in range(1, count):
            edited = with_part(claims, part, replace(part.asked, count=count - fewer))
            if trials.fit(edited):
                devices = f"{count - fewer} device{'s' if count - fewer > 1 else ''}"
                text = f"{name_request(part, parts)} asked for {devices}"
                found.append(Change(Kind.COUNT, text, (fewer,), edited))
                break
    return min(found, key=lambda change: change.size, default=None)


# --- constraints


def find_constraint(trials: Trials) -> Change | None:
    """Return a constraint that must not bind one of its requests, or be dropped where that does not help."""
    claims = trials.situation.claims
    dropped: Change | None = None
    for entry, claim in claims.items():
        devices = claim.spec.devices
        for number, constraint in enumerate(devices.constraints):
            name = f"constraint #{number}" + (f' of claim "{entry}"' if len(claims) > 1 else "")
            rest = (*devices.constraints[:number], *devices.constraints[number + 1 :])
            edited = _with_constraints(claims, entry, rest)
            decision = trials.decide_claims(edited)
            if isinstance(decision, Allocated):
                dropped = dropped or Change(Kind.CONSTRAINT, f"{name} were dropped", (1,), edited)
            elif not isinstance(decision, Failed) and is_monotone(find_parts(claims)):
                continue
            bound = constraint.requests or tuple(request.name for request in devices.requests)
            for path in bound if len(bound) > 1 else ():
                kept = replace(constraint, requests=tuple(each for each in bound if each != path))
                edited = _with_constraints(claims, entry, with_item(devices.constraints, number, kept))
                if trials.fit(edited):
                    return Change(Kind.CONSTRAINT, f"{name} did not bind request {path}", (0,), edited)
    return dropped


def _with_constraints(claims: Claims, entry: str, constraints: tuple[DeviceConstraint, ...]) -> Claims:
    claim = claims[entry]
    devices = replace(claim.spec.devices, constraints=constraints)
    return {**claims, entry: replace(claim, spec=replace(claim.spec, devices=devices))}
