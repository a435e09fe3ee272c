"""What is wrong with objects that are not claims, reported on the object that causes it.

A slice that cannot be understood, a class whose selector does not compile, a pool whose slices contradict each other:
whoever must mend it looks at that object, not at the claims that wait because of it.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from dra_operator.allocator.decision import Allocated, Decider, Failed
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Metadata
from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.types import ResourceClaim, ResourceClaimTemplate
from dra_operator.cluster.events import Subject
from dra_operator.cluster.reflector import Delta
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.context import Context
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.facts import Problem as FactProblem
from dra_operator.controller.ingest import DeltaEffects
from dra_operator.inventory.object_faults import Problem
from dra_operator.inventory.ownership import owns, tolerance_problem
from dra_operator.inventory.slices import PoolKey
from dra_operator.pods.explanation import LIMITS

_Blame: TypeAlias = tuple[str, str, str]
"""Kind and name of an object, and the reason why a decision ended because of it."""

INCOMPLETE_SECONDS = 45.0
"""How long a pool has to be incomplete, in seconds, before it is reported.

Drivers publish the slices of a pool one after the other, and each update makes it incomplete for a moment. A slice that
was deleted by mistake is published again 30 s later by drivers built on Kubernetes' library (its `DefaultSyncDelay`).
"""


@dataclass(slots=True)
class ObjectProblems:
    """Keeps track of problems and reports each when it arises or changes."""

    context: Context
    _seen: tuple[int, int] = (-1, 0)
    """Version and number of taint rules of the inventory that was looked at; a rule may taint nothing."""
    _broken: set[tuple[str, str]] = field(default_factory=set)
    """Kind and name of the objects that have a problem."""
    _incomplete: dict[PoolKey, float] = field(default_factory=dict)
    """Since when each pool is incomplete, by the clock, in whatever generation: none of them was whole."""
    _due: float | None = None
    _unreadable: set[tuple[str, str, str]] = field(default_factory=set)
    _blames: dict[Key, _Blame] = field(default_factory=dict)
    _blamed: dict[_Blame, set[Key]] = field(default_factory=dict)

    def observe(self, effects: DeltaEffects) -> None:
        """Take in which objects can be understood, and which cannot."""
        for place, event in effects.unreadable.items():
            self._state(("unreadable", place), event)
            self._unreadable.discard(place)
            if event is not None:
                self._unreadable.add(place)
                self.context.metrics.object_errors.labels(place[0]).inc()
        for key, event in effects.bad_labels.items():
            self._state(("label", key), event)

    def _state(self, fact: Hashable, event: EventRequest | None) -> None:
        if event is None:
            self.context.events.clear(fact)
        else:
            self.context.events.report_problem(fact, event.subject, event.reason, event.message)

    def blame(self, key: Key, failed: Failed) -> None:
        """State that the decision about a claim ended because of an object.

        Faults of the claim itself and of its namespace are reported on the claim.
        """
        if failed.subject is None or failed.subject[0] in ("ResourceClaim", "Namespace"):
            self.excuse(key)
            return
        subject = self.context.ingest.subject(*failed.subject)
        # An object that has its Event already needs no other; of one that does not exist the claim that names
        # it says so.
        if failed.subject in self._broken or not subject.uid:
            self.excuse(key)
            return
        # The message names a device, perhaps another one for each claim; the reason is what matters.
        blame = (*failed.subject, failed.reason.value)
        if self._blames.get(key) != blame:
            self.excuse(key)
            self._blames[key] = blame
            self._blamed.setdefault(blame, set()).add(key)
        self.context.events.report_problem(
            ("blamed", blame), subject, failed.reason.value, failed.message, blame
        )

    def excuse(self, key: Key) -> None:
        """State that a claim blames no object any more: it was decided otherwise, or is gone or not ours."""
        blame = self._blames.pop(key, None)
        if blame is None:
            return
        keys = self._blamed[blame]
        keys.discard(key)
        if not keys:
            del self._blamed[blame]
            self.context.events.clear(("blamed", blame))

    def report_inventory(self) -> float | None:
        """Look for problems of what exists, if it has changed or a pool has been incomplete for long.

        To be called before claims are decided. Return when the next pool will have been incomplete for long.
        """
        now, seen = self.context.clock(), (self.context.inventory.version, len(self.context.inventory.rules))
        if seen == self._seen and (self._due is None or now < self._due):
            return self._due
        problems = self.context.inventory.problems()
        self._time_pools(problems, now)
        found, broken = dict[Hashable, FactProblem](), set[tuple[str, str]]()
        for problem in problems:
            pool, dedup_key = problem.incomplete, problem.topic or None
            if pool is not None:
                if now < self._incomplete[pool] + INCOMPLETE_SECONDS:
                    continue
                # How many slices there are by now is no news: there may be hundreds, each a little later.
                dedup_key = "/".join(pool)
            place = (problem.kind, problem.name)
            broken.add(place)
            told = (self.context.ingest.subject(*place), messages.EVENT_INVALID, problem.message, dedup_key)
            found["problem", place, dedup_key or problem.message] = told
        self.context.events.set_topic("inventory", found)
        self._broken = broken
        for what, count in self.context.inventory.summary().items():
            self.context.metrics.objects.labels(what).set(count)
        self._seen = seen
        return self._due

    def measure(self) -> None:
        """Count the objects that have a problem now that was reported; to be called after claims are decided."""
        blamed = {(kind, name) for kind, name, _ in self._blamed}
        self.context.metrics.problems.set(len(self._broken) + len(self._unreadable) + len(blamed))

    def _time_pools(self, problems: Iterable[Problem], now: float) -> None:
        """Keep since when pools are incomplete, and when the next of them will have been for long."""
        pools = [problem.incomplete for problem in problems if problem.incomplete is not None]
        self._incomplete = {pool: self._incomplete.get(pool, now) for pool in pools}
        ends = [since + INCOMPLETE_SECONDS for since in self._incomplete.values()]
        self._due = min((end for end in ends if now < end), default=None)


# --- Checks of ResourceClaimTemplates: whether claims made of them could ever be allocated.
# What is wrong with a template is told on the template, before pods wait for it. Only what lasts counts: not what is
# in use, tainted, or incomplete for a moment. Source: docs/pods.md.


KIND = "ResourceClaimTemplate"
AGAIN_SECONDS = 30.0
"""How long a verdict stands before it is found out again, after what is published has changed."""
CHECKING = 0.03
"""Seconds for which a cycle checks templates: claims that arrive meanwhile wait for its end."""
_PASSING = frozenset(
    (
        Reason.NO_NODES,
        Reason.NODE_UNUSABLE,
        Reason.DEVICE_TAINTED,
        Reason.POOL_INCOMPLETE,
        Reason.DEVICE_NOT_OWNED,
        Reason.SEARCH_ABORTED,
    )
)
"""Reasons that end without a change of the template, or of what drivers publish."""


@dataclass(slots=True)
class TemplateChecks:
    """Keeps the templates of the cluster and tells what is wrong with them. `clock` is monotonic, in seconds."""

    context: Context
    version: int = 0
    """Grows with every template that comes or goes."""
    _templates: dict[Key, ResourceClaimTemplate | tuple[str, str]] = field(default_factory=dict)
    """Of one that cannot be understood its uid, and why not."""
    _unchecked: deque[Key] = field(default_factory=deque)
    _inventory_version: int = -1
    _rechecked_at: float = float("-inf")

    def has(self, key: Key) -> bool | None:
        """Return whether there is a template of this namespace and name; None if none is known at all."""
        return key in self._templates if self._templates else None

    def apply(self, delta: Delta) -> None:
        """Take in that a template has come, changed or gone."""
        key = delta.namespace, delta.name
        self.version += (key in self._templates) is (delta.body is None)
        if delta.body is None:
            self._templates.pop(key, None)
            self.context.events.clear((KIND, key))
            return
        self._unchecked.append(key)
        try:
            self._templates[key] = read_object(delta.body, KIND)
        except ObjectError as error:
            self._templates[key] = str((delta.body.get("metadata") or {}).get("uid", "")), str(error)

    def run(self, stopping: Callable[[], bool]) -> float | None:
        """Check templates for which that is due; return when time alone makes it due again."""
        now, version = self.context.clock(), self.context.explainer.allocator.inventory.version
        if (
            version != self._inventory_version
            and not self._unchecked
            and now >= self._rechecked_at + AGAIN_SECONDS
        ):
            self._inventory_version, self._rechecked_at = version, now
            self._unchecked.extend(self._templates)
        until = now + CHECKING
        while self._unchecked:
            self._check(self._unchecked.popleft())
            if self._unchecked and (stopping() or self.context.clock() >= until):
                return self.context.clock()
        return (
            self._rechecked_at + AGAIN_SECONDS
            if version != self._inventory_version and self._templates
            else None
        )

    def _check(self, key: Key) -> None:
        found = self._templates.get(key)
        if isinstance(found, ResourceClaimTemplate):
            uid, in_vain = found.metadata.uid, self._find_problem(key, found)
            problem = messages.template_in_vain(in_vain) if in_vain else self._find_tolerance(found)
        else:
            uid, in_vain = found or ("", None)
            problem = messages.template_in_vain(in_vain) if in_vain else None
        if problem is None:
            self.context.events.clear((KIND, key))
            return
        subject = Subject(KIND, *key, uid)
        self.context.events.report_problem(
            (KIND, key), subject, messages.EVENT_INVALID, problem, is_paced=True
        )

    def _find_problem(self, key: Key, template: ResourceClaimTemplate) -> str | None:
        """Return why no claim made of a template could be allocated, or which selector fails on some device."""
        claim = ResourceClaim(Metadata(name=key[1], namespace=key[0]), template.spec.spec)
        decision = self.context.explainer.allocator.allocate(
            (claim,), decider=Decider.KUBE_SCHEDULER, limits=LIMITS
        )
        is_in_vain = (
            not isinstance(decision, Allocated)
            and self.context.explainer.fits_if_idle(claim, decider=Decider.KUBE_SCHEDULER) is False
        )
        if not is_in_vain:
            failing = self.context.explainer.find_failing(claim)
            return failing[0] if failing else None
        why = self.context.explainer.explain(
            (claim,), decision, decider=Decider.KUBE_SCHEDULER, limits=LIMITS
        )[0]
        return None if why.reason in _PASSING else why.message

    def _find_tolerance(self, template: ResourceClaimTemplate) -> str | None:
        """Return what follows if a template tolerates the taint of devices that are ours; None if none is."""
        inventory = self.context.explainer.allocator.inventory
        if inventory.settlement is None or not any(map(owns, inventory.rules.values())):
            return None
        return tolerance_problem(template.spec.spec)
