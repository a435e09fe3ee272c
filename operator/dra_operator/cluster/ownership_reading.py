"""The policy around owned devices as it is installed: what it covers, and what is missing of it.

Source: docs/operator.md, "Devices that are ours"; `ownership_policy` has the texts it is held against.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.discovery import served
from dra_operator.cluster.ownership_policy import GROUP, POLICY, PoolsFence, RulesFence, fenced
from dra_operator.cluster.session import ApiError, ApiSession

_PATHS: Final = {
    "policy": f"/apis/{GROUP}/v1/validatingadmissionpolicies/{POLICY}",
    "binding": f"/apis/{GROUP}/v1/validatingadmissionpolicybindings/{POLICY}",
}


@dataclass(frozen=True, slots=True)
class InstalledFence:
    """What the API server has: `fence` is None if it is not there, or not as it is published.

    `missing` is `policy` or `binding`, or empty; `denied` is the refusal to those who may not ask. `uid` is that of the
    policy. `serves_parameters` is False where the policy refuses everything for lack of its parameters' kind.
    """

    fence: RulesFence | PoolsFence | None = None
    missing: str = ""
    denied: ApiError | None = None
    uid: str = ""
    serves_parameters: bool = True


async def read_fence(session: ApiSession) -> InstalledFence:
    """Return the policy with its binding. Raises ApiError and ApiUnreachable if that cannot be known."""
    found: list[dict[str, Any]] = []
    missing = ""
    for what, path in _PATHS.items():
        try:
            found.append(await session.request("GET", path))
        except ApiError as error:
            if error.is_missing_right:
                return InstalledFence(denied=error)
            if error.status != 404:
                raise
            missing = missing or what
    if missing:
        return InstalledFence(missing=missing)
    fence, uid = fenced(*found), str(found[0]["metadata"].get("uid") or "")
    if not isinstance(fence, RulesFence):
        return InstalledFence(fence, uid=uid)
    rules = replace(KINDS["DeviceTaintRule"], versions=(fence.version,))
    return InstalledFence(fence, uid=uid, serves_parameters=bool(await served(session, {rules.kind: rules})))
