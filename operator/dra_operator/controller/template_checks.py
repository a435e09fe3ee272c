"""Checks of ResourceClaimTemplates: whether claims made of them could ever be allocated.

What is wrong with a template is told on the template, before pods wait for it. Only what lasts counts: not what is in
use, tainted, or incomplete for a moment. Source: docs/pods.md.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dra_operator.allocator import Allocated, Decider, Reason
from dra_operator.api.core import Metadata
from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.types import ResourceClaim, ResourceClaimTemplate
from dra_operator.cluster.events import Subject
from dra_operator.cluster.reflector import Delta
from dra_operator.controller import messages
from dra_operator.controller.claims import Key
from dra_operator.controller.context import Context
from dra_operator.inventory.ownership import owns, tolerance_problem
from dra_operator.pods.explanation import LIMITS

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
    _names: set[Key] = field(default_factory=set)
    """Of all templates, also those that cannot be understood."""
    _templates: dict[Key, ResourceClaimTemplate] = field(default_factory=dict)
    _unreadable: dict[Key, tuple[str, str]] = field(default_factory=dict)
    """The uid of each template that cannot be understood, and why not."""
    _unchecked: deque[Key] = field(default_factory=deque)
    _inventory_version: int = -1
    _rechecked_at: float = float("-inf")

    def has(self, key: Key) -> bool | None:
        """Return whether there is a template of this namespace and name; None if none is known at all."""
        return key in self._names if self._names else None

    def apply(self, delta: Delta) -> None:
        """Take in that a template has come, changed or gone."""
        key = delta.namespace, delta.name
        self.version += (key in self._names) is (delta.body is None)
        if delta.body is None:
            self._names.discard(key)
            self._templates.pop(key, None)
            self._unreadable.pop(key, None)
            self.context.events.clear((KIND, key))
            return
        self._names.add(key)
        self._unchecked.append(key)
        try:
            self._templates[key] = read_object(delta.body, KIND)
            self._unreadable.pop(key, None)
        except ObjectError as error:
            self._templates.pop(key, None)
            uid = str((delta.body.get("metadata") or {}).get("uid", ""))
            self._unreadable[key] = uid, str(error)

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
        uid, in_vain = self._unreadable.get(key, ("", None))
        problem = messages.template_in_vain(in_vain) if in_vain else None
        if (template := self._templates.get(key)) is not None:
            uid = template.metadata.uid
            in_vain = self._find_problem(key, template)
            problem = messages.template_in_vain(in_vain) if in_vain else self._find_tolerance(template)
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
