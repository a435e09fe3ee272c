"""The rehearsal: a small cluster of our own is decided before the first claim comes.

It is good for two things. An installation is put to the test: expressions compile, and each claim gets what is known to
be right, from the plain search and from those that count alike. Mixed versions of libraries, a damaged file or a broken
interpreter show here, and not in what somebody's claim is given. And what a process does once is done: the parser of
expressions sets itself up for the first of them, and the interpreter adapts code to what it meets there. So the first
claim costs what the others cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from dra_operator.allocator.allocator import AdminAccess, Allocator
from dra_operator.allocator.decision import Allocated, Decision, Failed
from dra_operator.allocator.rehearsal_cluster import ANSWERS, SCENARIO
from dra_operator.allocator.search.searches import Searching
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

_PASSES: Final = 2
"""How often each search decides the claims; what they got is given back between.

Python adapts a function to what it meets there after some calls (3.11 at the ninth), and many claims call each. More
than two passes make the claims that follow no faster.
"""
TIMES: Final = len(Searching) * _PASSES
"""How often each claim is decided in all."""

_KINDS: Final = {
    "nodes": "Node",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "deviceTaintRules": "DeviceTaintRule",
}


class RehearsalError(Exception):
    """A claim of the rehearsal did not get what it should, or something in it ended with an exception."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; this installation would not decide as Kubernetes does: install dra-operator anew, with the "
            "versions in requirements/run.txt, and report it if that does not help"
        )


def rehearse(answers: Mapping[str, str] = ANSWERS) -> None:
    """Decide the built-in cluster, by the plain search and by those that count, and compare with the known answers.

    `answers` has what each claim gets, as `answer_of` puts it. Raises RehearsalError for the first claim that gets
    something else.
    """
    try:
        cast = _Cast.of(SCENARIO)
        for searching in Searching:
            allocator = cast.allocator(searching)
            for _ in range(_PASSES):
                _play(allocator, cast.claims, answers)
    except RehearsalError:
        raise
    except Exception as error:
        raise RehearsalError(f"the self-check ended with {type(error).__name__}: {error}") from error


def answer_of(decision: Decision) -> str:
    """Return a decision on one claim as a line: node and devices with what is consumed of them, or how it ended."""
    match decision:
        case Allocated():
            return f"{decision.node}: {', '.join(_devices(decision.results[0]))}"
        case Failed():
            return decision.kind
        case _:
            return "nothing"


@dataclass(frozen=True, slots=True)
class _Cast:
    """The objects of a cluster, the claims that hold devices in it, and those to be decided."""

    objects: Sequence[Any]
    holders: Sequence[ResourceClaim]
    claims: Sequence[ResourceClaim]

    @classmethod
    def of(cls, scenario: Mapping[str, Any]) -> "_Cast":
        """Return what a scenario, as it is on the wire, consists of."""
        objects = [read_object(body, kind) for name, kind in _KINDS.items() for body in scenario[name]]
        holders, claims = (
            [apply_defaults(read_object(body, "ResourceClaim")) for body in scenario[name]]
            for name in ("allocated", "claims")
        )
        return cls(objects, holders, claims)

    def allocator(self, searching: Searching) -> Allocator:
        """Return an allocator for the cluster as it is at first, which shares nothing with others."""
        inventory, ledger = Inventory(), Ledger()
        for item in self.objects:
            inventory.put(item)
        for claim in self.holders:
            ledger.put(claim)
        numbers = count(1)
        return Allocator(
            inventory,
            ledger,
            # What bounds a search here is its steps; and nobody else ever sees the ids.
            clock=lambda: 0.0,
            share_ids=lambda: f"00000000-0000-4000-8000-{next(numbers):012x}",
            admin_access=AdminAccess.ANY_NAMESPACE,
            searching=searching,
        )


def _play(allocator: Allocator, claims: Sequence[ResourceClaim], answers: Mapping[str, str]) -> None:
    """Decide claims one after the other, compare, and give back what they got."""
    ledger = allocator.ledger
    for claim in claims:
        name = claim.metadata.name
        decision = allocator.allocate((claim,))
        if isinstance(decision, Allocated):
            ledger.assume(claim.metadata.namespace, name, decision.results[0])
            allocator.refresh()
        answer = answer_of(decision)
        if answer != answers[name]:
            why = f" ({decision.message})" if isinstance(decision, Failed) else ""
            raise RehearsalError(
                f'claim "{name}" of the self-check, {allocator.searching.value} search: '
                f'expected "{answers[name]}", found "{answer}"{why}'
            )
    for claim in claims:
        ledger.withdraw(claim.metadata.namespace, claim.metadata.name)
    allocator.refresh()


def _devices(allocation: AllocationResult) -> list[str]:
    return [
        " ".join(
            [result.device, *(f"{name} {amount.text}" for name, amount in result.consumed_capacity.items())]
        )
        for result in allocation.devices.results
    ]
