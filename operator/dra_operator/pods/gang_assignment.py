"""Assignment: a node for each member of a gang and a result for each of its claims, all at once, or that there is none.

Bin packing by backtracking: nodes in order, on each a largest number of members of each kind; equal members are one
kind, and states that failed are not tried again. What fits on one node together the allocator decides, for the claims
of all members there as one attempt: so a choice for one is revisited for the others.
Source: docs/gangs.md.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, TypeVar

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.constraints import elements
from dra_operator.allocator.decision import Allocated, Decider, Explanation, Failed, FatalError, claim_key
from dra_operator.api.attributes import SCALARS, AttributeValue
from dra_operator.api.types import (
    AllocationResult,
    CELSelector,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dra_operator.api.versions import Rules
from dra_operator.inventory import Inventory, Slice, bits
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.claims import can_use
from dra_operator.pods.edits import find_parts
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.objects import ObjectRecord
from dra_operator.pods.pod_decision import PodDecider

# --- One value for all of a gang: `matchAttribute` over the results of all members, not of one claim.
# For a value, each request that it concerns gets one more selector, so the allocator itself decides by it. Values of
# which too few devices are free are told by counting. Source: docs/gangs.md.


_PLENTY: Final = 1 << 30
"""So many copies have room on a device that can be shared, as far as counting tells."""
_NOTHING: Final = "false"
_Asked = TypeVar("_Asked", ExactDeviceRequest, DeviceSubRequest)


@dataclass(frozen=True, slots=True)
class GangMatch:
    """An attribute of which all results of some classes have one value; no classes: those whose driver publishes it."""

    attribute: str
    classes: tuple[str, ...] = ()

    def concerns(self, device_class: str, driver: str, publishers: Iterable[str]) -> bool:
        """Return whether a result for a class by a driver has to have the value."""
        return device_class in self.classes if self.classes else driver in publishers


@dataclass(slots=True)
class MatchValues:
    """The values that devices publish of the attribute of a match, and how many devices with each are free at most.

    `others` are free devices of drivers that do not publish it.
    """

    match: GangMatch
    inventory: Inventory
    ledger: Ledger
    rules: Rules
    free: dict[AttributeValue, int] = field(default_factory=dict)
    others: int = 0
    publishers: tuple[str, ...] = ()
    _has_lists: bool = False
    _narrowed: dict[tuple[int, AttributeValue | None], tuple[object, ResourceClaim]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        by_driver: dict[str, int] = {}
        publishers = set()
        for slice_ in self.inventory.slices():
            used, _ = self.ledger.in_use(slice_.key, slice_.names)
            is_published = False
            for index in bits.each(slice_.every):
                room = 0 if used >> index & 1 else _PLENTY if slice_.shareable >> index & 1 else 1
                by_driver[slice_.driver] = by_driver.get(slice_.driver, 0) + room
                value = _value_of(slice_, index, self.match.attribute)
                if value is None:
                    continue
                is_published = True
                self._has_lists |= value.type not in SCALARS
                for each in elements(value, self.rules):
                    self.free[each] = self.free.get(each, 0) + room
            if is_published:
                publishers.add(slice_.driver)
        self.publishers = tuple(sorted(publishers))
        self.others = sum(
            count for driver, count in by_driver.items() if self.match.classes or driver not in publishers
        )

    def candidates(self, held: Iterable[ResourceClaim]) -> Iterator[AttributeValue | None]:
        """Yield the values that what some claims have leaves, in order; None, which no device has, if there is none."""
        left = set(self.free)
        for claim in held:
            for result in _results(claim):
                found = self._held_value(claim, result)
                if found is not None:
                    left &= found
        yield from sorted(left, key=lambda each: (each.type, str(each.value)))
        if not left:
            yield None

    def _held_value(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult
    ) -> frozenset[AttributeValue] | None:
        """Return the values of a device that a claim has; None if the match does not concern it."""
        name = _class_of(claim, result.request)
        if result.admin_access or not self.match.concerns(name, result.driver, self.publishers):
            return None
        for slice_, index in self.inventory.find_device(result.driver, result.pool, result.device):
            if (value := _value_of(slice_, index, self.match.attribute)) is not None:
                return frozenset(elements(value, self.rules))
        return frozenset()

    def may_have_room(self, value: AttributeValue | None, claims: Iterable[ResourceClaim]) -> bool:
        """Return False only if fewer devices than some claims need could have a value, or need none."""
        if self.match.classes:
            needed = sum(_least(claim, self.match.classes) for claim in claims)
            return needed <= (0 if value is None else self.free[value])
        needed = sum(_least(claim) for claim in claims)
        return needed <= self.others + (0 if value is None else self.free[value])

    def narrow(self, claim: ResourceClaim, value: AttributeValue | None) -> ResourceClaim:
        """Return a claim whose results have a value; with None, one that has no result that the match concerns."""
        if value is None and not self.match.classes and not self.publishers:
            return claim
        key = id(claim.spec), value
        found = self._narrowed.get(key)
        if found is None:
            devices = claim.spec.devices
            requests = tuple([self._narrow_request(each, value) for each in devices.requests])
            spec = replace(claim.spec, devices=replace(devices, requests=requests))
            # The spec is kept, so that no other has its id.
            found = self._narrowed[key] = claim.spec, replace(claim, spec=spec)
        return replace(claim, spec=found[1].spec)

    def _narrow_request(self, request: DeviceRequest, value: AttributeValue | None) -> DeviceRequest:
        if request.exactly is not None:
            exactly = self._narrow_one(request.exactly, value)
            return replace(request, exactly=exactly)
        first = tuple([self._narrow_one(each, value) for each in request.first_available])
        return replace(request, first_available=first)

    def _narrow_one(self, asked: _Asked, value: AttributeValue | None) -> _Asked:
        if getattr(asked, "admin_access", None):
            return asked
        if self.match.classes and asked.device_class_name not in self.match.classes:
            return asked
        text = self._expression(value)
        if not self.match.classes:
            text = f"!(device.driver in {json.dumps(self.publishers)}) || ({text})"
        selector = DeviceSelector(CELSelector(text))
        return replace(asked, selectors=(*asked.selectors, selector))

    def _expression(self, value: AttributeValue | None) -> str:
        if value is None:
            return _NOTHING
        domain, _, name = self.match.attribute.rpartition("/")
        place = f"device.attributes[{json.dumps(domain)}].{name}"
        text = json.dumps(value.value)
        if value.type == "version":
            text = f"semver({text})"
        same = f"{place}.includes({text})" if self._has_lists else f"{place} == {text}"
        return f"has({place}) && {same}"


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def _class_of(claim: ResourceClaim, name: str) -> str:
    """Return the class of a request, or of a subrequest, by its full name."""
    return next((part.asked.device_class_name for part in find_parts({"": claim}) if part.path == name), "")


def _least(claim: ResourceClaim, classes: tuple[str, ...] = ()) -> int:
    """Return how many devices a claim takes at least; of some classes alone, if any are given."""

    def count(asked: ExactDeviceRequest | DeviceSubRequest) -> int:
        is_counted = not classes or asked.device_class_name in classes
        return asked.count if is_counted and not getattr(asked, "admin_access", None) else 0

    total = 0
    for request in claim.spec.devices.requests:
        options = (request.exactly,) if request.exactly is not None else request.first_available
        total += min(map(count, options), default=0)
    return total


def _value_of(slice_: Slice, index: int, attribute: str) -> AttributeValue | None:
    for column in slice_.attribute_columns(attribute):
        if column is not None and (value := column.values[index]) is not None:
            return value
    return None


# --- Where the pods of a gang go.


STEPS: Final = 400_000
"""What the assignments of one answer may take together: fillings of a node, of about 5 µs each."""
_ATTEMPT: Final = 20
"""So many steps an attempt of the allocator takes, or another check of a node."""
_COMPARISONS: Final = 16
"""So many fillings of a node are compared in the time of a step."""
_LIMITS: Final = Limits(steps=200_000, seconds=None)
"""Of each attempt: no time, so that the same gang gets the same answer."""
_Vector: TypeAlias = tuple[int, ...]
"""How many members of each kind."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a gang. `claims` are its own and shared ones without an allocation, `held` those with one.

    `problem` is what keeps it from being placed at all. `node` is where it is bound.
    """

    name: str
    pod: ObjectRecord
    claims: tuple[ResourceClaim, ...] = ()
    held: tuple[ResourceClaim, ...] = ()
    decider: Decider = Decider.KUBE_SCHEDULER
    problem: Explanation | None = None
    node: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that run together or not at all: in order, bound ones first.

    `topology` is a label of which all nodes have one value. With `at_least` members it may run; 0 stands for all.
    `assumed` are lines about what makes it a gang, and may not hold.
    """

    subject: str
    members: tuple[Member, ...]
    match: GangMatch | None = None
    topology: str = ""
    at_least: int = 0
    assumed: tuple[str, ...] = ()

    def first(self, number: int) -> "Gang":
        """Return the gang of the first members."""
        return replace(self, members=self.members[:number])


@dataclass(frozen=True, slots=True)
class Assignment:
    """The node of each member, in order, and what each claim gets that had no allocation.

    `domain` is the value of the topology label, `value` that of the match.
    """

    nodes: tuple[str, ...]
    results: Mapping[ClaimKey, AllocationResult]
    domain: str = ""
    value: AttributeValue | None = None


@dataclass(frozen=True, slots=True)
class NoDecision:
    """Neither an assignment was found, nor that there is none; the message says why."""

    message: str


Found: TypeAlias = Assignment | NoDecision | None


class _TooManyAttemptsError(Exception):
    """No more attempts may be made."""


class _ShortError(Exception):
    """There is no room for all of one kind, even without the others."""


@dataclass(slots=True)
class GangAssigner:
    """Assigns gangs by the present state of deciders, with what pods ask of nodes; nothing of it changes.

    All its assignments together take at most the `steps` that are left, one of them at most half of these: so the
    answers to smaller questions after it are found. They end as well at a time by the allocators' clock, if one is set.
    """

    deciders: Mapping[Decider, PodDecider]
    requirements: Callable[[ObjectRecord], PodRequirements]
    steps: int = STEPS
    until: float = math.inf
    _values: tuple[GangMatch, MatchValues] | None = None

    def values(self, match: GangMatch) -> MatchValues:
        """Return the values of a match, as they were when they were first asked for."""
        if self._values is None or self._values[0] != match:
            allocator = next(iter(self.deciders.values())).allocator
            rules = allocator.features.rules
            self._values = match, MatchValues(match, allocator.inventory, allocator.ledger, rules)
        return self._values[1]

    def domains(self, gang: Gang) -> list[str]:
        """Return the values of the topology that bound members leave, in order; an empty text without topology."""
        if not gang.topology:
            return [""]
        nodes = self.deciders[Decider.KUBE_SCHEDULER].allocator.inventory.nodes
        labels = {name: node.labels.get(gang.topology) for name, node in nodes.items()}
        bound = {labels.get(each.node) for each in gang.members if each.node}
        return sorted({label for label in labels.values() if label is not None and bound <= {label}})

    def assign(self, gang: Gang, domain: str | None = None, value: AttributeValue | None = None) -> Found:
        """Return an assignment, the first by domain and value; None if there is none; or that it is not decided.

        With a `domain` or a `value` only that one is tried.
        """
        if any(each.problem is not None for each in gang.members):
            return None
        waiting = [each for each in gang.members if not each.node]
        deciders = {each.decider for each in waiting if each.claims}
        if len(deciders) > 1:
            return NoDecision("only some of its pods have the operator's gate: they are not decided together")
        decider = next(iter(deciders), Decider.KUBE_SCHEDULER)
        allocator = self.deciders[decider].allocator
        allocator.refresh()
        undecided: NoDecision | None = None
        is_local, kept = has_local_devices(allocator.inventory), self.steps // 2
        for name in self.domains(gang) if domain is None else [domain]:
            for chosen, claims in self._narrowed(gang, value):
                packing = _Packing(self, allocator, decider, gang, waiting, claims, name, is_local, kept)
                found = packing.solve()
                if isinstance(found, Assignment):
                    return replace(found, domain=name, value=chosen)
                undecided = undecided or found
        return undecided

    def find_most(
        self, gang: Gang, least: int, domain: str | None = None, value: AttributeValue | None = None
    ) -> tuple[int, Assignment | None, NoDecision | None]:
        """Return how many of the first members fit together, where, and whether more were not decided: by halving.

        All of them do not; the first `least` ones do, and where these go is not said.
        """
        most, best, undecided = least, None, None
        high = len(gang.members)
        while high - most > 1:
            middle = (most + high) // 2
            found = self.assign(gang.first(middle), domain, value)
            if isinstance(found, Assignment):
                most, best = middle, found
            else:
                undecided = undecided or found
                high = middle
        return most, best, undecided

    def _narrowed(
        self, gang: Gang, only: AttributeValue | None
    ) -> Iterator[tuple[AttributeValue | None, list[tuple[ResourceClaim, ...]]]]:
        """Yield the values of the match with the open claims of each waiting member, narrowed to it."""
        waiting = [each for each in gang.members if not each.node]
        if gang.match is None:
            yield None, [each.claims for each in waiting]
            return
        values = self.values(gang.match)
        held = [claim for each in gang.members for claim in each.held]
        asked = {claim_key(claim): claim for each in waiting for claim in each.claims}
        for value in values.candidates(held):
            if (only is None or value == only) and values.may_have_room(value, asked.values()):
                yield value, [tuple([values.narrow(each, value) for each in one.claims]) for one in waiting]


@dataclass(slots=True)
class _Unit:
    """Members that go to one node, as they share a claim; mostly a single one. `members` are their numbers."""

    members: list[int]
    claims: dict[ClaimKey, ResourceClaim]


@dataclass(slots=True)
class _Packing:
    """The search for one domain and one value of the match.

    `is_local`: each pool is of one node, so members that share a claim go to one node. `kept` steps are not for it.
    """

    assigner: GangAssigner
    allocator: Allocator
    decider: Decider
    gang: Gang
    waiting: list[Member]
    claims: list[tuple[ResourceClaim, ...]]
    domain: str
    is_local: bool
    kept: int
    _kinds: list[list[_Unit]] = field(default_factory=list)
    _suits: list[int] = field(default_factory=list)
    _hosts: list[list[int]] = field(default_factory=list)
    """Of each kind the nodes that have room for one, as far as they were looked for."""
    _known: dict[tuple[int, _Vector], bool] = field(default_factory=dict)
    _failed: set[tuple[int, _Vector]] = field(default_factory=set)
    _conflict: bool = False
    _are_kinds_checked: bool = False

    def solve(self) -> Found:
        """Return an assignment, None, or that it is not decided."""
        try:
            self._prepare()
            chosen: list[tuple[int, _Vector]] = []
            demand = tuple([len(units) for units in self._kinds])
            if found := self._pack(0, demand, chosen):
                return found
        except (FatalError, _ShortError):
            return None
        except _TooManyAttemptsError:
            return NoDecision("not all ways to place them were tried")
        if self._conflict:
            return NoDecision(
                "its members would share devices that several nodes see, and not all ways were tried"
            )
        return None

    # --- members

    def _prepare(self) -> None:
        by_signature: dict[Hashable, list[_Unit]] = {}
        users = Counter(claim_key(claim) for claims in self.claims for claim in claims)
        for unit in self._units():
            by_signature.setdefault(self._signature(unit, users), []).append(unit)
        # Kinds that ask for most come first: they have the fewest nodes.
        self._kinds = sorted(
            by_signature.values(), key=lambda units: -sum(map(_size, units[0].claims.values()))
        )
        self._suits = [self._find_suitable(units[0]) for units in self._kinds]
        self._hosts = [[] for _ in self._kinds]

    def _units(self) -> list[_Unit]:
        units: list[_Unit] = []
        for number, claims in enumerate(self.claims):
            own = {claim_key(claim): claim for claim in claims}
            new = _Unit([number], own)
            joined = [each for each in units if self.is_local and own.keys() & each.claims.keys()]
            for each in joined:
                units.remove(each)
                new = _Unit(sorted(each.members + new.members), {**each.claims, **new.claims})
            units.append(new)
        return sorted(units, key=lambda unit: unit.members)

    def _signature(self, unit: _Unit, users: Mapping[ClaimKey, int]) -> Hashable:
        """Return what equal units have in common; of a claim that others share the claim itself.

        `users` says how many members have each claim.
        """
        shared = tuple([key for key in unit.claims if users[key] > 1 and len(unit.members) == 1])
        plans = tuple([self.allocator.plan(claim, self.decider).signature for claim in unit.claims.values()])
        pods = tuple(
            [
                (
                    self.assigner.requirements(each.pod),
                    each.pod.obj.status.nominated_node_name,
                    tuple([id(claim.status.allocation) for claim in each.held]),
                )
                for each in self._members(unit)
            ]
        )
        return plans, pods, shared

    def _members(self, unit: _Unit) -> list[Member]:
        return [self.waiting[number] for number in unit.members]

    def _find_suitable(self, unit: _Unit) -> int:
        """Return the nodes that suit all of a unit by itself, where it can use what it has."""
        label, decider = self.gang.topology, self.assigner.deciders[self.decider]
        nodes = self.allocator.inventory.nodes.items()
        names = {name for name, node in nodes if not label or node.labels.get(label) == self.domain}
        for each in self._members(unit):
            asked = self.assigner.requirements(each.pod)
            names -= decider.find_excluded(each.pod.obj, asked, each.held)
        return self.allocator.node_set(sorted(names))

    # --- nodes

    def _pack(self, start: int, remaining: _Vector, chosen: list[tuple[int, _Vector]]) -> Assignment | None:
        """Return an assignment of what remains to nodes from `start` on, beside what was chosen."""
        # A loop where there is one way alone: gangs have more nodes than Python has frames.
        depth = len(chosen)
        while True:
            if not any(remaining):
                found = self._realize(chosen)
                self._conflict |= found is None
                break
            node = self._next_host(start, remaining)
            found = None
            if node is None:
                self._check_each_kind()
                break
            if (node, remaining) in self._failed:
                break
            self._count_step()
            if sum(map(bool, remaining)) == 1:
                vector = next(self._vectors(node, remaining))
                chosen.append((node, vector))
                start, remaining = node + 1, _minus(remaining, vector)
                continue
            for vector in self._vectors(node, remaining):
                chosen.append((node, vector))
                found = self._pack(node + 1, _minus(remaining, vector), chosen)
                chosen.pop()
                if found is not None:
                    break
            if found is None:
                self._failed.add((node, remaining))
            break
        del chosen[depth:]
        return found

    def _check_each_kind(self) -> None:
        """Raise _ShortError if one kind alone has too little room: then no way to place them all is worth a try."""
        if self._are_kinds_checked or len(self._kinds) == 1:
            return
        self._are_kinds_checked = True
        for kind, units in enumerate(self._kinds):
            missing, node = len(units), self._next_host_for(kind, 0)
            while node is not None and missing:
                alone = tuple([missing if each == kind else 0 for each in range(len(self._kinds))])
                missing -= next(self._vectors(node, alone))[kind]
                node = self._next_host_for(kind, node + 1)
            if missing:
                raise _ShortError

    def _next_host(self, start: int, remaining: _Vector) -> int | None:
        """Return the first node from a position on that has room for one of what remains."""
        found = [
            node
            for kind, number in enumerate(remaining)
            if number and (node := self._next_host_for(kind, start)) is not None
        ]
        return min(found, default=None)

    def _next_host_for(self, kind: int, start: int) -> int | None:
        hosts = self._hosts[kind]
        while not hosts or (hosts[-1] < start and hosts[-1] >= 0):
            after = hosts[-1] + 1 if hosts else 0
            mask = self._suits[kind] >> after << after
            hosts.append(self._first_host(kind, mask))
        # The last one may be -1, which stands for none.
        return next((node for node in hosts if node >= start), None)

    def _first_host(self, kind: int, mask: int) -> int:
        claims = [*self._kinds[kind][0].claims.values()]
        alone = tuple([int(each == kind) for each in range(len(self._kinds))])
        while mask:
            node = (mask & -mask).bit_length() - 1
            if claims:
                name = self._attempt(claims, mask)
                if name is None:
                    return -1
                node = self.allocator.node_set([name[0]]).bit_length() - 1
            if self._fits(node, alone):
                return node
            mask = mask >> node + 1 << node + 1
        return -1

    def _vectors(self, node: int, remaining: _Vector) -> Iterator[_Vector]:
        """Yield how many of each kind fit on a node, the largest by kinds in order first, and only the largest."""
        yielded: list[_Vector] = []

        def extend(taken: _Vector) -> Iterator[_Vector]:
            kind = len(taken)
            self._count_step()
            if kind == len(remaining):
                self._count_step(len(yielded) // _COMPARISONS)
                if any(taken) and not any(all(map(int.__ge__, each, taken)) for each in yielded):
                    yielded.append(taken)
                    yield taken
                return
            rest = (0,) * (len(remaining) - kind - 1)
            most = 0
            while most < remaining[kind] and self._fits(node, (*taken, most + 1, *rest)):
                most += 1
            for number in range(most, -1, -1):
                yield from extend((*taken, number))

        yield from extend(())

    def _fits(self, node: int, vector: _Vector) -> bool:
        found = self._known.get((node, vector))
        if found is None:
            self._count_step(_ATTEMPT)
            units = self._units_of(vector)
            found = self._known[node, vector] = (
                all(suits >> node & 1 for suits, number in zip(self._suits, vector, strict=True) if number)
                and self._suit_together(node, units)
                and (not (claims := _claims_of(units)) or self._attempt(claims, 1 << node) is not None)
            )
        return found

    def _units_of(self, vector: _Vector) -> list[_Unit]:
        return [unit for units, number in zip(self._kinds, vector, strict=True) for unit in units[:number]]

    def _suit_together(self, node: int, units: Sequence[_Unit]) -> bool:
        """Return whether what some units request fits on a node that suits each, claims aside."""
        members = [each for unit in units for each in self._members(unit)]
        asked = [(_pod_key(each), self.assigner.requirements(each.pod)) for each in members]
        name = self.allocator.availability.views.order[node]
        return self.assigner.deciders[self.decider].cluster.find_obstacle_together(asked, name) is None

    def _attempt(
        self, claims: Sequence[ResourceClaim], nodes: int
    ) -> tuple[str, Sequence[AllocationResult]] | None:
        """Return the first of some nodes on which claims fit, and what they get. Raises _TooManyAttemptsError."""
        self._count_step(_ATTEMPT)
        limits, until = _LIMITS, self.assigner.until
        if until < math.inf:
            left = until - self.allocator.clock()
            if left <= 0:
                raise _TooManyAttemptsError
            limits = replace(limits, seconds=left)
        decision = self.allocator.allocate_for_pod(claims, ~nodes, decider=self.decider, limits=limits)
        self._count_step(self.allocator.candidates.selectors.budget.steps)
        if isinstance(decision, Failed) and decision.kind == "aborted":
            raise _TooManyAttemptsError
        return (decision.node, decision.results) if isinstance(decision, Allocated) else None

    def _count_step(self, steps: int = 1) -> None:
        """Count some steps. Raises _TooManyAttemptsError if there are none left."""
        if self.assigner.steps <= self.kept:
            raise _TooManyAttemptsError
        self.assigner.steps -= steps

    # --- results

    def _realize(self, chosen: Sequence[tuple[int, _Vector]]) -> Assignment | None:
        """Return the assignment of units to nodes, decided node by node, each beside those before it."""
        with self.allocator.ledger.trial():
            found = self._realize_in_trial(chosen)
        self.allocator.refresh()
        return found

    def _realize_in_trial(self, chosen: Sequence[tuple[int, _Vector]]) -> Assignment | None:
        ledger, order = self.allocator.ledger, self.allocator.availability.views.order
        queues = [iter(units) for units in self._kinds]
        nodes = [each.node for each in self.waiting]
        results: dict[ClaimKey, AllocationResult] = {}
        for node, vector in chosen:
            units = [next(queue) for queue, number in zip(queues, vector, strict=True) for _ in range(number)]
            units.sort(key=lambda unit: unit.members)
            for unit in units:
                for number in unit.members:
                    nodes[number] = order[node]
            every = {key: claim for unit in units for key, claim in unit.claims.items()}
            place = self.allocator.inventory.nodes[order[node]]
            if not all(can_use(results[key], place) for key in every if key in results):
                return None
            claims = [claim for key, claim in every.items() if key not in results]
            found = self._attempt(claims, 1 << node) if claims else (order[node], ())
            if found is None:
                return None
            for claim, result in zip(claims, found[1], strict=True):
                results[claim_key(claim)] = result
                ledger.assume(*claim_key(claim), result)
        rest = iter(nodes)
        return Assignment(tuple([each.node or next(rest) for each in self.gang.members]), results)


def has_local_devices(inventory: Inventory) -> bool:
    """Return whether each pool is of one node, so that what is taken on a node is none of the others'."""
    for pool in inventory.pools.values():
        names = set()
        for slice_ in pool.slices.values():
            for index in bits.each(slice_.every) if slice_.per_device_nodes else (0,):
                nodes = slice_.effective_nodes(index) if slice_.per_device_nodes else slice_.nodes
                names.add(nodes.node_name)
        if len(names) > 1 or None in names:
            return False
    return True


def _claims_of(units: Sequence[_Unit]) -> list[ResourceClaim]:
    return [*{key: claim for unit in units for key, claim in unit.claims.items()}.values()]


def _size(claim: ResourceClaim) -> int:
    """Return how many devices the first alternatives of a claim ask for."""
    total = 0
    for request in claim.spec.devices.requests:
        asked = request.exactly or next(iter(request.first_available), None)
        total += 0 if asked is None else asked.count
    return total


def _pod_key(member: Member) -> tuple[str, str]:
    metadata = member.pod.obj.metadata
    return metadata.namespace, metadata.name


def _minus(one: _Vector, other: _Vector) -> _Vector:
    return tuple([left - right for left, right in zip(one, other, strict=True)])
