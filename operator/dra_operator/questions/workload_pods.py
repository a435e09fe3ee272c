"""Workloads: what becomes of the pods that one has, and of those that it would still make.

Its pods are those of its owner chain; each is explained by itself, equal ones once. Those that are missing are placed
one after the other, as `fit` does, beside what is used now. Source: docs/kubectl.md, "Workloads".
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from dra_operator.allocator.decision import claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.pods.claims import is_over
from dra_operator.pods.gang_assignment import Gang
from dra_operator.pods.objects import Manifest, ObjectRecord, Place
from dra_operator.pods.smallest_change import Effort
from dra_operator.pods.workloads import KnownWorkload, Workload, part
from dra_operator.questions.answers import Conclusion, UnknownObjectError, conclude
from dra_operator.questions.claims import deployment_of
from dra_operator.questions.copies import Pods, Subject, Template, find_pods
from dra_operator.questions.explain import EFFORT, ExplainAnswer, explain, explain_placed
from dra_operator.questions.fit import place_pods
from dra_operator.questions.gang_members import all_of, choose_missing, find_gangs, is_of_gang
from dra_operator.questions.gangs import GangAnswer, answer_gangs
from dra_operator.questions.placer import Placer
from dra_operator.questions.state import ClusterState
from dra_operator.questions.waiting import find_shape

_WAITS: Final = ("waits", "broken")
_FINISHED: Final = frozenset(("Complete", "Completed", "Succeeded", "Failed"))
"""Conditions of workloads that make no more pods."""
_Wanted: TypeAlias = Sequence[tuple[Template, int]]


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Pods of a workload of which the same is to be said, by name if they exist; `explanation` is of the first."""

    names: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]
    explanation: ExplainAnswer


@dataclass(frozen=True, slots=True)
class WorkloadAnswer:
    """What becomes of the pods of a workload: those that exist, and then those that are still to be made.

    `gangs` are its pods that run together or not at all, each beside those before it; `items` then has of those that
    are still to be made only what keeps one by itself. `partial` has a line for each thing that the answer lacks,
    `assumed` for each that it assumes.
    """

    subject: str
    items: tuple[EqualPods, ...]
    partial: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    gangs: tuple[GangAnswer, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether no pod waits, and all gangs fit."""
        found = [each.explanation for each in self.items if each.explanation.state in _WAITS]
        waiting: list[ExplainAnswer | GangAnswer] = [*found]
        waiting += (each for each in self.gangs if each.conclusion is not Conclusion.YES)
        is_certain = not self.partial or any(not each.partial for each in waiting)
        return conclude(is_yes=not waiting, is_partial=not is_certain)


_SUSPENDED: Final = "it is suspended, and makes its pods once it is not"


def explain_new_pods(state: ClusterState, subject: Subject, effort: Effort | None = EFFORT) -> WorkloadAnswer:
    """Return what would become of the pods of a workload, or of several pods, in a file. Raises QuestionError."""
    state, pods = find_pods(state, subject)
    gangs = find_gangs(state, all_of(pods))
    return _answer(pods.subject, *_explain_new(state, pods, pods.templates, gangs, effort))


def explain_workload(
    state: ClusterState, known: KnownWorkload, namespace: str, name: str, effort: Effort | None = EFFORT
) -> WorkloadAnswer:
    """Return what becomes of the pods of a workload of the cluster. Raises UnknownObjectError, QuestionError.

    One that is not among the objects is known by its pods alone.
    """
    body = state.objects.bodies.get((known.name, namespace, name))
    records = list(_find_pods(state, known, namespace, name))
    title = f'{known.kind} "{namespace}/{name}"'
    if body is None and not records:
        raise UnknownObjectError(f"there is no {title}, nor a pod of it")
    items = list(_explain_existing(state, records, effort))
    if body is None:
        with state.trial():
            gangs = answer_gangs(state, find_gangs(state, (), records))
        return _answer(title, items, gangs, f"{title} was not read: which pods it still makes is not known")
    gangs = ()
    conditions = part(body, "status").get("conditions") or ()
    is_finished = any(each.get("type") in _FINISHED and each.get("status") == "True" for each in conditions)
    if not is_finished and not known.is_for_each_node:
        manifest = Manifest(Place("", 0, 0), body)
        state, pods = find_pods(state, [manifest])
        wanted = _count_missing(pods, records, body)
        numbers = [
            (template, choose_missing(template, total, count, records))
            for (template, count), (_, total) in zip(wanted, pods.templates, strict=True)
        ]
        missing, gangs = _explain_new(state, pods, wanted, find_gangs(state, numbers, records), effort)
        if Workload(manifest, known, name).is_suspended:
            missing = [_after_suspension(each) for each in missing]
        items += missing
    return _answer(title, items, gangs)


def _after_suspension(pods: EqualPods) -> EqualPods:
    """Return what would become of pods once their workload is not suspended any more."""
    assumed = (*pods.explanation.assumed, _SUSPENDED)
    return replace(pods, explanation=replace(pods.explanation, assumed=assumed))


def _answer(
    title: str, items: list[EqualPods], gangs: tuple[GangAnswer, ...], *partial: str
) -> WorkloadAnswer:
    found: list[ExplainAnswer | GangAnswer] = [*gangs, *(each.explanation for each in items)]
    lines = dict.fromkeys([*partial, *(line for each in found for line in each.partial)])
    assumed = dict.fromkeys(line for each in found for line in each.assumed)
    return WorkloadAnswer(title, tuple(items), tuple(lines), tuple(assumed), gangs)


def _find_pods(
    state: ClusterState, known: KnownWorkload, namespace: str, name: str
) -> Iterator[ObjectRecord]:
    """Yield the pods of a workload: what it owns, and what that owns."""
    records = [each for each in state.objects.of_kind("Pod") if each.obj.metadata.namespace == namespace]
    between = [body for key, body in state.objects.bodies.items() if key[1] == namespace]
    owners, before = {(known.group, known.kind, name)}, 0
    while len(owners) > before:
        before = len(owners)
        for body in (*between, *(record.body for record in records)):
            if owners.intersection(_owners(body)):
                group = str(body.get("apiVersion")).rpartition("/")[0]
                owners.add((group, str(body.get("kind")), str(part(body, "metadata").get("name"))))
    yield from (record for record in records if ("", "Pod", record.obj.metadata.name) in owners)


def _owners(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield who manages an object; of a ReplicaSet that was not read also the Deployment by its name."""
    for owner in part(body, "metadata").get("ownerReferences") or ():
        group = str(owner.get("apiVersion")).rpartition("/")[0]
        if owner.get("controller"):
            yield group, str(owner.get("kind")), str(owner.get("name"))
        if owner.get("kind") == "ReplicaSet":
            yield group, "Deployment", deployment_of(str(owner.get("name")))


def _entries(record: ObjectRecord) -> Any:
    return record.obj.spec.resource_claims


def _explain_existing(
    state: ClusterState, records: list[ObjectRecord], effort: Effort | None
) -> Iterator[EqualPods]:
    """Yield what is to be said of pods that exist, once of equal ones: those of one shape, or with one reason."""
    known: dict[str, ExplainAnswer] = {}
    groups: dict[Any, list[ObjectRecord]] = {}
    for record in sorted(records, key=lambda each: (len(each.obj.metadata.name), each.obj.metadata.name)):
        reference = _reference(record)
        shape = find_shape(state, record) or reference
        if shape not in known:
            known[shape] = explain(state, reference, None)
        found = known[shape]
        key = found.state, found.reason, record.obj.status.phase, _entries(record)
        groups.setdefault(key, []).append(record)
    for (word, *_), group in groups.items():
        pods: list[Pod] = [record.obj for record in group]
        explanation = explain(state, _reference(group[0]), effort if word in _WAITS else None)
        nodes = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
        yield EqualPods(
            tuple([pod.metadata.name for pod in pods]), len(pods), tuple(sorted(nodes)), explanation
        )


def _reference(record: ObjectRecord) -> str:
    return f"Pod/{record.obj.metadata.namespace}/{record.obj.metadata.name}"


def _count_missing(
    pods: Pods, records: list[ObjectRecord], body: Mapping[str, Any]
) -> list[tuple[Template, int]]:
    """Return how many pods of each template are still to be made: those of one name their claims alike."""
    there = Counter(_entries(record) for record in records if not is_over(record.obj))
    completions, done = part(body, "spec").get("completions"), part(body, "status").get("succeeded") or 0
    found = []
    for template, count in pods.templates:
        assert template.pod is not None
        most = min(count, completions - done) if isinstance(completions, int) else count
        own = _entries(template.pod)
        made = min(there[own], max(most, 0))
        there[own] -= made
        found.append((template, max(most, 0) - made))
    return found


def _explain_new(
    state: ClusterState, pods: Pods, wanted: _Wanted, gangs: Sequence[Gang], effort: Effort | None
) -> tuple[list[EqualPods], tuple[GangAnswer, ...]]:
    """Return what would become of pods that are still to be made, and of all gangs, before those that are of none.

    Of members there is only what the gangs do not say: why one waits by itself.
    """
    of_gangs = [each for each in wanted if gangs and is_of_gang(state, each[0])]
    with state.trial():
        answers = answer_gangs(state, gangs)
        items = _explain_missing(state, pods, [each for each in wanted if each not in of_gangs], effort)
    fit = all(each.state in ("fits", "runs") for each in answers)
    alone = _explain_missing(state, pods, of_gangs, effort)
    # What the API server does not take keeps a gang as well.
    if any(
        each.explanation.reason == Reason.CLAIM_NOT_CREATED if fit else each.explanation.state in _WAITS
        for each in alone
    ):
        items = [*alone, *items]
    return items, answers


def _explain_missing(
    state: ClusterState, pods: Pods, wanted: _Wanted, effort: Effort | None
) -> list[EqualPods]:
    """Return what would become of pods that are still to be made: of those that fit, and of the others."""
    wanted = [(template, count) for template, count in wanted if count]
    if not wanted:
        return []
    refused: list[ExplainAnswer] = []

    def refuse(placer: Placer, number: int) -> None:
        # What ends a copy that was placed before is no change.
        named = {claim_key(record.obj) for record in placer.template.named.values()}
        tried = effort if number == 1 and named.isdisjoint(placer.decider.results) else None
        refused.append(explain_placed(state, placer, number, tried))

    fit = place_pods(state, pods, wanted, refuse)
    items = []
    if fit.fitting:
        nodes = tuple([each.node for each in fit.nodes])
        fits = ExplainAnswer(
            pods.subject, "fits", node=nodes[0], partial=() if refused else fit.partial, assumed=fit.assumed
        )
        items.append(EqualPods((), fit.fitting, nodes, fits))
    items += [EqualPods((), fit.asked - fit.fitting, (), replace(each, devices=())) for each in refused]
    return items
