"""Asking the fence whether it knows a rule: a dry run of an allocation that it has to refuse.

An API server whose policy was deleted and created again goes on with the rules that it had before, until it is started
anew: it stops the informer of the parameters with the first policy, and does not start it for the second.
Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic, `ensureParamsForPolicyLocked` of Kubernetes 1.37.
"""

from typing import TYPE_CHECKING

from dra_operator.cluster.ownership_policy import POLICY
from dra_operator.cluster.session import MERGE_PATCH, ApiError

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession


async def refuses(session: "ApiSession", claim_path: str, request: str, device: tuple[str, str, str]) -> bool:
    """Return whether the fence refuses to let us allocate a device, as (driver, pool, device), in a dry run.

    `claim_path` is that of a claim without allocation that has a request of this name. Nothing is stored. An API
    server answers for itself alone. Raises ApiError for other refusals, ApiUnreachable.
    """
    result = dict(zip(("driver", "pool", "device"), device, strict=True)) | {"request": request}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    try:
        await session.request(
            "PATCH", f"{claim_path}/status", params={"dryRun": "All"}, body=body, content_type=MERGE_PATCH
        )
    except ApiError as error:
        if f"'{POLICY}'" in error.message:
            return True
        raise
    return False
