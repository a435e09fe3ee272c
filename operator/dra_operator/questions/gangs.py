"""Gangs: which pods belong together, whether all of them fit at once, and if not, how many do and what the next lacks.

A gang is a PodGroup, pods with one annotation, the pods of a workload, or copies. `pods.gang_assignment` decides.
Source: docs/gangs.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.allocator.decision import Explanation, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claim_sets import ClaimSet, SetDecider
from dra_operator.pods.explanation import explain_no_node
from dra_operator.pods.gang_assignment import Assignment, Gang, GangAssigner, Member, NoDecision
from dra_operator.pods.pod_decision import PodDecision
from dra_operator.pods.smallest_change import Effort
from dra_operator.questions.answers import (
    DECISION,
    ChangeAnswer,
    Conclusion,
    DeviceAnswer,
    QuestionError,
    conclude,
    devices_of,
    find_decision_kinds,
    find_unchecked,
)
from dra_operator.questions.copies import Subject
from dra_operator.questions.gang_members import NO_GROUP_DEVICES, find_all_gangs, find_gang
from dra_operator.questions.state import ClusterState

MOST_VALUES: Final = 10
_EFFORT: Final = Effort(decisions=50, seconds=1.0)
_ONE_BY_ONE: Final = "kube-scheduler, which places them one by one and revisits no choice, {} not find it"


@dataclass(frozen=True, slots=True)
class GangPod:
    """A pod of a gang with its node, and the devices that it has or would get; `is_bound` if it runs there."""

    name: str
    node: str
    is_bound: bool = False
    devices: tuple[DeviceAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueAnswer:
    """How many of a gang's pods would fit with one value of its topology label or matched attribute.

    They are the first ones; None if that was not found out.
    """

    value: str
    fitting: int | None


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """Whether the pods of a gang fit all at once.

    `state` is `fits`, `waits`, `undecided`, or `runs` if all are bound. `fitting` is the largest number of first pods
    that fit together, `at_least` how many have to. `pods` are those that fit, with node and devices; `value` is what
    they have in common. `reason` (of docs/reasons.md) and `message` are of `failing`, the first that does not fit
    beside them. `values` are others that were tried, `changes` what would help, and `searched` says if there may be
    others; `scheduler` says what kube-scheduler makes of it. `partial` and `assumed` are as in FitAnswer.
    """

    subject: str
    state: str
    size: int
    fitting: int
    at_least: int
    pods: tuple[GangPod, ...] = ()
    value: str = ""
    failing: str = ""
    reason: str = ""
    message: str = ""
    scheduler: str = ""
    values: tuple[ValueAnswer, ...] = ()
    changes: tuple[ChangeAnswer, ...] = ()
    searched: str = ""
    partial: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether as many fit as have to."""
        is_open = self.state == "undecided" or bool(self.partial)
        return conclude(is_yes=self.state in ("fits", "runs"), is_partial=is_open)


# --- what becomes of them


def explain_gang(state: ClusterState, subject: Subject, copies: int | None = None) -> GangAnswer:
    """Return whether the pods of a gang fit all at once, and why not. Raises QuestionError."""
    DECISION.check(state.unread)
    state, gang = find_gang(state, subject, copies)
    return answer_gang(state, gang)


def answer_gang(state: ClusterState, gang: Gang) -> GangAnswer:
    """Return whether the pods of a gang fit all at once, in the state as it is."""
    with state.trial():
        return answer_gangs(state, [gang])[0]


def answer_gangs(state: ClusterState, gangs: Iterable[Gang]) -> tuple[GangAnswer, ...]:
    """Return whether the pods of each of some gangs fit all at once, each beside those before it that do.

    These count afterwards, within a trial of the state. What comes after one that is not decided is not asked about.
    """
    answers: list[GangAnswer] = []
    had: dict[ClaimKey, AllocationResult] = {}
    for gang in gangs:
        if any(each.state == "undecided" for each in answers):
            size, text = len(gang.members), "a gang before it is not decided"
            answers.append(
                GangAnswer(gang.subject, "undecided", size, 0, gang.at_least or size, partial=(text,))
            )
            continue
        question = _GangQuestion(
            state, _holding(gang, had), GangAssigner(state.pod_deciders, state.placement.requirements)
        )
        answers.append(question.answer(is_first=not any(each.state == "waits" for each in answers)))
        if answers[-1].state == "fits" and question.found is not None:
            had |= question.found.results
            let_count(state, gang, question.found)
    return tuple(answers)


def find_gang_notes(state: ClusterState) -> Iterator[str]:
    """Yield a line for each gang of the pods and workloads of a state that does not fit, or will not be found."""
    try:
        gangs = [*find_all_gangs(state)]
    except QuestionError as error:
        yield str(error)
        return
    for gang in gangs:
        yield from gang.assumed
        answer = answer_gang(state, gang)
        text = f"{gang.subject}: {answer.fitting:,} of {answer.size:,} pods fit together"
        if answer.state == "waits":
            failing = (
                f"{answer.failing} does not fit beside them: {answer.reason}: " if answer.failing else ""
            )
            yield f"{text}, and it does not: {failing}{answer.message}"
        elif answer.state == "undecided":
            yield f"{text}, as far as could be decided: {'; '.join(answer.partial)}"
        elif answer.scheduler:
            yield f"{text}: {answer.scheduler}"


def let_count(state: ClusterState, gang: Gang, found: Assignment) -> None:
    """Let a gang, or its first members, have what an assignment gives it, within a trial of a state."""
    for key, result in found.results.items():
        state.ledger.assume(*key, result)
    for each, node in zip(gang.members, found.nodes, strict=False):
        if not each.node:
            state.placement.place(each.pod, node)


def _holding(gang: Gang, results: Mapping[ClaimKey, AllocationResult]) -> Gang:
    """Return a gang whose claims have what others got for them."""
    if not any(claim_key(claim) in results for each in gang.members for claim in each.claims):
        return gang
    members = []
    for each in gang.members:
        held = [claim for claim in each.claims if claim_key(claim) in results]
        given = [
            replace(claim, status=replace(claim.status, allocation=results[claim_key(claim)]))
            for claim in held
        ]
        left = tuple([claim for claim in each.claims if claim not in held])
        members.append(replace(each, claims=left, held=(*each.held, *given)))
    return replace(gang, members=tuple(members))


@dataclass(slots=True)
class _GangQuestion:
    """A gang, and what assigns it in a state."""

    state: ClusterState
    gang: Gang
    assigner: GangAssigner
    found: Assignment | None = None
    """Where those go that fit."""
    _undecided: list[NoDecision] = field(default_factory=list)
    _are_all_tried: bool = True

    def answer(self, *, is_first: bool = True) -> GangAnswer:
        """Return the answer; of the `first` one that does not fit also what would help."""
        gang = self.gang
        size = len(gang.members)
        if any(each.problem is NO_GROUP_DEVICES for each in gang.members):
            self._undecided.append(NoDecision(NO_GROUP_DEVICES.message))
        at_least = min(gang.at_least, size) or size
        missing = self._find_missing()
        if all(each.node for each in gang.members):
            pods = tuple([_bound(each) for each in gang.members])
            return GangAnswer(gang.subject, "runs", size, size, at_least, pods, partial=missing)
        found = self.assigner.assign(gang)
        fitting = size
        if not isinstance(found, Assignment):
            self._undecided += [found] if isinstance(found, NoDecision) else []
            fitting, found = self._find_most()
        self.found = found
        pods = () if found is None else self._pods_of(found, fitting)
        value = "" if found is None else self._common(found.domain, found.value)
        answer = GangAnswer(gang.subject, "fits", size, fitting, at_least, pods, value)
        if fitting < size:
            why = self._explain_next(fitting, found)
            answer = replace(
                answer,
                failing=gang.members[fitting].name,
                reason=why.reason.value,
                message=printable(why.message),
            )
        if gang.at_least > size:
            answer = replace(
                answer,
                at_least=gang.at_least,
                state="waits",
                message=answer.message or f"it has {size} pods, and needs {gang.at_least}",
            )
        elif fitting < at_least:
            answer = replace(answer, state="undecided" if self._undecided else "waits")
            if is_first:
                values = tuple(self._try_values())
                changes = tuple(self._changes(fitting, found, answer.at_least))
                searched = "" if self._are_all_tried else "not all changes were tried"
                answer = replace(answer, values=values, changes=changes, searched=searched)
        else:
            answer = replace(answer, scheduler=self._find_scheduler(fitting))
            missing += find_unchecked([each.pod.body for each in gang.members])
        if self._undecided and answer.state == "undecided":
            missing += (self._undecided[0].message,)
        return replace(answer, partial=tuple(dict.fromkeys(missing)), assumed=gang.assumed)

    def _find_missing(self) -> tuple[str, ...]:
        claims = [claim for each in self.gang.members for claim in (*each.claims, *each.held)]
        bodies = [each.pod.body for each in self.gang.members]
        kinds = find_decision_kinds(self.state.inventory, claims, bodies)
        return tuple(DECISION.find_missing(self.state.unread, kinds))

    def _find_most(
        self, domain: str | None = None, value: AttributeValue | None = None
    ) -> tuple[int, Assignment | None]:
        """Return how many of the first members fit together, fewer than all, and where."""
        # Those that run do so, whatever they have in common; they come first.
        low = sum(1 for each in self.gang.members if each.node) if domain is None and value is None else 0
        ran = self.assigner.assign(self.gang.first(low)) if low else None
        most, best, undecided = self.assigner.find_most(self.gang, low, domain, value)
        self._undecided += [undecided] if undecided is not None else []
        return most, best or (ran if isinstance(ran, Assignment) else None)

    def _common(self, domain: str, value: AttributeValue | None) -> str:
        texts = [f"{self.gang.topology} {domain}"] if self.gang.topology else []
        if self.gang.match is not None and value is not None:
            texts.append(f"{self.gang.match.attribute} {value.value}")
        return ", ".join(texts)

    def _pods_of(self, found: Assignment, number: int) -> tuple[GangPod, ...]:
        pods = []
        for member, node in zip(self.gang.members[:number], found.nodes, strict=True):
            if member.node:
                pods.append(_bound(member))
                continue
            devices = [*_devices(member)]
            for claim in member.claims:
                devices += devices_of(claim.metadata.name, found.results[claim_key(claim)])
            pods.append(GangPod(member.name, node, devices=tuple(devices)))
        return tuple(pods)

    # --- why not more

    def _explain_next(self, number: int, found: Assignment | None) -> Explanation:
        """Return why the next member does not fit beside the first ones."""
        member = self.gang.members[number]
        if member.problem is not None:
            return member.problem
        if number and found is None and (common := self._in_common()):
            text = f"the {number} pods that run have not the same {common} as it is"
            return Explanation(Reason.CLAIMS_DO_NOT_FIT_TOGETHER, text)
        with self.state.trial():
            if found is not None:
                let_count(self.state, self.gang, found)
            return self._explain_beside(member, {} if found is None else found.results)

    def _decider(self, results: Mapping[ClaimKey, AllocationResult]) -> SetDecider:
        """Return what decides members beside others, some of whose claims have results."""
        found = self.state.new_decider()
        found.results |= results
        return found

    def _explain_beside(self, member: Member, results: Mapping[ClaimKey, AllocationResult]) -> Explanation:
        explainer, pod = (decider := self._decider(results)).explainer_of(_set_of(member))
        requirements = decider.requirements(_set_of(member))
        why = explainer.explain(pod, requirements)
        obstacles = self.state.pods.find_obstacles(requirements) if why is None else {}
        if why is None and self.state.inventory.nodes.keys() <= obstacles.keys():
            # Without claims nothing else keeps it.
            why = explain_no_node(obstacles)
        if why is not None and not why.node:
            return Explanation(why.reason, why.message)
        on = f"fits on node {why.node}" if why is not None else "fits by itself"
        common = f"with the same {names} as" if (names := self._in_common()) else "together with"
        return Explanation(Reason.CLAIMS_DO_NOT_FIT_TOGETHER, f"it {on}, but not {common} the others")

    def _in_common(self) -> str:
        """Return what all members are to have in common, if anything."""
        names = (self.gang.topology, self.gang.match and self.gang.match.attribute)
        return " and ".join(name for name in names if name)

    def _try_values(self) -> Iterator[ValueAnswer]:
        """Yield how many would fit with each of the values with most free devices."""
        gang = self.gang
        if gang.topology:
            for domain in self._domains_by_room()[:MOST_VALUES]:
                yield ValueAnswer(domain, self._count(domain, None))
        elif gang.match is not None:
            values = self.assigner.values(gang.match)
            held = [claim for each in gang.members for claim in each.held]
            known = [each for each in values.candidates(held) if each is not None]
            for value in sorted(known, key=lambda each: -values.free[each])[:MOST_VALUES]:
                yield ValueAnswer(str(value.value), self._count(None, value))

    def _count(self, domain: str | None, value: AttributeValue | None) -> int | None:
        before = len(self._undecided)
        found, _ = self._find_most(domain, value)
        return found if len(self._undecided) == before else None

    def _domains_by_room(self) -> list[str]:
        """Return the domains of the topology, those with most free devices of one node first."""
        nodes, free = self.state.inventory.nodes, dict[str, int]()
        for pool in self.state.inventory.pools.values():
            for slice_ in pool.slices.values():
                node = nodes.get(slice_.nodes.node_name or "")
                if node is not None and (label := node.labels.get(self.gang.topology)) is not None:
                    used, _ = self.state.ledger.in_use(slice_.key, slice_.names)
                    free[label] = free.get(label, 0) + (slice_.every & ~used).bit_count()
        return sorted(self.assigner.domains(self.gang), key=lambda each: -free.get(each, 0))

    def _changes(self, fitting: int, found: Assignment | None, at_least: int) -> Iterator[ChangeAnswer]:
        if fitting:
            yield ChangeAnswer("count", f"it had {fitting} pod{'s' * (fitting != 1)}")
        yield from self._edits(fitting, found, at_least)
        gang = self.gang
        waiting = tuple([each for each in gang.members if not each.node])
        if self._in_common() and len(waiting) < len(gang.members):
            elsewhere = self.assigner.assign(replace(gang, members=waiting))
            if isinstance(elsewhere, Assignment):
                value = self._common(elsewhere.domain, elsewhere.value)
                yield ChangeAnswer("gang", f"those that run were elsewhere: the others fit with {value}")
        match = gang.match and gang.match.attribute
        for name, wider in ((gang.topology, replace(gang, topology="")), (match, replace(gang, match=None))):
            if name and isinstance(self.assigner.assign(wider), Assignment):
                yield ChangeAnswer("gang", f"its pods need not have the same {name}")

    def _edits(self, fitting: int, found: Assignment | None, at_least: int) -> Iterator[ChangeAnswer]:
        """Yield changes that help the next member beside the first ones, and with which enough fit."""
        member = self.gang.members[fitting]
        is_last = fitting + 1 >= at_least and not self._in_common()
        with self.state.trial():
            if found is not None:
                let_count(self.state, self.gang, found)
            decider = self._decider({} if found is None else found.results)
            explainer, pod = decider.explainer_of(_set_of(member))
            tried = explainer.find_changes(pod, decider.requirements(_set_of(member)), _EFFORT)
        # Of pods that lack more than one claim's devices no set of claims to end is tried.
        self._are_all_tried = is_last and tried is not None and tried.is_complete
        for change in () if tried is None else tried.changes:
            if is_last:
                yield ChangeAnswer("gang", f"for {member.name}, {change.text}")
            elif "claims" in change.fields:
                edited = self._edited(member, change.fields["claims"].values())
                if isinstance(self.assigner.assign(edited.first(at_least)), Assignment):
                    yield ChangeAnswer("gang", f"for each such pod, {change.text}")

    def _edited(self, member: Member, claims: Iterable[ResourceClaim]) -> Gang:
        """Return the gang in which all claims like those of a member ask for what some edited ones ask for."""
        before = {claim_key(claim): claim.spec for claim in member.claims}
        edits = [(before[key], claim.spec) for claim in claims if (key := claim_key(claim)) in before]
        members = []
        for each in self.gang.members:
            own = [
                replace(claim, spec=next((new for old, new in edits if old == claim.spec), claim.spec))
                for claim in each.claims
            ]
            members.append(replace(each, claims=tuple(own)))
        return replace(self.gang, members=tuple(members))

    # --- kube-scheduler

    def _find_scheduler(self, number: int) -> str:
        """Return that kube-scheduler does not find it, if it places the members one by one in this state."""
        gang = self.gang
        if gang.match is not None:
            return "kube-scheduler does not know of the match, and keeps to it by chance only"
        waiting = [each for each in gang.members[:number] if not each.node]
        for domain in self.assigner.domains(gang):
            with self.state.trial():
                if self._places_all(waiting, domain):
                    return ""
        # On one node there is nothing to prefer.
        return _ONE_BY_ONE.format("will" if len(self.state.inventory.nodes) == 1 else "may")

    def _places_all(self, waiting: Sequence[Member], domain: str) -> bool:
        """Return whether all members fit one after the other, each on the first node, with what comes first there."""
        decider = self._decider({})
        for member in waiting:
            asked = decider.requirements(item := _set_of(member))
            if self.gang.topology:
                asked = replace(asked, node_selector=(*asked.node_selector, (self.gang.topology, domain)))
            if not isinstance(decider.decide(item, asked), PodDecision):
                return False
        return True


def _set_of(member: Member) -> ClaimSet:
    return ClaimSet.of_claims((*member.claims, *member.held), member.decider, member.pod)


def _bound(member: Member) -> GangPod:
    return GangPod(member.name, member.node, is_bound=True, devices=tuple(_devices(member)))


def _devices(member: Member) -> Iterator[DeviceAnswer]:
    for claim in member.held:
        assert claim.status.allocation is not None
        yield from devices_of(claim.metadata.name, claim.status.allocation)
