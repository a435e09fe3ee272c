"""Fit: how many copies of a template would fit, where and with which devices, first-fit.

That is what would happen if they were created one after the other. It is not the largest number that could be placed in
any order: the answer says so. Source: docs/library.md.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult
from dra_operator.ledger import ClaimKey
from dra_operator.questions.answers import Conclusion, DeviceAnswer, QuestionError, conclude, devices_of
from dra_operator.questions.copies import Pods, Subject, Template, find_pods
from dra_operator.questions.partial import ABORTED, DECISION
from dra_operator.questions.placer import PlacedCopy, Placer, Quotas
from dra_operator.questions.state import ClusterState

MOST_COPIES: Final = 10_000
FIRST_FIT: Final = (
    "placed one after the other, each on the first node that fits; another order may place more"
)


@dataclass(frozen=True, slots=True)
class NodeCopies:
    """How many copies a node would have."""

    node: str
    copies: int


@dataclass(frozen=True, slots=True)
class CopyAnswer:
    """Where a copy would be, and its devices."""

    node: str
    devices: tuple[DeviceAnswer, ...]


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """How many of the copies that were asked for fit, each a `unit`: a copy, or a pod of a workload.

    `fits` says whether all do. `nodes` and `copies` are what each node and each copy would have. `reason` (of
    docs/reasons.md) and `message` are of the first that does not fit, `failing`. `method` says how the number was
    found: it is no maximum. `partial` has a line for each thing that the answer lacks, `assumed` for each that it
    assumes.
    """

    subject: str
    asked: int
    fitting: int
    fits: bool
    nodes: tuple[NodeCopies, ...]
    copies: tuple[CopyAnswer, ...]
    reason: str = ""
    message: str = ""
    method: str = FIRST_FIT
    partial: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    unit: str = "copy"
    failing: str = ""

    @property
    def conclusion(self) -> Conclusion:
        """Whether all fit."""
        # What the API server refuses it refuses, whatever could not be read.
        is_refused = self.reason == Reason.CLAIM_NOT_CREATED
        return conclude(is_yes=self.fits, is_partial=bool(self.partial) and not is_refused)


def find_fit(state: ClusterState, subject: Subject, copies: int | None = None) -> FitAnswer:
    """Return how many of some copies of a template fit, in the state as it is; by default 1, or all pods of a workload.

    Raises QuestionError.
    """
    if copies is not None and (type(copies) is not int or not 1 <= copies <= MOST_COPIES):
        raise QuestionError(
            f"copies: {copies} is not from 1 to {MOST_COPIES:,}: ask for as many as are to be placed"
        )
    state, pods = find_pods(state, subject)
    wanted = pods.templates if copies is None else ((pods.templates[0][0], copies),)
    if copies is not None and len(pods.templates) > 1:
        raise QuestionError(f"copies: {pods.subject} has pods that differ: all of them are asked about, once")
    return place_pods(state, pods, wanted)


def place_pods(
    state: ClusterState,
    pods: Pods,
    wanted: Sequence[tuple[Template, int]],
    refuse: Callable[[Placer, int], None] | None = None,
) -> FitAnswer:
    """Return how many copies of some templates fit; `refuse` is told of the first that does not, in the state then."""
    kinds = dict.fromkeys(kind for each, _ in wanted for kind in each.find_kinds(state.inventory))
    missing = DECISION.find_missing(state.unread, kinds)
    placed: list[PlacedCopy] = []
    reason = message = failing = ""
    shared, quotas = dict[ClaimKey, AllocationResult](), Quotas(state)
    is_aborted = False
    with state.trial():
        for template, count in wanted:
            placer = Placer(state, template, shared, quotas)
            for number in range(1, count + 1):
                found = placer.place(number)
                if found is None:
                    is_aborted |= placer.is_aborted
                    if not failing:
                        why = placer.explain(number)
                        reason, message = why.reason.value, printable(why.message)
                        failing = template.name(number) if pods.are_of_workload else f"copy {number:,}"
                        if refuse is not None:
                            refuse(placer, number)
                    break
                placed.append(found)
    counts = Counter(each.node for each in placed)
    asked = sum(count for _, count in wanted)
    unchecked = dict.fromkeys(line for each, _ in wanted for line in each.find_unchecked())
    return FitAnswer(
        pods.subject,
        asked,
        len(placed),
        not failing,
        tuple([NodeCopies(node, count) for node, count in sorted(counts.items())]),
        tuple([_answer(each) for each in placed]),
        reason,
        message,
        partial=(*missing, *((ABORTED,) if is_aborted else () if failing else unchecked)),
        assumed=tuple(dict.fromkeys(line for each, _ in wanted for line in each.assumed)),
        unit="pod" if pods.are_of_workload else "copy",
        failing=failing,
    )


def _answer(placed: PlacedCopy) -> CopyAnswer:
    devices = [
        device for entry, allocation in placed.allocations.items() for device in devices_of(entry, allocation)
    ]
    return CopyAnswer(placed.node, tuple(devices))
