"""Explain: why a pod or a claim waits, request by request, and the smallest changes with which it would not.

The reason is that of the operator, found by the same code: `pods.explanation` for pods, the allocator for claims that
no pod uses. The funnel is how many devices each condition leaves; near misses are what kept most of the others away.
Source: docs/reasons.md, docs/pods.md.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from dra_operator.allocator.decision import Allocated, Decider, claim_key
from dra_operator.allocator.extended import classes_by_resource
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Metadata, Pod
from dra_operator.api.names import DEFAULT_SCHEDULER, ENDED_PHASES, GATE, PENDING_ANNOTATION
from dra_operator.api.text import did_you_mean, listed, near_object, printable, shortened
from dra_operator.api.types import ResourceClaim
from dra_operator.explain import TITLES, DeviceCounts, Refusals
from dra_operator.explain.sentence import holders_text
from dra_operator.inventory.ownership import has_settled, owns
from dra_operator.inventory.taints import names_device, touches
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claim_sets import State, find_settled
from dra_operator.pods.claims import is_over, named_claims, resolve_entries
from dra_operator.pods.edits import Kind
from dra_operator.pods.explanation import EXTENDED, PodExplainer, PodExplanation, count_obstacles
from dra_operator.pods.gate import (
    CLAIM_NOT_GATED,
    HANDED_BACK,
    find_release,
    handed_back,
    has_only_gated,
    not_gated,
    read_scheduling_pod,
)
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.objects import ObjectRecord
from dra_operator.pods.pod_decision import PodDecision
from dra_operator.pods.situation import Situation
from dra_operator.pods.smallest_change import Effort, SmallestChanges, find_smallest_changes, name_claims
from dra_operator.pods.workloads import part
from dra_operator.questions.answers import (
    ABORTED,
    ALLOCATION,
    DECISION,
    NAMED_CLAIM,
    ChangeAnswer,
    Conclusion,
    DeviceAnswer,
    conclude,
    devices_of,
    find_decision_kinds,
    find_unchecked,
)
from dra_operator.questions.audit import find_deletion_cause
from dra_operator.questions.claims import (
    Use,
    find_obstructed,
    find_own_holders,
    find_unbound,
    find_unprepared,
)
from dra_operator.questions.copies import Subject, Template, find_gates, find_subject, find_template
from dra_operator.questions.gangs import GangAnswer
from dra_operator.questions.operator_lease import describe_operator
from dra_operator.questions.origin import AllocationOrigin, describe_allocation
from dra_operator.questions.placer import Placer, Quotas
from dra_operator.questions.state import ClusterState

EFFORT: Final = Effort(decisions=1000, seconds=0.4)
"""What it may cost to find changes."""
SCHEDULING_GATED: Final = "SchedulingGated"
"""Why a pod with gates is not scheduled, in the word of its condition PodScheduled."""
_MOST_NEAR: Final = 5
_CERTAIN: Final = ("", HANDED_BACK, SCHEDULING_GATED, Reason.CLAIM_NOT_CREATED)
"""Reasons that hold whatever else could be read."""
_Counts: TypeAlias = Mapping[str, tuple[tuple[Alternative, DeviceCounts], ...]]
_KINDS: Final = {
    Kind.TOLERATION: "toleration",
    Kind.SELECTOR: "selector",
    Kind.AMOUNT: "amount",
    Kind.COUNT: "count",
    Kind.NODE_CONDITION: "node condition",
    Kind.CLAIMS_ENDED: "claims end",
}


@dataclass(frozen=True, slots=True)
class NearMiss:
    """What keeps some devices away, in words, and how many."""

    text: str
    devices: int


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """A condition, how many devices it refuses, and how many are left after it.

    `name` is `published`, `class`, `selector #N` or a reason of docs/reasons.md. `claims` are those whose uses are the
    cause, as `namespace/name`; `holders` says of them what the message does: those of other namespaces by number.
    """

    name: str
    text: str
    refused: int
    left: int
    near_misses: tuple[NearMiss, ...] = ()
    claims: tuple[str, ...] = ()
    holders: str = ""


@dataclass(frozen=True, slots=True)
class RequestFunnel:
    """How many devices there are for a request, or for one of its alternatives.

    `asked` is a number, or `all`. `most_on_a_node` of those left are on one node, `node` is the first such.
    """

    claim: str
    request: str
    device_class: str
    asked: str
    steps: tuple[FunnelStep, ...]
    left: int
    most_on_a_node: int
    node: str


@dataclass(frozen=True, slots=True)
class ClaimReason:
    """Why one claim of several waits; `claim` is the entry of the pod, `name` that of the claim."""

    claim: str
    name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """Why something waits, or that it does not.

    `state` is `waits`, `fits` (nothing is in the way, on `node`), `allocated`, `broken` or `does not wait`. `searched`
    says what is known where no change is given, or not all kinds of them could be tried. `written` is what the operator
    wrote on the claims that wait, of an answer that lacks something or has no reason. `partial` has a line for each
    thing that the answer lacks, `assumed` for each that it assumes. `origin` is how it got the devices that it has.
    `rollout` says which old pods of its own owner it waits for, and what ends that. `gang` is what becomes of the gang
    that it is of, if it was asked for.
    """

    subject: str
    state: str
    reason: str = ""
    message: str = ""
    node: str = ""
    devices: tuple[DeviceAnswer, ...] = ()
    claims: tuple[ClaimReason, ...] = ()
    requests: tuple[RequestFunnel, ...] = ()
    changes: tuple[ChangeAnswer, ...] = ()
    searched: str = ""
    written: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    origin: AllocationOrigin | None = None
    rollout: str = ""
    gang: GangAnswer | None = None

    @property
    def conclusion(self) -> Conclusion:
        """Whether it does not wait."""
        is_waiting = self.state in ("waits", "broken")
        return conclude(is_yes=not is_waiting, is_partial=bool(self.partial))


def explain(state: ClusterState, subject: Subject, effort: Effort | None = EFFORT) -> ExplainAnswer:
    """Return why a pod or a claim waits; of a template or a class, why a copy would.

    `effort` is what it may cost to find changes; None finds none. Raises QuestionError.
    """
    DECISION.check(state.unread)
    effort = None if effort is None else replace(effort, is_used=lambda claim: _is_used(state, claim))
    record = find_subject(state, subject)
    if record is not None and isinstance(record.obj, ResourceClaim):
        pods = [each for each in state.objects.of_kind("Pod") if _uses(each.obj, claim_key(record.obj))]
        # Pods that cannot be read may use it as well.
        kinds = ("Pod", *_find_kinds(state, pods, record.obj))
        found = _Question(state, effort, kinds, (), _title(record)).explain_claim(record)
        found = _with_written(found, [record.obj])
        return _with_origin(found, state, {"": record}, effort)
    if record is not None and isinstance(record.obj, Pod) and record.obj.metadata.uid:
        unchecked = find_unchecked([record.body])
        kinds = _find_kinds(state, [record])
        found = _Question(state, effort, kinds, unchecked, _title(record)).explain_pod(record)
        if found.state == "waits":
            keys = {key for each in found.requests for step in each.steps for key in step.claims}
            pairs = [(key.partition("/")[0], key.partition("/")[2]) for key in keys]
            found = replace(found, rollout=find_own_holders(state, record.obj, pairs))
        if found.reason == Reason.CLAIM_NOT_CREATED and (why := _find_refusal(state, record.obj)):
            found = replace(found, message=f"{found.message}; {why}")
        claims = {
            entry: claim
            for entry, name in state.pod_deciders[Decider.KUBE_SCHEDULER]
            .explainer_of_pods.claims_of(record.obj)
            .items()
            if (claim := state.find_record("ResourceClaim", record.obj.metadata.namespace, name)) is not None
        }
        found = _with_written(found, [claim.obj for claim in claims.values()])
        return _with_origin(found, state, claims, effort, record)
    state, template = find_template(state, subject)
    kinds = template.find_kinds(state.inventory)
    question = _Question(state, effort, kinds, template.find_unchecked(), template.subject)
    return replace(question.explain_copy(template), assumed=template.assumed)


def explain_placed(state: ClusterState, placer: Placer, number: int, effort: Effort | None) -> ExplainAnswer:
    """Return why a placer could not place a copy of a pod, in the state as it is."""
    template = placer.template
    kinds = template.find_kinds(state.inventory)
    question = _Question(state, effort, kinds, (), template.name(number))
    question.is_aborted = placer.is_aborted
    return replace(question.explain_refused(placer, number), assumed=template.assumed)


def _is_used(state: ClusterState, claim: ResourceClaim) -> bool:
    """Return whether a claim is in use, or may be: a reservation for a pod that ended or is gone is none."""
    return state.consumers.find_use(claim) not in (Use.UNRESERVED, Use.ENDED, Use.GONE)


def _find_refusal(state: ClusterState, pod: Pod) -> str:
    """Return which quota does not admit the claims that are still to be created for a pod, or an empty text."""
    namespace, made = pod.metadata.namespace, {each.name for each in pod.status.resource_claim_statuses}
    names = [
        each.resource_claim_template_name or "" for each in pod.spec.resource_claims if each.name not in made
    ]
    templates = [state.find_record("ResourceClaimTemplate", namespace, name) for name in names]
    claims = [
        ResourceClaim(Metadata(namespace=namespace), each.obj.spec.spec)
        for each in templates
        if each is not None
    ]
    return Quotas(state).find_refusal(claims)


def _with_written(answer: ExplainAnswer, claims: Iterable[ResourceClaim]) -> ExplainAnswer:
    """Return an answer with what the operator wrote on claims that wait, if it knows more than the answer.

    It could read more, or its settings are in the way: that the answer has found no reason is no reason.
    """
    knows_more = bool(answer.partial) or (answer.state == "waits" and answer.reason in ("", SCHEDULING_GATED))
    texts = {
        claim.metadata.annotations.get(PENDING_ANNOTATION, "")
        for claim in claims
        if knows_more and claim.status.allocation is None
    }
    return replace(answer, written=tuple(sorted(map(printable, texts - {""}))))


def _with_origin(
    found: ExplainAnswer,
    state: ClusterState,
    claims: Mapping[str, ObjectRecord],
    effort: Effort | None,
    pod: ObjectRecord | None = None,
) -> ExplainAnswer:
    """Return an answer with what is known of the devices that there are; without an effort that is left out."""
    if effort is None or (pod is not None and is_over(pod.obj)):
        return found
    return replace(found, origin=describe_allocation(state, claims, pod))


def _find_kinds(state: ClusterState, pods: Sequence[ObjectRecord], *claims: ResourceClaim) -> tuple[str, ...]:
    """Return the optional kinds on which the decision of some claims, and of those of some pods, depends."""
    keys = {(each.obj.metadata.namespace, name) for each in pods for name in named_claims(each.obj)}
    named = [claim for key in keys if (claim := state.find_claim(key)) is not None]
    return find_decision_kinds(state.inventory, [*claims, *named], [each.body for each in pods])


@dataclass(slots=True)
class _Question:
    """What is asked, and in which state."""

    state: ClusterState
    effort: Effort | None
    kinds: tuple[str, ...]
    """The optional kinds on which it depends."""
    unchecked: tuple[str, ...]
    """What a yes lacks."""
    subject: str
    names: dict[str, str] = field(default_factory=dict)
    """The names of claims, by entry."""
    is_aborted: bool = False
    """Whether a search ran out of its budget."""

    @property
    def are_all_named(self) -> bool:
        """Whether claims of other namespaces are named: who asks may list them all. Events name none."""
        return "ResourceClaim" not in self.state.unread

    def _changes(self, found: SmallestChanges | None, namespace: str) -> tuple[ChangeAnswer, ...]:
        answers: list[ChangeAnswer] = []
        for change in () if found is None else found.changes:
            text = change.text
            if change.kind is Kind.CLAIMS_ENDED and self.are_all_named:
                keys = change.fields["ended"]
                text = text.replace(
                    name_claims(keys, namespace), name_claims(keys, namespace, are_all_named=True)
                )
            answers.append(ChangeAnswer(_KINDS[change.kind], printable(text)))
        return tuple(answers)

    def explain_pod(self, record: ObjectRecord) -> ExplainAnswer:
        """Explain a pod of the cluster."""
        pod: Pod = record.obj
        devices = tuple(self._devices_of(pod))
        if pod.status.phase in ENDED_PHASES:
            return self._answer("does not wait", f"its phase is {pod.status.phase}")
        if pod.metadata.deletion_timestamp and not pod.spec.node_name:
            return self._answer("does not wait", "it is being deleted")
        if pod.spec.node_name:
            return self._explain_bound(record, devices)
        gates = find_gates(record)
        if others := [name for name in gates if name != GATE]:
            text = f"it has scheduling gates, and is not scheduled before they are off: {', '.join(others)}"
            first = self.state.pod_deciders[Decider.OPERATOR if GATE in gates else Decider.KUBE_SCHEDULER]
            result = first.decide(pod, self.state.placement.requirements(record))
            then = (
                f"fit on node {result.node}" if isinstance(result, PodDecision) else f"wait: {result.message}"
            )
            text = f"{text}; as far as can be read it would then {then}"
            return self._answer("waits", text, reason=SCHEDULING_GATED)
        if gates:
            return self._explain_gated(record)
        if why := self._find_lost(record):
            return self._answer("waits", why, reason=HANDED_BACK)
        decider = self.state.pod_deciders[Decider.KUBE_SCHEDULER]
        explainer = decider.explainer_of_pods
        self.names = explainer.claims_of(pod)
        requirements = self.state.placement.requirements(record)
        if (extended := decider.find_extended(pod, requirements)) is not None:
            if decider.find_made(pod):
                self.names[EXTENDED] = extended.metadata.name
            elif isinstance(found := decider.decide(pod, requirements), PodDecision):
                text = f"it fits on node {found.node}, and the scheduler has not placed it"
                return self._answer("fits", text, reason=Reason.NOT_SCHEDULED.value, node=found.node)
            else:
                return self._answer_pod(explainer, pod, requirements, found, extended)
        if (found_use := self._find_obstructed(pod)) is not None:
            return self._answer(*found_use, devices=devices)
        waits = explainer.explain(pod, requirements, extended)
        if waits is None:
            return self._explain_without_claims(requirements)
        if waits.node and (why := _find_absent_scheduler(record)):
            answer = self._answer(
                "fits", f"{waits.message}: {why}", reason=waits.reason.value, node=waits.node
            )
            return replace(answer, state="waits")
        return self._answer_pod(explainer, pod, requirements, waits, extended)

    def _explain_without_claims(self, requirements: PodRequirements) -> ExplainAnswer:
        """Explain a pod that waits for no claim: devices keep it only if it asks by a name that nothing has."""
        state = self.state
        obstacles = state.pods.find_obstacles(requirements)
        names = {name for node in state.nodes.values() for name in node.status.allocatable}
        classes = classes_by_resource(record.obj for record in state.objects.of_kind("DeviceClass"))
        absent = sorted(
            name
            for name, _ in requirements.requests
            if "/" in name and name not in names and name not in classes
        )
        if absent and obstacles and not state.are_nodes_assumed:
            hint = did_you_mean(near_object(absent[0], {each for each in (*names, *classes) if "/" in each}))
            text = f"no node has the resource {listed(absent)}, and no DeviceClass serves it{hint}"
            return self._answer("waits", text, reason=Reason.NODE_UNSUITABLE.value)
        text = "it has no claims, so no device keeps it from a node"
        if state.nodes and len(obstacles) == len(state.nodes):
            text += f"; it can run on none all the same: {count_obstacles(obstacles)}"
        return self._answer("does not wait", text)

    def _explain_bound(self, record: ObjectRecord, devices: tuple[DeviceAnswer, ...]) -> ExplainAnswer:
        """Explain a pod that has a node: it waits if its kubelet cannot prepare its claims."""
        node = record.obj.spec.node_name
        text = f"it is on node {node}"
        found = find_unprepared(self.state, record)
        if found is None:
            return self._answer("does not wait", text, node=node, devices=devices)
        if isinstance(found, str):
            return self._answer("waits", f"{text}, and {found}", node=node, devices=devices)
        return self._answer("waits", f"{text}, and {found.message}", reason=found.reason.value, node=node)

    def _find_obstructed(self, pod: Pod) -> tuple[str, str] | None:
        """Return what becomes of a pod all of whose claims are allocated, if it cannot use them yet, and why."""
        claims = [self._find_claim(pod, name) for name in self.names.values()]
        if any(claim is None or claim.status.allocation is None for claim in claims):
            return None
        return find_obstructed(filter(None, claims), self.state)

    def _explain_gated(self, record: ObjectRecord) -> ExplainAnswer:
        """Explain a pod whose claims the operator decides."""
        state, pod = self.state, record.obj
        gated = read_scheduling_pod(record.body)
        claims = [claim for name in named_claims(pod) if (claim := self._find_claim(pod, name)) is not None]
        if gated is not None and (why := find_release(gated, claims)):
            operator = describe_operator(state) or "see whether the operator runs with gates on"
            text = f"its scheduling gate {GATE} is to come off, as {why}: {operator}"
            return self._answer("waits", text, reason=SCHEDULING_GATED)
        for claim in claims:
            if claim.status.allocation is None and (text := self._find_ungated(pod, claim)):
                return self._answer("waits", text, reason=CLAIM_NOT_GATED)
        requirements = state.placement.requirements(record)
        decider = state.pod_deciders[Decider.OPERATOR]
        found = decider.decide(pod, requirements)
        if isinstance(found, PodDecision):
            operator = describe_operator(state)
            text = (
                f"it fits on node {found.node}, and waits for the operator to take its scheduling gate {GATE} off"
                f"{f': {operator}' if operator else ''}"
            )
            answer = self._answer("fits", text, reason=SCHEDULING_GATED, node=found.node)
            return replace(answer, state="waits")
        explainer = decider.explainer_of_pods
        self.names = explainer.claims_of(pod)
        extended = decider.find_extended(pod, requirements)
        return self._answer_pod(explainer, pod, requirements, found, extended)

    def _find_lost(self, record: ObjectRecord) -> str:
        """Return why a pod waits that the operator let go, and that lost its devices; empty of another one."""
        found = read_scheduling_pod(record.body)
        if found is None or found.let_go is None or found.unschedulable is None:
            return ""
        claims = [self._find_claim(record.obj, name) for name in found.claims]
        if all(claim is None or claim.status.allocation is not None for claim in claims):
            return ""
        return handed_back(found.unschedulable, found.let_go.node)

    def _find_claim(self, pod: Pod, name: str) -> ResourceClaim | None:
        return self.state.find_claim((pod.metadata.namespace, name))

    def _find_ungated(self, pod: Pod, claim: ResourceClaim) -> str:
        """Return why the operator does not decide a claim with a gated pod; empty if it does."""
        users = [
            each
            for each in self.state.objects.of_kind("Pod")
            if each.obj.spec.resource_claims and _names(each.obj, claim_key(claim))
        ]
        if has_only_gated(claim, filter(None, [read_scheduling_pod(each.body) for each in users])):
            return ""
        return not_gated(claim, sorted({each.obj.metadata.name for each in users} - {pod.metadata.name}))

    def explain_claim(self, record: ObjectRecord) -> ExplainAnswer:
        """Explain a claim of the cluster: by the first pod that waits for it, if there is one."""
        claim: ResourceClaim = record.obj
        key = claim_key(claim)
        settled = find_settled(record, self.state.broken if claim.status.allocation else {})
        if settled is not None and settled.allocation is not None:
            devices = tuple(devices_of("", settled.allocation))
            if claim.metadata.deletion_timestamp:
                text, action, _ = find_deletion_cause(self.state, claim)
                return self._answer("waits", f"it is being deleted: {text}; {action}", devices=devices)
            word = "broken" if settled.state is State.BROKEN else "allocated"
            message = settled.message or ", ".join(find_unbound(claim, self.state.now))
            return self._answer(word, message, devices=devices)
        pods = [each for each in self.state.objects.of_kind("Pod") if _uses(each.obj, key)]
        # A claim that the operator leaves alone is allocated for the pods that name it all the same.
        if settled is not None and (claim.metadata.deletion_timestamp or not pods):
            return self._answer("does not wait", settled.message)
        for pod in pods:
            explained = self.explain_pod(pod) if pod.obj.metadata.uid else None
            if explained is not None and explained.state == "waits":
                return self._answer_with_pod(key[1], pod.obj, explained)
            if explained is not None and explained.state == "fits":
                return replace(explained, devices=())
        is_of_pod = bool(pods) or claim.metadata.is_made_for_pods
        decider = Decider.KUBE_SCHEDULER if is_of_pod else Decider.OPERATOR
        answer = self._explain_alone(claim, decider)
        if answer.state != "fits":
            return answer
        message = f"{answer.message}{self._find_settling(answer.devices)}"
        return replace(answer, reason=Reason.NOT_SCHEDULED.value, message=message)

    def _find_settling(self, devices: Iterable[DeviceAnswer]) -> str:
        """Return which rules own some devices that the operator does not use yet, as it writes on rules."""
        found = [
            rule.metadata.name
            for rule in self.state.inventory.rules.values()
            if owns(rule)
            and rule.metadata.uid
            and not has_settled(rule)
            and any(
                touches(rule, each.driver, each.pool) and names_device(rule, each.device) for each in devices
            )
        ]
        if not found:
            return ""
        return f"; the operator uses the devices of DeviceTaintRule {listed(found)} once it has settled"

    def _answer_with_pod(self, name: str, pod: Pod, explained: ExplainAnswer) -> ExplainAnswer:
        """Return why a claim waits with its pod: by its own reason, or else by that of the pod."""
        own = next((each for each in explained.claims if each.name == name), None)
        if own is None:
            message = printable(f'pod "{pod.metadata.name}" waits: {explained.message}')
            return replace(
                explained,
                subject=self.subject,
                message=message,
                devices=(),
                claims=(),
                requests=(),
                changes=(),
            )
        return self._answer(
            "waits",
            own.message,
            reason=own.reason,
            requests=tuple([each for each in explained.requests if each.claim == own.claim]),
            changes=explained.changes,
            searched=explained.searched,
        )

    def explain_copy(self, template: Template) -> ExplainAnswer:
        """Explain what a copy of a template would wait for."""
        if template.pod is None:
            (claim,) = template.build_claims(1).values()
            if refused := Quotas(self.state).find_refusal(template.build_created(1)):
                return self._answer("waits", refused, reason=Reason.CLAIM_NOT_CREATED.value)
            return self._explain_alone(claim, template.decider)
        placer = Placer(self.state, template, self.state.new_decider(), Quotas(self.state))
        with self.state.trial():
            placed = placer.place(1)
        self.is_aborted = placer.is_aborted
        if placed is not None:
            text = f"it fits on node {placed.node}"
            return self._answer("fits", text, node=placed.node, devices=placed.devices)
        return self.explain_refused(placer, 1)

    def explain_refused(self, placer: Placer, number: int) -> ExplainAnswer:
        """Explain a copy of a pod that a placer could not place, in the state as it is."""
        template = placer.template
        if placer.refusal:
            return self._answer("waits", placer.refusal, reason=Reason.CLAIM_NOT_CREATED.value)
        self.names = {entry: record.obj.metadata.name for entry, record in template.claims.items()}
        item = placer.build_set(number)
        requirements, extended = placer.decider.requirements(item), placer.decider.find_special(item)
        found = placer.explain(number)
        return self._answer_pod(*placer.decider.explainer_of(item), requirements, found, extended)

    def _explain_alone(self, claim: ResourceClaim, decider: Decider) -> ExplainAnswer:
        """Explain a claim by itself, whoever uses it."""
        allocator = self.state.allocators[decider]
        decision = allocator.allocate([claim], decider=decider)
        if isinstance(decision, Allocated):
            devices = tuple(devices_of("", decision.results[0]))
            return self._answer(
                "fits", f"it fits on node {decision.node}", node=decision.node, devices=devices
            )
        explainer = self.state.explainers[decider]
        found = explainer.explain([claim], decision, decider=decider)[0]
        counts = {"": explainer.count_devices(claim, decider=decider)}
        requests = build_funnels(counts, claim.metadata.namespace, are_all_named=self.are_all_named)
        changes = None
        if self.effort is not None:
            situation = Situation(
                {claim.metadata.name: claim},
                allocator,
                decider,
                find_claim=self.state.find_claim,
                kept=frozenset((claim_key(claim),)),
            )
            changes = find_smallest_changes(situation, self.effort)
        return self._answer(
            "waits",
            found.message,
            reason=found.reason.value,
            requests=requests,
            changes=self._changes(changes, claim.metadata.namespace),
            searched=_searched(changes),
        )

    def _answer_pod(
        self,
        explainer: PodExplainer,
        pod: Pod,
        requirements: PodRequirements,
        found: PodExplanation,
        extended: ResourceClaim | None = None,
    ) -> ExplainAnswer:
        if found.node:
            return self._answer("fits", found.message, reason=found.reason.value, node=found.node)
        counts = explainer.count_devices(pod, requirements, extended)
        requests = build_funnels(counts, pod.metadata.namespace, are_all_named=self.are_all_named)
        # Nobody can edit the requests that kube-scheduler makes of extended resources.
        effort = None if extended is not None else self.effort
        changes = None if effort is None else explainer.find_changes(pod, requirements, effort)
        claims = [
            ClaimReason(entry, self.names.get(entry, ""), each.reason.value, each.message)
            for entry, each in found.claims.items()
        ]
        return self._answer(
            "waits",
            found.message,
            reason=found.reason.value,
            claims=tuple(claims),
            requests=requests,
            changes=self._changes(changes, pod.metadata.namespace),
            searched=_searched(changes),
        )

    def _devices_of(self, pod: Pod) -> Iterator[DeviceAnswer]:
        for entry in resolve_entries(pod, self.state.find_claim, self.state.has_template):
            if entry.claim is not None and entry.claim.status.allocation is not None:
                yield from devices_of(entry.name, entry.claim.status.allocation)

    def _answer(self, state: str, message: str, *, reason: str = "", **fields: Any) -> ExplainAnswer:
        """Return an answer with other fields by their names, and what it lacks."""
        partial = self._find_missing(state, reason)
        if state == "waits" and (self.is_aborted or reason == Reason.SEARCH_ABORTED):
            partial = (*partial, ABORTED)
        return ExplainAnswer(self.subject, state, reason, printable(message), partial=partial, **fields)

    def _find_missing(self, state: str, reason: str) -> tuple[str, ...]:
        """Return what an answer lacks. What a pod, or a claim, says of itself lacks nothing."""
        unread = self.state.unread
        if state in ("allocated", "broken"):
            return ALLOCATION.find_missing(unread)
        if reason == Reason.CLAIM_NOT_FOUND:
            return NAMED_CLAIM.find_missing(unread)
        if state == "does not wait" or (state == "waits" and reason in _CERTAIN):
            return ()
        missing = DECISION.find_missing(unread, self.kinds)
        # A no needs nothing of what a yes leaves out.
        return missing if state == "waits" else (*missing, *self.unchecked)


def build_funnels(
    counts: _Counts, namespace: str, *, are_all_named: bool = False
) -> tuple[RequestFunnel, ...]:
    """Return how many devices each condition leaves, for each alternative of each request, by claim.

    `namespace` is that of the claims; holders of others are named to who may list them.
    """
    return tuple(
        [
            RequestFunnel(
                claim,
                item.name,
                item.device_class.metadata.name,
                "all" if item.count is None else str(item.count),
                tuple(_steps(item, each, "" if are_all_named else namespace, namespace)),
                each.figures.left,
                each.most_on_a_node,
                each.node,
            )
            for claim, pairs in counts.items()
            for item, each in pairs
        ]
    )


def _steps(item: Alternative, counts: DeviceCounts, only: str, namespace: str) -> Iterator[FunnelStep]:
    """Yield the steps of one alternative; holders of other namespaces than `only`, if that is given, are counted."""
    figures = counts.figures
    yield FunnelStep("published", "published", 0, figures.published)
    left = figures.in_class
    name = item.device_class.metadata.name
    yield FunnelStep("class", f"in class {name}", figures.published - left, left, _near(counts.of_class()))
    for number in range(len(item.key.content.request_selectors)):
        refusals = counts.of_stage(number)
        left -= refusals.count
        text = f"match selector #{number}"
        yield FunnelStep(f"selector #{number}", text, refusals.count, left, _near(refusals))
    for reason, title in TITLES.items():
        if reason in counts.refusals:
            refusals = counts.refusals[reason]
            left -= refusals.count
            keys = counts.holders.get(reason, ())
            claims = tuple(sorted("/".join(key) for key in keys))
            holders = _holders(keys, only, namespace) if keys else ""
            yield FunnelStep(reason.value, title, refusals.count, left, _near(refusals), claims, holders)


def _holders(claims: Collection[ClaimKey], only: str, namespace: str) -> str:
    if only:
        number, names = holders_text(claims, only)
        return names or number.removeprefix("by ")
    own = sorted(name for space, name in claims if space == namespace)
    return ", ".join(shortened([*own, *sorted("/".join(key) for key in claims if key[0] != namespace)]))


def _near(refusals: Refusals) -> tuple[NearMiss, ...]:
    """Return what keeps most of some devices away, and how many others there are."""
    ranked = sorted(refusals.details.items(), key=lambda item: (-item[1], item[0]))
    found = [NearMiss(printable(text), count) for text, count in ranked[:_MOST_NEAR]]
    rest = sum(count for _, count in ranked[_MOST_NEAR:])
    return (*found, *([NearMiss("others", rest)] if rest else []))


def _searched(found: SmallestChanges | None) -> str:
    if found is None:
        return ""
    if not found.is_complete:
        return f"searched {found.kinds} of {len(Kind)} kinds of change"
    return "" if found.changes else found.text.removeprefix("; ")


def _find_absent_scheduler(record: ObjectRecord) -> str:
    """Return that no scheduler has looked at a pod that names one of its own, or nothing."""
    name = record.obj.spec.scheduler_name
    if name in ("", DEFAULT_SCHEDULER):
        return ""
    conditions = part(record.body, "status").get("conditions") or ()
    if any(each.get("type") == "PodScheduled" for each in conditions):
        return ""
    return f'its spec.schedulerName is "{name}", and no scheduler has looked at it: see whether that one runs'


def _names(pod: Pod, claim: tuple[str, str]) -> bool:
    return pod.metadata.namespace == claim[0] and claim[1] in named_claims(pod)


def _uses(pod: Pod, claim: tuple[str, str]) -> bool:
    return not is_over(pod) and _names(pod, claim)


def _title(record: ObjectRecord) -> str:
    metadata = record.obj.metadata
    return f'{type(record.obj).__name__} "{metadata.namespace}/{metadata.name}"'
