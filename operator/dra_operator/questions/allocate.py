"""Allocation: what becomes of all claims that wait, decided as the operator and kube-scheduler would.

The claims are decided in their order, and each decision counts for the next; then those that wait are explained.
Source: docs/tasks/simulate.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dra_operator.allocator.decision import Decider
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import listed, printable
from dra_operator.pods.claim_sets import Outcome, State, decide, make_sets
from dra_operator.pods.claims import find_unused_templates, make_claims
from dra_operator.pods.special_claims import find_asking_pods
from dra_operator.questions.answers import (
    ABORTED,
    DECISION,
    DeviceAnswer,
    devices_of,
    find_decision_kinds,
    find_unchecked,
)
from dra_operator.questions.fault_texts import NOT_REACHED
from dra_operator.questions.state import ClusterState

_MOST_ASKED = 1000
"""So many allocated claims are asked about selectors that fail elsewhere: each may have its own."""


@dataclass(frozen=True, slots=True)
class ClaimOutcomes:
    """What becomes of each claim, by name; `missing` are lines about claims that cannot be made, also in `notes`."""

    outcomes: tuple[Outcome, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """What becomes of a claim, or has become of it.

    `state` is `allocated` (now), `held` (before), `broken`, `pending` or `left alone`. `node` is where it was decided;
    `reason` is of docs/reasons.md.
    """

    claim: str
    state: str
    node: str
    devices: tuple[DeviceAnswer, ...]
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class AllocateAnswer:
    """What becomes of all claims, by name; `missing` are lines about claims of pods that cannot be made.

    `partial` is as in FitAnswer.
    """

    claims: tuple[ClaimAnswer, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    partial: tuple[str, ...] = ()


def allocate(state: ClusterState) -> AllocateAnswer:
    """Return what would become of all claims that wait, decided one after the other. Raises QuestionError."""
    DECISION.check(state.unread)
    decided = decide_all(state)
    asked = (outcome.claim for outcome in decided.outcomes)
    pods = [record.body for record in state.objects.of_kind("Pod")]
    missing = DECISION.find_missing(state.unread, find_decision_kinds(state.inventory, asked, pods))
    claims = tuple(map(_answer, decided.outcomes))
    is_aborted = any(outcome.reason == Reason.SEARCH_ABORTED for outcome in decided.outcomes)
    return AllocateAnswer(
        claims,
        decided.missing,
        decided.notes,
        (*missing, *find_unchecked(pods), *((ABORTED,) if is_aborted else ())),
    )


def _answer(outcome: Outcome) -> ClaimAnswer:
    allocation, metadata = outcome.allocation, outcome.claim.metadata
    return ClaimAnswer(
        f"{metadata.namespace}/{metadata.name}",
        outcome.state.value,
        outcome.node,
        () if allocation is None else tuple(devices_of(metadata.name, allocation)),
        outcome.reason,
        printable(outcome.message),
    )


def decide_all(state: ClusterState) -> ClaimOutcomes:
    """Decide all claims that wait, and those that pods are missing. The state is as before afterwards."""
    objects = state.objects
    made, missing = make_claims(objects)
    asking = find_asking_pods(objects)
    sets = make_sets(objects, [*objects.of_kind("ResourceClaim"), *made], asking.pods)
    with state.trial():
        decided = decide(sets, state.new_decider(), state.broken)
        failing = list(_find_failing(state, decided.outcomes))
    missing += asking.problems
    unused = find_unused_templates(objects)
    notes = (*objects.notes, *unused, *state.notes, *asking.notes, *decided.notes, *missing, *failing)
    return ClaimOutcomes(tuple(decided.outcomes), tuple(missing), notes)


def _find_failing(state: ClusterState, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each selector of claims allocated here that fails on devices which were not reached."""
    claims: dict[str, list[str]] = {}
    allocated = (outcome.claim for outcome in outcomes if outcome.state is State.ALLOCATED)
    for claim in islice(allocated, _MOST_ASKED):
        for text in state.explainers[Decider.OPERATOR].find_failing(claim):
            claims.setdefault(text, []).append(f'"{claim.metadata.namespace}/{claim.metadata.name}"')
    for text, names in claims.items():
        yield f"ResourceClaim {listed(names)}: {text}; {NOT_REACHED}"
