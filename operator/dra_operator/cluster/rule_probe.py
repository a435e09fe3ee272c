"""The question, by a dry run, whether the API server's policy knows a rule that owns devices."""

from dataclasses import dataclass

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.delivery import Permit
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.ownership_policy import refuses
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable


@dataclass(frozen=True, slots=True)
class RuleProbe:
    """A question: would the policy refuse `device`, which the rule owns, to `claim`? `mark` is that of the rule."""

    name: str
    mark: str
    claim: ResourceClaim
    device: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """Whether the policy knows the rule; `error` says why that is not known."""

    probe: RuleProbe
    is_known: bool
    error: ApiError | ApiUnreachable | None = None


async def ask(
    session: ApiSession, claims: Served, probe: RuleProbe, *, may_write: Permit, seconds: float
) -> RuleAnswer:
    """Ask one question. `claims` is ResourceClaim as it is served, `seconds` the limit for the request."""
    await may_write()
    try:
        is_known = await refuses(session, claims, probe.claim, probe.device, timeout=seconds)
    except (ApiError, ApiUnreachable) as error:
        return RuleAnswer(probe, is_known=False, error=error)
    return RuleAnswer(probe, is_known)
