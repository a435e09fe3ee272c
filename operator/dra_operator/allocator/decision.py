"""Decisions: on whose behalf claims are decided, and what an attempt to allocate them comes to.

There are four outcomes and no other: the claims fit on a node; they fit nowhere; something is wrong, so that no node is
asked any further; or the attempt ran out of its budget, which is never a no. Who decides says what requests tolerate
without saying so: docs/ownership.md.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from dra_operator.allocator.reasons import Reason
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult, DeviceToleration, ResourceClaim
from dra_operator.inventory.ownership import FENCED_TOLERATION, OWNED_TOLERATION, UNOWNED_TOLERATION

_KUBE_SCHEDULER, _KUBE_SCHEDULER_ADMIN, _OPERATOR, _OPERATOR_ADMIN = range(4)
IMPLIED: Final[tuple[tuple[DeviceToleration, ...], ...]] = (
    (UNOWNED_TOLERATION,),
    (UNOWNED_TOLERATION, FENCED_TOLERATION),
    (OWNED_TOLERATION, FENCED_TOLERATION),
    (OWNED_TOLERATION, FENCED_TOLERATION, UNOWNED_TOLERATION),
)
"""What requests tolerate besides what they say, by number. A number is hashed fast, and a toleration by Python code."""


class Decider(Enum):
    """Who decides: the operator about devices that it owns, kube-scheduler about all that it may take."""

    OPERATOR = "operator"
    KUBE_SCHEDULER = "kube-scheduler"

    def implied(self, *, admin_access: bool) -> int:
        """Return the number of what each request tolerates besides what it says. That is not part of results."""
        if self is Decider.KUBE_SCHEDULER:
            return _KUBE_SCHEDULER_ADMIN if admin_access else _KUBE_SCHEDULER
        return _OPERATOR_ADMIN if admin_access else _OPERATOR


@fast_dataclass
class Allocated:
    """All claims fit on a node: an allocation for each, in the order of the claims, without a timestamp."""

    node: str
    results: tuple[AllocationResult, ...]


@dataclass(frozen=True, slots=True)
class Unsatisfied:
    """No node fits now."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt ended with an error.

    `fatal`: something is wrong with `subject` (kind and name), as found for a request of a claim (namespace, name).
    `aborted`: the budget of steps or the deadline was used up; another attempt may come further.
    """

    kind: Literal["fatal", "aborted"]
    message: str
    reason: Reason
    claim: tuple[str, str] | None = None
    request: str | None = None
    subject: tuple[str, str] | None = None


Decision: TypeAlias = Allocated | Unsatisfied | Failed


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a claim is not allocated: a reason of the closed list, one line of text, and the request it is about.

    What does not print in the text, as values of devices and selectors may hold anything, is written as in a literal.
    """

    reason: Reason
    message: str
    request: str | None = None

    def __post_init__(self) -> None:
        """Keep the text to one line that only writes."""
        object.__setattr__(self, "message", printable(self.message))


class FatalError(Exception):
    """Ends an attempt: `reason`, the request concerned and the object that caused it, as (kind, name)."""

    def __init__(
        self,
        message: str,
        reason: Reason,
        *,
        claim: tuple[str, str] | None = None,
        request: str | None = None,
        subject: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.claim = claim
        self.request = request
        self.subject = subject

    def failed(self) -> Failed:
        """Return the decision that this error is."""
        return Failed("fatal", self.message, self.reason, self.claim, self.request, self.subject)


class AbortedError(Exception):
    """Ends an attempt whose budget is used up; the text says which."""


class PreemptedError(Exception):
    """Ends an attempt in favour of others. What was evaluated is kept, so another attempt comes further."""


def claim_key(claim: ResourceClaim) -> tuple[str, str]:
    """Return namespace and name of a claim."""
    return (claim.metadata.namespace, claim.metadata.name)
