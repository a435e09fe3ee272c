"""Planning: from what a claim asks for to its plan.

Everything that is wrong with a claim on every node alike is found here, before a device is looked at. What is right is
remembered by what was asked: claims that ask for the same get the same plan.
Source: docs/dra-semantics 3.1 and 3.7.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from dra_operator.allocator.asked import Part, Wanted, asked_by
from dra_operator.allocator.candidates import CandidateKey, Candidates, KeyContent
from dra_operator.allocator.decision import FatalError, claim_key
from dra_operator.allocator.plan import (
    MAX_DEVICES,
    Alternative,
    ClaimPlan,
    ConstraintPlan,
    RequestPlan,
    plan_for,
    plan_of,
    too_many,
)
from dra_operator.allocator.reasons import Reason
from dra_operator.api.quantity import Quantity
from dra_operator.api.types import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)

_MAX_ASKED = 2048
"""As many as there are selectors: what claims ask for that nobody else asked for is kept no longer than those."""
_NO_AMOUNTS: Final[Mapping[str, Quantity]] = MappingProxyType({})
_NOTHING_DERIVED: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class Planner:
    """Plans claims, by classes as they were when a class changed last (`forget`)."""

    classes: Mapping[str, DeviceClass]
    candidates: Candidates
    _known: dict[object, ClaimPlan] = field(default_factory=dict)
    _keys: dict[Wanted, tuple[DeviceClass, CandidateKey]] = field(default_factory=dict)
    _classes: dict[str, tuple[DeviceClass, tuple[str, ...]]] = field(default_factory=dict)

    def plan(self, claim: ResourceClaim) -> ClaimPlan:
        """Return the plan of a claim. Raises FatalError for what is wrong with it on every node."""
        asked, wanted = asked_by(claim.spec.devices)
        alike = self._known.get(asked)
        if alike is not None:
            return plan_for(claim, alike)
        if len(self._known) >= _MAX_ASKED:
            for old in list(self._known)[: _MAX_ASKED // 2]:
                del self._known[old]
        try:
            plan = self._known[asked] = self._plan(claim, iter(wanted))
        except FatalError as error:
            error.claim = claim_key(claim)
            raise
        return plan

    def forget(self) -> None:
        """Forget all plans: a class has changed."""
        self._known.clear()
        self._keys.clear()
        self._classes.clear()

    def _plan(self, claim: ResourceClaim, wanted: Iterator[Wanted]) -> ClaimPlan:
        devices = claim.spec.devices
        requests: list[RequestPlan] = []
        left = MAX_DEVICES
        for request in devices.requests:
            name = request.name
            applicable = _applicable(devices.constraints, name) if devices.constraints else ()
            # A request for all devices counts at least none; the search on a node knows its number.
            if request.exactly is not None:
                only = self._alternative(name, request.exactly, next(wanted), devices.constraints, applicable)
                requests.append(RequestPlan(name, prioritized=False, alternatives=(only,)))
                least = only.count or 0
            else:
                several = self._subrequests(request, wanted, devices.constraints, applicable)
                requests.append(RequestPlan(name, prioritized=True, alternatives=several))
                least = min([item.count or 0 for item in several])
            if least > left:
                raise too_many(name, least, MAX_DEVICES - left)
            left -= least
        return plan_of(claim, tuple(requests), _constraints(devices.constraints))

    def _subrequests(
        self,
        request: DeviceRequest,
        wanted: Iterator[Wanted],
        constraints: Sequence[DeviceConstraint],
        applicable: tuple[int, ...],
    ) -> tuple[Alternative, ...]:
        if not request.first_available:
            raise _unsupported(request.name, "neither exactly nor firstAvailable is set")
        if not self.candidates.features.prioritized_list:
            raise _switched_off(request.name, "has subrequests", "DRAPrioritizedList")
        found: list[Alternative] = []
        all_apply = len(applicable) == len(constraints)
        for item, after in zip(request.first_available, wanted, strict=False):
            name = f"{request.name}/{item.name}"
            numbers = applicable if all_apply else _applicable(constraints, request.name, name)
            found.append(self._alternative(name, item, after, constraints, numbers))
        return tuple(found)

    def _alternative(
        self,
        name: str,
        part: Part,
        wanted: Wanted,
        constraints: Sequence[DeviceConstraint],
        applicable: tuple[int, ...],
    ) -> Alternative:
        found = self._keys.get(wanted)
        admin_access = part.admin_access if isinstance(part, ExactDeviceRequest) else None
        if found is None or part.derived_attributes or admin_access is not None:
            self._check(name, part, wanted)
        if found is None:
            if len(self._keys) >= _MAX_ASKED:
                self._keys.clear()
            found = self._keys[wanted] = self._key(name, part, wanted)
        device_class, key = found
        match part.allocation_mode:
            case "ExactCount":
                count: int | None = part.count
            case "All":
                count = None
            case mode:
                raise _unsupported(name, f"allocation mode {mode!r} is not known; ExactCount and All are")
        derived = _NOTHING_DERIVED
        if part.derived_attributes:
            asked = {_attribute(constraints[number]) for number in applicable}
            # Of two entries with the same name the last one holds.
            derived = {item.name: item.expression for item in part.derived_attributes if item.name in asked}
        # By position, in the order of the fields: where each claim asks for something new, one is made for each.
        return Alternative(
            name, device_class, key, count, bool(admin_access), part.tolerations, derived, applicable
        )

    def _check(self, name: str, part: Part, wanted: Wanted) -> None:
        """Refuse what is switched off, and selectors of an unknown kind."""
        features = self.candidates.features
        if part.capacity is not None and not features.consumable_capacity:
            raise _switched_off(name, "has capacity requests", "DRAConsumableCapacity")
        if part.derived_attributes and not features.derived_attributes:
            raise _switched_off(name, "has derived attributes", "DRADerivedAttributes")
        if None in wanted[1]:
            raise _unknown_selector(name, wanted[1].index(None))
        if (
            isinstance(part, ExactDeviceRequest)
            and part.admin_access is not None
            and not features.admin_access
        ):
            raise _unsupported(name, "admin access is requested, but the feature is switched off")

    def _key(self, name: str, part: Part, wanted: Wanted) -> tuple[DeviceClass, CandidateKey]:
        class_name, selectors, tolerations, amounts = wanted
        known = self._classes.get(class_name) or self._class(name, class_name)
        # None is left of those selectors that are of an unknown kind.
        asked: tuple[str, ...] = selectors  # type: ignore[assignment]
        content = KeyContent(known[1], asked, tolerations, tuple(sorted(amounts)) if amounts else ())
        requests = _NO_AMOUNTS if part.capacity is None else part.capacity.requests
        return known[0], self.candidates.key(content, requests)

    def _class(self, request: str, name: str) -> tuple[DeviceClass, tuple[str, ...]]:
        if not name:
            raise _unsupported(request, "names no device class")
        if (found := self.classes.get(name)) is None:
            raise FatalError(
                f"request {request}: device class {name} does not exist",
                Reason.CLASS_NOT_FOUND,
                request=request,
                subject=("DeviceClass", name),
            )
        expressions: list[str] = []
        for number, selector in enumerate(found.spec.selectors):
            if selector.cel is None:
                raise _unknown_selector(request, number)
            expressions.append(selector.cel.expression)
        known = self._classes[name] = (found, tuple(expressions))
        return known


def _constraints(constraints: Sequence[DeviceConstraint]) -> tuple[ConstraintPlan, ...]:
    found: list[ConstraintPlan] = []
    for number, constraint in enumerate(constraints):
        attribute = _attribute(constraint)
        if attribute is None:
            raise FatalError(
                f"constraint #{number} names no attribute of a known kind; matchAttribute and distinctAttribute are",
                Reason.REQUEST_UNSUPPORTED,
            )
        found.append(ConstraintPlan(attribute, constraint.match_attribute is not None))
    return tuple(found)


def _applicable(constraints: Sequence[DeviceConstraint], parent: str, name: str = "") -> tuple[int, ...]:
    """Return the positions of the constraints that apply to a request, or to a subrequest of it."""
    return tuple(
        [
            number
            for number, item in enumerate(constraints)
            if not item.requests or parent in item.requests or name in item.requests
        ]
    )


def _attribute(constraint: DeviceConstraint) -> str | None:
    return constraint.distinct_attribute if constraint.match_attribute is None else constraint.match_attribute


def _unknown_selector(request: str, number: int) -> FatalError:
    return _unsupported(request, f"selector #{number} is not of a known kind; only cel is")


def _switched_off(request: str, has: str, feature: str) -> FatalError:
    return _unsupported(request, f"{has}, but the feature {feature} is switched off")


def _unsupported(request: str, text: str) -> FatalError:
    return FatalError(f"request {request}: {text}", Reason.REQUEST_UNSUPPORTED, request=request)
