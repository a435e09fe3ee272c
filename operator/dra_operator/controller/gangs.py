"""Gangs of the cluster: which pods belong together, how many they have to be, and how far each of them is.

Level-triggered: all follows from what is stored of the pods, their claims and their PodGroup. What is done for a gang
`GatedPods` does; why one waits is found out here, once for all its pods. Source: docs/gangs.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from dra_operator.allocator.decision import Decider, Explanation
from dra_operator.allocator.extended import extended_resources
from dra_operator.allocator.reasons import Reason
from dra_operator.api.names import (
    ENDED_PHASES,
    GANG_ANNOTATION,
    GANG_MATCH_ANNOTATION,
    GANG_SIZE_ANNOTATION,
    GANG_TOPOLOGY_ANNOTATION,
    GATE,
    LET_GO_ANNOTATION,
    OPT_OUT_LABEL,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.controller.claims import ClaimStore, Key, is_pending, pod_use
from dra_operator.pods.claims import resolve_entries
from dra_operator.pods.cluster_pods import ClusterPods, WaitingPod
from dra_operator.pods.explanation import PodExplainer, PodExplanation
from dra_operator.pods.gang_assignment import Assignment, Gang, GangAssigner, GangMatch, Member
from dra_operator.pods.gate import read_mark
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.objects import ObjectRecord, Place
from dra_operator.pods.pod_decision import PodDecider
from dra_operator.pods.workloads import part
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.gang_members import find_common, natural_order, read_match

GROUPS: Final = "PodGroup"
MOST_MEMBERS: Final = 256
"""So many pods a gang may have that the operator decides."""
AGAIN_SECONDS: Final = 10.0
"""For so long the answer about a gang of which nothing has changed is told to all its pods, whatever else changes."""
_SAID: Final = (GANG_SIZE_ANNOTATION, GANG_MATCH_ANNOTATION, GANG_TOPOLOGY_ANNOTATION)
_NOWHERE: Final = Place("", 0, 0)
GangKey: TypeAlias = tuple[str, str]
"""The namespace of a gang, and `podgroup/NAME`, or `gang/` with the value of its annotation."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """What is stored of a pod of a gang; `let_go_node` is the node that an operator let it go for."""

    key: Key
    uid: str
    node: str
    let_go_node: str
    is_gated: bool
    foreign_gate: str
    """A gate of somebody else that it has."""
    has_succeeded: bool
    is_nominated: bool
    claims: frozenset[str]
    owner: str
    """The kind of its controller."""
    said: Mapping[str, str]
    """Its annotations about gangs."""

    @property
    def is_held(self) -> bool:
        """Whether it has a gate, and is not nominated, which is the last step before ours comes off."""
        return not self.is_nominated and (self.is_gated or bool(self.foreign_gate))


@dataclass(frozen=True, slots=True)
class GangStatus:
    """How far a gang is: its pods by what has become of them, in order of their names.

    `let_go` are those that an operator let go and that have no node yet, `bound` those with one, `succeeded` those that
    have done their work; `lost` were let go and have lost their devices; `others` run, and `ungated` wait for
    kube-scheduler: these never were the operator's. `problem` says why it cannot be decided. `is_known` is False while
    its PodGroup is not there, or was not listed yet.
    """

    key: GangKey
    size: int = 0
    gated: tuple[MemberRecord, ...] = ()
    let_go: tuple[MemberRecord, ...] = ()
    bound: tuple[MemberRecord, ...] = ()
    succeeded: tuple[MemberRecord, ...] = ()
    lost: tuple[MemberRecord, ...] = ()
    others: tuple[MemberRecord, ...] = ()
    ungated: tuple[MemberRecord, ...] = ()
    match: GangMatch | None = None
    topology: str = ""
    problem: str = ""
    is_known: bool = True

    @property
    def title(self) -> str:
        """What messages call it."""
        kind, _, name = self.key[1].partition("/")
        return f'{"PodGroup" if kind == "podgroup" else "gang"} "{self.key[0]}/{name}"'

    @property
    def missing(self) -> int:
        """How many pods it lacks that are gated, were let go, are bound or have succeeded."""
        there = (self.gated, self.let_go, self.bound, self.succeeded)
        return max(0, self.size - sum(map(len, there)))

    @property
    def is_begun(self) -> bool:
        """Whether one of its pods was let go: then the gated ones are decided one by one, beside the others."""
        return bool(self.let_go or self.bound or self.succeeded)

    @property
    def is_incomplete(self) -> bool:
        """Whether its gated pods wait for others, or for its PodGroup."""
        return bool(self.gated) and (not self.is_known or bool(not self.problem and self.waits_for))

    @property
    def waits_for(self) -> str:
        """Why none of its gated pods is decided now; empty if they are."""
        if self.problem or self.is_begun:
            return self.problem
        if not self.missing:
            # Of a PodGroup kube-scheduler looks at no pod while one has a gate.
            others = self.ungated if self.key[1].startswith("podgroup/") else ()
            held = next((each for each in (*self.gated, *others) if each.foreign_gate), None)
            return f'{self.title}: pod "{held.key[1]}" has the gate {held.foreign_gate}' if held else ""
        owners = {each.owner for each in self.gated}
        text = self.missing_pods(self.size - self.missing)
        if owners == {"StatefulSet"}:
            text += ": a StatefulSet makes one after the other, unless its podManagementPolicy is Parallel"
        if self.ungated:
            text += f"; pods without the gate {GATE} do not count: {len(self.ungated)}"
        return text

    def missing_pods(self, there: int) -> str:
        """Return the sentence about a gang of which so many pods are there."""
        missing = self.size - there
        return f"{self.title} has {there} of {self.size} pods, and {missing} {'is' if missing == 1 else 'are'} missing"


@dataclass(slots=True)
class Gangs:
    """The gangs that pods and PodGroups make, and what decides them.

    Pods that failed or are being deleted do not count. `explainer` is for pods that kube-scheduler decides, `decider`
    for those that our gate holds. `clock` is monotonic, in seconds.
    """

    cluster: ClusterPods
    claims: ClaimStore
    explainer: PodExplainer
    decider: PodDecider
    clock: Callable[[], float]
    _members: dict[Key, tuple[GangKey, MemberRecord]] = field(default_factory=dict)
    _gangs: dict[GangKey, set[Key]] = field(default_factory=dict)
    _groups: dict[GangKey, Mapping[str, Any]] = field(default_factory=dict)
    _statuses: dict[GangKey, tuple[int, GangStatus | None]] = field(default_factory=dict)
    """How far gangs were by the claims of a version."""
    _answers: dict[GangKey, tuple[object, float, PodExplanation | None]] = field(default_factory=dict)
    """Why gangs wait, by what that depended on, and since when that is so."""
    _holds: dict[GangKey, str | None] = field(default_factory=dict)
    """Why kube-scheduler does not look at gangs, where it was asked for."""

    # --- taking in

    def observe(self, delta: Delta) -> frozenset[Key]:
        """Take in a pod or a PodGroup, and return the pods of the gangs that it may have changed."""
        key = delta.namespace, delta.name
        if delta.kind == GROUPS:
            gang = delta.namespace, f"podgroup/{delta.name}"
            if delta.body is None:
                self._groups.pop(gang, None)
            else:
                self._groups[gang] = delta.body
            self._forget_answers(gang)
            return frozenset(self._gangs.get(gang, ()))
        old = self._members.get(key)
        new = None if delta.body is None else _read_member(delta.body)
        if new == old:
            return frozenset()
        touched = set[Key]()
        if old is not None:
            touched |= self._remove(key, old[0])
        if new is not None:
            self._members[key] = new
            members = self._gangs.setdefault(new[0], set())
            members.add(key)
            touched |= members
            self._forget_answers(new[0])
        return frozenset(touched)

    def _remove(self, key: Key, gang: GangKey) -> set[Key]:
        """Forget a pod of a gang, and return the others."""
        del self._members[key]
        members = self._gangs[gang]
        members.discard(key)
        self._forget_answers(gang)
        if not members:
            del self._gangs[gang]
        return members

    def _forget_answers(self, gang: GangKey) -> None:
        self._statuses.pop(gang, None)
        self._answers.pop(gang, None)
        self._holds.pop(gang, None)

    # --- what there is

    def key_of(self, pod: Key) -> GangKey | None:
        """Return the gang that a pod names; None if it names none."""
        found = self._members.get(pod)
        return None if found is None else found[0]

    def members(self, key: GangKey) -> list[Key]:
        """Return the pods of a gang, sorted."""
        return sorted(self._gangs.get(key, ()))

    def find(self, key: Key) -> GangStatus | None:
        """Return the gang of a pod; None if it has none, or one that asks for nothing of all its pods."""
        found = self._members.get(key)
        return None if found is None else self.status(found[0])

    def status(self, key: GangKey) -> GangStatus | None:
        """Return how far a gang is; None if it asks for nothing of all its pods."""
        known = self._statuses.get(key)
        if known is None or known[0] != self.claims.version:
            known = self._statuses[key] = self.claims.version, self._find_status(key)
        return known[1]

    def find_hold(self, pod: Key) -> str | None:
        """Return why kube-scheduler does not look at a pod: another one of its PodGroup is gated; None if it may.

        Source: kube-scheduler, `PriorityQueue.runPreEnqueuePlugins` of an entity.
        """
        key = self.key_of(pod)
        if key is None or not key[1].startswith("podgroup/"):
            return None
        if key not in self._holds:
            held = [each[1] for each in self.members(key) if self._members[each][1].is_held]
            why = f"kube-scheduler looks at no pod of {GangStatus(key).title} while one has a gate: "
            self._holds[key] = why + held[0] if held else None
        return self._holds[key]

    def _find_status(self, key: GangKey) -> GangStatus | None:
        members = [self._members[each][1] for each in self._gangs.get(key, ())]
        members.sort(key=lambda each: natural_order(each.key[1]))
        found, group = self._sort(GangStatus(key), members), self._groups.get(key)
        if group is None and key[1].startswith("podgroup/"):
            why = f"{found.title} is not there, or may not be listed"
            return replace(found, problem=why, is_known=False)
        try:
            return self._read_spec(found, group or {}, members)
        except QuestionError as error:
            return replace(found, problem=str(error))

    def _read_spec(
        self, status: GangStatus, group: Mapping[str, Any], members: Sequence[MemberRecord]
    ) -> GangStatus | None:
        """Return a gang with what its pods and its PodGroup ask for; None if that is nothing. Raises QuestionError."""
        spec = part(group, "spec")
        try:
            sizes = self._said(status, members, GANG_SIZE_ANNOTATION)
        except QuestionError:
            if not status.is_begun:
                raise
            # Those that were let go had theirs: it matters no more.
            sizes = str(len(members))
        if group and not part(spec, "schedulingPolicy").get("gang") and not sizes:
            return None
        match = read_match(status.title, self._said(status, members, GANG_MATCH_ANNOTATION))
        constraints = part(spec, "schedulingConstraints").get("topology") or ()
        topology = next((str(each.get("key")) for each in constraints), "")
        topology = topology or self._said(status, members, GANG_TOPOLOGY_ANNOTATION)
        least = str(part(spec, "schedulingPolicy", "gang").get("minCount") or "")
        size = _read_size(status.title, sizes or least)
        found = replace(status, size=size, match=match, topology=topology)
        return replace(found, problem=self._find_problem(found, len(members), spec))

    def _find_problem(self, status: GangStatus, number: int, spec: Mapping[str, Any]) -> str:
        """Return why a gang of so many pods is not decided; empty if it may be."""
        if spec.get("parentCompositePodGroupName"):
            return f"{status.title}: spec.parentCompositePodGroupName: groups of groups are not decided"
        if status.is_begun:
            return ""
        if (number := max(number, status.size)) > MOST_MEMBERS:
            return f"{status.title} has {number} pods: more than {MOST_MEMBERS} are not decided together"
        for member in status.gated:
            for claim in self.claims.find_all(member.key[0], member.claims):
                if claim.metadata.labels.get(OPT_OUT_LABEL) == "false":
                    where = f'claim "{claim.metadata.name}" of pod "{member.key[1]}"'
                    label = f'has the label {OPT_OUT_LABEL}: "false"'
                    return f"{status.title}: {where} {label}: take the label off, or the gates off all pods"
        return ""

    def _said(self, status: GangStatus, members: Sequence[MemberRecord], name: str) -> str:
        """Return what the pods of a gang, or its PodGroup, say by an annotation. Raises QuestionError."""
        of_group = part(self._groups.get(status.key, {}), "metadata", "annotations")
        return find_common(status.title, name, (of_group, *[each.said for each in members]))

    def _sort(self, status: GangStatus, members: Sequence[MemberRecord]) -> GangStatus:
        found: dict[str, list[MemberRecord]] = {}
        for each in members:
            found.setdefault(self._state_of(each), []).append(each)
        sorted_members: dict[str, Any] = {state: tuple(those) for state, those in found.items()}
        return replace(status, **sorted_members)

    def _state_of(self, member: MemberRecord) -> str:
        """Return the field of `GangStatus` that a pod stands in."""
        if member.is_gated:
            return "gated"
        if not member.let_go_node:
            return "others" if member.node else "ungated"
        if member.has_succeeded:
            return "succeeded"
        if member.node:
            return "bound"
        claims = self.claims.find_all(member.key[0], member.claims)
        is_lost = any(map(is_pending, claims)) if claims else not member.is_nominated
        return "lost" if is_lost else "let_go"

    # --- deciding

    @property
    def assigner(self) -> GangAssigner:
        """What decides a gang, and is made anew for each: in the time that a claim may take as well."""
        allocator = self.decider.allocator
        found = GangAssigner(dict.fromkeys(Decider, self.decider), self._read_requirements)
        if (seconds := allocator.limits.seconds) is not None:
            found.until = allocator.clock() + seconds
        return found

    def _read_requirements(self, pod: ObjectRecord) -> PodRequirements:
        key = pod.obj.metadata.namespace, pod.obj.metadata.name
        return (self.cluster.gated.get(key) or self.cluster.waiting[key]).requirements

    def build(self, status: GangStatus, waiting: Sequence[MemberRecord]) -> Gang | Explanation:
        """Return a gang of those that have a node, or were let go for one, and of some that wait; or why it is none."""
        members = []
        for each in (*status.bound, *status.let_go, *status.others, *waiting):
            pod = self.cluster.gated.get(each.key) or self.cluster.waiting.get(each.key)
            node = each.node or each.let_go_node
            if not node and pod is None:
                return Explanation(
                    Reason.CLAIM_NOT_CREATED, f'pod "{each.key[1]}" of {status.title} cannot be read'
                )
            found = self._build_member(each, pod, node)
            if found.problem is not None:
                text = f'pod "{found.name}" of {status.title}: {found.problem.message}'
                return Explanation(found.problem.reason, text)
            members.append(found)
        return Gang(status.title, tuple(members), status.match, status.topology)

    def _build_member(self, member: MemberRecord, pod: WaitingPod | None, node: str) -> Member:
        claims = self.claims.find_all(member.key[0], member.claims)
        problem = None
        if pod is not None and not node:
            entries = list(resolve_entries(pod.pod, self.decider.find_claim, self.decider.has_template))
            problem = next((each.problem for each in entries if each.problem is not None), None)
            if extended_resources(pod.pod):
                text = "it asks for devices by the name of a resource, which is not decided for gangs"
                problem = Explanation(Reason.NOT_SCHEDULED, text)
        return Member(
            member.key[1],
            ObjectRecord(_NOWHERE, {}, None if pod is None else pod.pod),
            tuple([each for each in claims if each.status.allocation is None]),
            tuple([each for each in claims if each.status.allocation is not None]),
            Decider.OPERATOR if member.is_gated else Decider.KUBE_SCHEDULER,
            problem,
            node,
        )

    # --- why one waits

    def explain(self, key: Key) -> PodExplanation | None:
        """Return why the gang of a waiting pod waits, found out once for all its pods in one state.

        `node` is set if nothing is in the way.
        None if that is not known, or nothing is said of all: then the pod is explained by itself.
        """
        found = self._members.get(key)
        status = None if found is None else self.status(found[0])
        if found is None or status is None or status.problem:
            return None
        version, now = self._answer_version(), self.clock()
        known = self._answers.get(status.key)
        if known is None or (known[0] != version and now >= known[1] + AGAIN_SECONDS):
            known = version, now, self._explain(status, self._waiting(found[0]))
            self._answers[status.key] = known
        return known[2]

    def is_outdated(self, key: Key) -> bool:
        """Return whether something has changed since the answer about the gang of a pod was found."""
        found = self._members.get(key)
        known = None if found is None else self._answers.get(found[0])
        return known is not None and known[0] != self._answer_version()

    def _answer_version(self) -> object:
        return self.version(), self.claims.version

    def version(self) -> object:
        """Return what every answer depends on."""
        allocator = self.decider.allocator
        return allocator.inventory.version, allocator.ledger.lasting_version, self.cluster.version

    def _waiting(self, key: GangKey) -> list[MemberRecord]:
        """Return the pods of a gang that wait for a decision, in order."""
        members = [self._members[each][1] for each in self._gangs[key]]
        waiting = [each for each in members if not (each.node or each.let_go_node or each.has_succeeded)]
        return sorted(waiting, key=lambda each: natural_order(each.key[1]))

    def _explain(self, status: GangStatus, waiting: Sequence[MemberRecord]) -> PodExplanation | None:
        fixed = len(status.bound) + len(status.let_go) + len(status.others)
        if fixed + len(waiting) < status.size:
            return PodExplanation(Reason.NOT_SCHEDULED, status.missing_pods(fixed + len(waiting)))
        gang = self.build(status, waiting)
        if isinstance(gang, Explanation):
            return PodExplanation(gang.reason, gang.message)
        assigner, total = self.assigner, len(gang.members)
        found = assigner.assign(gang)
        if isinstance(found, Assignment):
            text = f"all {total} pods of {status.title} fit together on {_places(found, fixed)}"
            if status.gated:
                text += f", and the gate {GATE} holds {len(status.gated)} of them yet"
            else:
                text += ", and the scheduler, which places them one by one, has not"
            return PodExplanation(Reason.NOT_SCHEDULED, text, node=found.nodes[fixed])
        most, best, undecided = (fixed, None, found) if found else assigner.find_most(gang, fixed)
        if undecided is not None:
            text = (
                f"whether all {total} pods of {status.title} fit together is not known: {undecided.message}"
            )
            return PodExplanation(Reason.SEARCH_ABORTED, text)
        why = self._explain_next(gang.members[most], best)
        failing = gang.members[most].name
        text = f"{most} of {total} pods of {status.title} fit together; the next, {failing}, does not: {why.message}"
        return PodExplanation(why.reason, text)

    def _explain_next(self, member: Member, beside: Assignment | None) -> Explanation:
        """Return why a member does not fit beside those that do."""
        pod = self.cluster.gated.get(self._key_of(member)) or self.cluster.waiting[self._key_of(member)]
        explainer = replace(self.explainer, decider=member.decider)
        ledger = self.decider.allocator.ledger
        with ledger.trial():
            for key, result in ({} if beside is None else beside.results).items():
                ledger.assume(*key, result)
            found = explainer.explain(pod.pod, pod.requirements)
        if found is not None and not found.node:
            return Explanation(found.reason, found.message)
        text = "it fits by itself, but not together with the others"
        return Explanation(Reason.CLAIMS_DO_NOT_FIT_TOGETHER, text)

    @staticmethod
    def _key_of(member: Member) -> Key:
        metadata = member.pod.obj.metadata
        return metadata.namespace, metadata.name


def _read_size(subject: str, text: str) -> int:
    """Return how many pods a gang has. Raises QuestionError."""
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        why = f"{text!r} is no number from 1 on" if text else "missing"
        raise QuestionError(
            f"{subject}: {GANG_SIZE_ANNOTATION}: {why}: it says how many pods are decided together"
        )
    return int(text)


def _places(found: Assignment, fixed: int) -> str:
    nodes = sorted({*found.nodes[fixed:]})
    return f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"


def _read_member(body: Mapping[str, Any]) -> tuple[GangKey, MemberRecord] | None:
    """Return the gang of a pod as on the wire, and what matters of it; None if it has none, or is over."""
    metadata, spec, status = part(body, "metadata"), part(body, "spec"), part(body, "status")
    said = part(metadata, "annotations")
    group = part(spec, "schedulingGroup").get("podGroupName")
    if not (group or said.get(GANG_ANNOTATION)):
        return None
    has_succeeded = status.get("phase") == "Succeeded"
    if metadata.get("deletionTimestamp") or (status.get("phase") in ENDED_PHASES and not has_succeeded):
        return None
    namespace, uid = str(metadata.get("namespace", "")), str(metadata.get("uid", ""))
    name = f"podgroup/{group}" if group else f"gang/{said[GANG_ANNOTATION]}"
    mark = read_mark(str(said.get(LET_GO_ANNOTATION, "")), uid)
    gates = [str(each.get("name")) for each in spec.get("schedulingGates") or ()]
    owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    record = MemberRecord(
        (namespace, str(metadata["name"])),
        uid,
        str(spec.get("nodeName") or ""),
        "" if mark is None else mark.node,
        GATE in gates,
        next((each for each in gates if each != GATE), ""),
        has_succeeded,
        bool(status.get("nominatedNodeName")),
        pod_use(body).claims,
        str(owners[0].get("kind")) if owners else "",
        {name: str(said[name]) for name in _SAID if said.get(name)},
    )
    return (namespace, name), record
