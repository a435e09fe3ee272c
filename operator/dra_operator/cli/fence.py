"""The fence as a command finds it: which policy is installed, and what is wrong with it, in words.

Source: docs/operator.md, "Devices that are ours".
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.ownership_policy import GROUP, POLICY, PoolsFence, RulesFence, fenced

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession

ABSENT = (
    f"there is no ValidatingAdmissionPolicy {POLICY} with its binding, so others may still store allocations of these "
    "devices that they decided before, and the operator cannot know: manifests/components/ownership has it"
)
CHANGED = (
    f"ValidatingAdmissionPolicy {POLICY} or its binding is not as dra-operator makes them, so it counts as none: "
    "manifests/components/ownership has them"
)


@dataclass(frozen=True, slots=True)
class FenceState:
    """What is installed, and what is wrong with it; neither where we may not ask."""

    fence: RulesFence | PoolsFence | None = None
    problem: str | None = None


async def read_fence(session: "ApiSession") -> FenceState:
    """Return what keeps others off devices that are ours. Raises ApiError, ApiUnreachable."""
    from dra_operator.cluster.discovery import served  # noqa: PLC0415
    from dra_operator.cluster.session import ApiError  # noqa: PLC0415

    parts: list[dict[str, Any]] = []
    for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        try:
            parts.append(await session.request("GET", f"/apis/{GROUP}/v1/{plural}/{POLICY}"))
        except ApiError as error:
            if error.status == 403:
                return FenceState()
            if error.status != 404:
                raise
            return FenceState(problem=ABSENT)
    fence = fenced(*parts)
    if fence is None:
        return FenceState(problem=CHANGED)
    if isinstance(fence, RulesFence):
        rules = replace(KINDS["DeviceTaintRule"], versions=(fence.version,))
        if not await served(session, {"rules": rules}):
            return FenceState(fence, _needs(rules.api_version(fence.version)))
    return FenceState(fence)


def _needs(api_version: str) -> str:
    return (
        f"ValidatingAdmissionPolicy {POLICY} needs DeviceTaintRule in {api_version}, which this API server does not "
        f"serve: it refuses every write to the status of a claim; kubectl delete validatingadmissionpolicy {POLICY}"
    )


def find_uncovered(fence: RulesFence | PoolsFence | None, pools: set[tuple[str, str]]) -> list[str]:
    """Return the pools that a fence with a list of pools does not have, as DRIVER/POOL."""
    if not isinstance(fence, PoolsFence):
        return []
    return [f"{driver}/{pool}" for driver, pool in sorted(pools) if not fence.covers(driver, pool)]
