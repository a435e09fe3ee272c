"""Checks of ResourceClaimTemplates: whether claims made of them could ever be allocated.

What is wrong with a template is told on the template, before pods wait for it. Only what lasts counts: not what is in
use, tainted, or incomplete for a moment. Source: docs/pods.md.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dra_operator.allocator import Allocated, Allocator, Decider, Reason
from dra_operator.api.core import Metadata
from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.types import ResourceClaim, ResourceClaimTemplate
from dra_operator.cluster.reflector import Delta
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.event_dedup import EventDeduplicator, Subject

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

    allocator: Allocator
    events: EventDeduplicator
    clock: Callable[[], float]
    _templates: dict[Key, ResourceClaimTemplate] = field(default_factory=dict)
    _unchecked: deque[Key] = field(default_factory=deque)
    _version: int = -1
    _rechecked_at: float = float("-inf")

    def has(self, key: Key) -> bool | None:
        """Return whether there is a template of this namespace and name; None if none is known at all."""
        return key in self._templates if self._templates else None

    def apply(self, delta: Delta) -> None:
        """Take in that a template has come, changed or gone."""
        key = delta.namespace, delta.name
        if delta.body is None:
            self._templates.pop(key, None)
            self.events.clear((KIND, key))
            return
        try:
            self._templates[key] = read_object(delta.body, KIND)
            self._unchecked.append(key)
        except ObjectError as error:
            self._templates.pop(key, None)
            uid = str((delta.body.get("metadata") or {}).get("uid", ""))
            self._report(key, uid, str(error))

    def run(self, stopping: Callable[[], bool]) -> float | None:
        """Check templates for which that is due; return when time alone makes it due again."""
        now, version = self.clock(), self.allocator.inventory.version
        if version != self._version and not self._unchecked and now >= self._rechecked_at + AGAIN_SECONDS:
            self._version, self._rechecked_at = version, now
            self._unchecked.extend(self._templates)
        until = now + CHECKING
        while self._unchecked:
            key = self._unchecked.popleft()
            if (template := self._templates.get(key)) is not None:
                self._check(key, template)
            if self._unchecked and (stopping() or self.clock() >= until):
                return self.clock()
        return self._rechecked_at + AGAIN_SECONDS if version != self._version and self._templates else None

    def _check(self, key: Key, template: ResourceClaimTemplate) -> None:
        problem = self._find_problem(key, template)
        if problem is None:
            self.events.clear((KIND, key))
        else:
            self._report(key, template.metadata.uid, problem)

    def _find_problem(self, key: Key, template: ResourceClaimTemplate) -> str | None:
        """Return why no claim made of a template could be allocated, or which selector fails on some device."""
        claim = ResourceClaim(Metadata(name=key[1], namespace=key[0]), template.spec.spec)
        decision = self.allocator.allocate((claim,), decider=Decider.KUBE_SCHEDULER)
        is_in_vain = (
            not isinstance(decision, Allocated)
            and self.allocator.fits_if_idle(claim, decider=Decider.KUBE_SCHEDULER) is False
        )
        if not is_in_vain:
            failing = self.allocator.find_failing(claim)
            return failing[0] if failing else None
        why = self.allocator.explain((claim,), decision, decider=Decider.KUBE_SCHEDULER)[0]
        return None if why.reason in _PASSING else why.message

    def _report(self, key: Key, uid: str, problem: str) -> None:
        self.events.report_problem(
            (KIND, key), Subject(KIND, *key, uid), messages.EVENT_INVALID, messages.template_in_vain(problem)
        )
