"""Decisions: what an attempt to allocate claims comes to.

There are four outcomes and no other: the claims fit on a node; they fit nowhere; something is wrong, so that no node is
asked any further; or the attempt ran out of its budget, which is never a no.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dra_operator.allocator.reasons import Reason
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult, ResourceClaim


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
