"""`dra-operator replay --sequential`: the claims of a scenario one after the other, and how long each took.

Each is decided alone, but claims in a row that the same pod owns are decided together, and share the time. What is
timed is what a decision costs between the claim as it was read and the ledger updated, over all nodes, with the first
evaluation of its selectors in it. Compiling expressions is timed apart, because it happens once for each text; reading
the file and building the inventory are not timed.
Source: docs/cli.md.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from dra_operator.allocator import Allocated, Allocator, Decision, Failed
from dra_operator.api.types import DeviceSelector, ResourceClaim
from dra_operator.api.write import allocation_to_wire
from dra_operator.cel import CelError, compile_derived_attribute
from dra_operator.cli.scenarios import Scenario

_OBJECTS_A_COLLECTION = 20_000


@dataclass(slots=True)
class Decided:
    """Claims, the decision about each, the milliseconds that each took, and those of compiling before."""

    claims: Sequence[ResourceClaim]
    decisions: list[Decision] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    compiling: float = 0.0

    def summary(self, name: str) -> dict[str, Any]:
        """Return the line of output about all of them."""
        times = self.milliseconds
        return {
            "name": name,
            "claims": len(times),
            "allocated": sum(isinstance(decision, Allocated) for decision in self.decisions),
            "mean_ms": round(sum(times) / max(1, len(times)), 4),
            "p50_ms": percentile(times, 50),
            "p99_ms": percentile(times, 99),
            "compile_ms": round(self.compiling, 4),
        }

    def answers(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the line of output about each; node and result are null where there are none."""
        for claim, decision in zip(self.claims, self.decisions, strict=True):
            yield {"name": name, "claim": claim.metadata.name, **_answer(decision)}


def decide_one_by_one(scenario: Scenario, rehearse: Callable[[], None] | None = None) -> Decided:
    """Allocate the claims of a scenario one after the other, those of a pod together, the state carried on.

    `rehearse` is called right before the first of them: reading the scenario and compiling its expressions have pushed
    the code that decides out of the processor's cache.
    """
    allocator = scenario.allocator
    allocator.refresh()
    decided = Decided(scenario.claims)
    with _frozen_heap():
        started = time.perf_counter()
        compile_expressions(allocator, scenario.claims)
        decided.compiling = _since(started)
        if rehearse is not None:
            rehearse()
        gc.freeze()
        for claims in _by_pod(scenario.claims):
            started = time.perf_counter()
            decision = allocator.allocate(claims)
            if isinstance(decision, Allocated):
                for number, claim in enumerate(claims, len(decided.decisions)):
                    # Recorded claims may share a name, and an assumption takes the place of the one before.
                    owner = f"{claim.metadata.name}\x00{number}"
                    result = decision.results[number - len(decided.decisions)]
                    allocator.ledger.assume(claim.metadata.namespace, owner, result)
                allocator.refresh()
            each = _since(started) / len(claims)
            decided.milliseconds += [each] * len(claims)
            decided.decisions += [_part(decision, place) for place in range(len(claims))]
    return decided


def _by_pod(claims: Sequence[ResourceClaim]) -> Iterator[tuple[ResourceClaim, ...]]:
    """Yield the claims: those in a row that the same pod owns together, others each alone."""
    numbered = groupby(enumerate(claims), lambda item: _pod_of(item[1]) or item[0])
    return (tuple([claim for _, claim in group]) for _, group in numbered)


def _pod_of(claim: ResourceClaim) -> str | None:
    return next((owner.uid for owner in claim.metadata.owner_references if owner.kind == "Pod"), None)


def _part(decision: Decision, place: int) -> Decision:
    """Return what was decided about one of some claims."""
    if isinstance(decision, Allocated):
        return replace(decision, results=(decision.results[place],))
    return decision


def compile_expressions(allocator: Allocator, claims: Sequence[ResourceClaim]) -> None:
    """Compile every expression that a decision may need, and join those of each request with those of its class.

    One that does not compile is met again later.
    """
    requests = [request for claim in claims for request in claim.spec.devices.requests]
    parts = [part for request in requests for part in (request.exactly, *request.first_available) if part]
    classes = allocator.inventory.classes
    pairs = [
        (_expressions(device_class.spec.selectors), _expressions(part.selectors))
        for part in parts
        if (device_class := classes.get(part.device_class_name)) is not None
    ]
    for of_class, of_request in dict.fromkeys(pairs):
        allocator.candidates.selectors.joined(of_class, of_request)
    for expression in dict.fromkeys(item.expression for part in parts for item in part.derived_attributes):
        with suppress(CelError):
            compile_derived_attribute(expression, allocator.environment)


def _expressions(selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    return tuple([selector.cel.expression for selector in selectors if selector.cel])


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that `percent` of 100 values do not exceed; 0 if there are none."""
    if not values:
        return 0
    rank = -(-percent * len(values) // 100)
    return round(sorted(values)[max(1, rank) - 1], 4)


def _answer(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Allocated):
        return {"node": decision.node, "result": allocation_to_wire(decision.results[0])}
    nothing = {"node": None, "result": None}
    if isinstance(decision, Failed):
        return {**nothing, "error": decision.message, "errorKind": decision.kind}
    return nothing


def _since(started: float) -> float:
    return 1000 * (time.perf_counter() - started)


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Keep the collector from looking again and again at what was built before: once costs more than many claims.

    What is decided from there on is let go by counting references alone, so it looks at that seldom. Nothing is
    collected first: a walk over all there is would push what the first claims read out of the processor's cache.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
