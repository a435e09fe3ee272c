"""The fence as a command finds it: which policy is installed, and what is wrong with it, in words.

Source: docs/operator.md, "Devices that are ours".
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import OWNED_POLICY
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.ownership_policy import PoolsFence, RulesFence
from dra_operator.questions.raw_devices import DeviceKey

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession

ABSENT = (
    f"there is no ValidatingAdmissionPolicy {OWNED_POLICY} with its binding, so others may still store allocations of "
    "these devices that they decided before, and the operator cannot know: manifests/components/ownership has it"
)
CHANGED = (
    f"ValidatingAdmissionPolicy {OWNED_POLICY} or its binding is not as dra-operator makes them, so it counts as none: "
    "manifests/components/ownership has them"
)


@dataclass(frozen=True, slots=True)
class FenceReport:
    """What is installed, and what is wrong with it; neither where we may not ask."""

    fence: RulesFence | PoolsFence | None = None
    problem: str | None = None


async def read_fence(session: "ApiSession") -> FenceReport:
    """Return what keeps others off devices that are ours. Raises ApiError, ApiUnreachable."""
    from dra_operator.cluster import ownership_policy

    installed = await ownership_policy.read_fence(session)
    if installed.denied is not None:
        return FenceReport()
    if installed.missing:
        return FenceReport(problem=ABSENT)
    if installed.fence is None:
        return FenceReport(problem=CHANGED)
    if isinstance(installed.fence, RulesFence) and not installed.serves_parameters:
        return FenceReport(
            installed.fence, _needs(KINDS["DeviceTaintRule"].api_version(installed.fence.version))
        )
    return FenceReport(installed.fence)


async def lets_pass(session: "ApiSession", claim: ResourceClaim, device: DeviceKey) -> bool:
    """Return whether the API server lets us allocate a device, in a dry run; False if another refusal hides that.

    After a moment the fence refuses it, unless it was deleted and created again.
    """
    from dra_operator.cluster import ownership_policy
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiError

    try:
        return not await ownership_policy.refuses(
            session, Served(KINDS["ResourceClaim"], "v1"), claim, (device.driver, device.pool, device.name)
        )
    except ApiError:
        return False


def _needs(api_version: str) -> str:
    return (
        f"ValidatingAdmissionPolicy {OWNED_POLICY} needs DeviceTaintRule in {api_version}, which this API server does "
        "not serve: it refuses every write to the status of a claim; "
        f"kubectl delete validatingadmissionpolicy {OWNED_POLICY}"
    )


def find_uncovered(fence: RulesFence | PoolsFence | None, pools: set[tuple[str, str]]) -> list[str]:
    """Return the pools that a fence with a list of pools does not have, as DRIVER/POOL."""
    if not isinstance(fence, PoolsFence):
        return []
    return [f"{driver}/{pool}" for driver, pool in sorted(pools) if not fence.covers(driver, pool)]
