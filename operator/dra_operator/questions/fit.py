"""Fit: how many copies of a template would fit, where and with which devices, first-fit.

That is what would happen if they were created one after the other. It is not the largest number that could be placed in
any order: the answer says so. Source: docs/library.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import printable
from dra_operator.pods.gang_assignment import Gang
from dra_operator.questions.answers import (
    ABORTED,
    DECISION,
    Conclusion,
    DeviceAnswer,
    QuestionError,
    conclude,
)
from dra_operator.questions.copies import Pods, Subject, Template, find_pods
from dra_operator.questions.gang_members import all_of, find_gangs, gang_of_all, is_of_gang
from dra_operator.questions.gangs import answer_gangs
from dra_operator.questions.placer import PlacedCopy, Placer, Quotas
from dra_operator.questions.state import ClusterState

MOST_COPIES: Final = 10_000
FIRST_FIT: Final = (
    "placed one after the other, each on the first node that fits; another order may place more"
)

ALL_AT_ONCE: Final = "those of a gang are placed at once, and no more of the first ones fit together"
MOST_MEMBERS: Final = 256
"""Of larger gangs it is told how many have a place one after the other."""


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
    found: it is no maximum, but for a gang. `partial` has a line for each thing that the answer lacks, `assumed` for
    each that it assumes.
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
    found = place_pods(state, pods, wanted)
    gangs = find_gangs(state, all_of(pods)) if copies is None else _gang_of_copies(pods, copies)
    if (found.fits and not _are_bound(gangs)) or sum(len(each.members) for each in gangs) > MOST_MEMBERS:
        # Where all have a place one by one, they have one at once.
        return found
    is_refused = found.reason == Reason.CLAIM_NOT_CREATED
    return found if is_refused or not gangs else _fit_gangs(state, pods, gangs, found, copies)


def _gang_of_copies(pods: Pods, copies: int) -> tuple[Gang, ...]:
    """Return the gang of some copies, if they are pods of which one can be decided."""
    ((template, _),) = pods.templates
    is_decided = template.pod is not None and not template.asks
    return (gang_of_all(pods, copies),) if is_decided and 1 < copies <= MOST_MEMBERS else ()


def _are_bound(gangs: Iterable[Gang]) -> bool:
    """Return whether pods of some gangs are to have something in common."""
    return any(each.match is not None or each.topology for each in gangs)


def _fit_gangs(
    state: ClusterState, pods: Pods, gangs: Sequence[Gang], one_by_one: FitAnswer, copies: int | None
) -> FitAnswer:
    """Return how many pods fit if those of each gang are placed at once, and the others after them."""
    others = [each for each in pods.templates if copies is None and not is_of_gang(state, each[0])]
    with state.trial():
        answers = answer_gangs(state, gangs)
        rest = place_pods(state, pods, others)
    partial = dict.fromkeys(line for each in answers for line in each.partial)
    if any(each.state == "undecided" for each in answers):
        return replace(one_by_one, partial=(*one_by_one.partial, *partial))
    placed = [pod for each in answers for pod in each.pods if not pod.is_bound]
    counts = Counter(each.node for each in placed) + Counter({each.node: each.copies for each in rest.nodes})
    waiting = next((each for each in answers if each.state == "waits"), None)
    if waiting is not None and not _are_bound(gangs) and len(placed) + rest.fitting == one_by_one.fitting:
        return replace(one_by_one, method=ALL_AT_ONCE)
    failing = "" if waiting is None else waiting.failing
    if failing and pods.are_of_workload:
        failing = f'Pod "{gangs[answers.index(waiting)].members[0].pod.obj.metadata.namespace}/{failing}"'
    values = [each.value for each in answers if each.value]
    return replace(
        rest if waiting is None else one_by_one,
        asked=one_by_one.asked,
        fitting=len(placed) + rest.fitting,
        fits=waiting is None and rest.fits,
        nodes=tuple([NodeCopies(node, count) for node, count in sorted(counts.items())]),
        copies=(*(CopyAnswer(each.node, each.devices) for each in placed), *rest.copies),
        **({} if waiting is None else {"reason": waiting.reason, "message": waiting.message}),
        method="; ".join((ALL_AT_ONCE, *(f"all with {value}" for value in values))),
        partial=tuple(dict.fromkeys((*partial, *rest.partial))),
        assumed=(*one_by_one.assumed, *dict.fromkeys(line for each in answers for line in each.assumed)),
        failing=failing or rest.failing,
    )


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
    decider, quotas = state.new_decider(), Quotas(state)
    is_aborted = False
    with state.trial():
        for template, count in wanted:
            placer = Placer(state, template, decider, quotas)
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
        tuple([CopyAnswer(each.node, each.devices) for each in placed]),
        reason,
        message,
        partial=(*missing, *((ABORTED,) if is_aborted else () if failing else unchecked)),
        assumed=tuple(dict.fromkeys(line for each, _ in wanted for line in each.assumed)),
        unit="pod" if pods.are_of_workload else "copy",
        failing=failing,
    )
