"""The policy that fences off devices that are ours: who else allocates them is refused; and what of it is installed.

kube-scheduler decides faster than it writes: allocations that it decided before a device was tainted are stored up to
minutes later. A ValidatingAdmissionPolicy refuses them.
Source: docs/ownership.md; k8s.io/api/admissionregistration/v1.
"""

import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from dra_operator.api.kinds import RESOURCE_GROUP
from dra_operator.api.names import MAINTENANCE_POLICY, OWNED_POLICY
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable

GROUP: Final = "admissionregistration.k8s.io"
OPERATOR: Final = "system:serviceaccount:dra-operator:dra-operator"
"""The operator's user, where nobody has chosen another namespace for it."""
Body = dict[str, Any]
_NOT_FROM: Final = "request.userInfo.username != "
_OR_DRY_RUN: Final = " || request.dryRun"
"""The operator finds out by a dry run of its own whether the API server knows a rule."""


@dataclass(frozen=True, slots=True)
class RulesFence:
    """A fence that follows the DeviceTaintRules: `username` alone allocates what they own, and not in a dry run.

    `version` is that of its parameters: on a server that does not serve it, every write to a claim's status is refused.
    """

    username: str
    version: str


@dataclass(frozen=True, slots=True)
class PoolsFence:
    """A fence around pools, as (driver, pool), and all pools of some drivers; `username` alone allocates there."""

    username: str
    drivers: frozenset[str]
    pools: frozenset[tuple[str, str]]

    def covers(self, driver: str, pool: str) -> bool:
        """True if nobody else can allocate devices of this pool."""
        return driver in self.drivers or (driver, pool) in self.pools


def policy_for_rules(username: str, version: str = "v1") -> list[Body]:
    """Return the fence that follows the DeviceTaintRules, and the policies about these and about tolerations.

    Six objects: each policy is followed by its binding. `version` is the one in which DeviceTaintRule is served.
    """
    objects = _read_published("ownership_policy.yaml", username)
    fence, _, immutable, *_ = (each["spec"] for each in objects)
    fence["paramKind"]["apiVersion"] = f"{RESOURCE_GROUP}/{version}"
    immutable["matchConstraints"]["resourceRules"][0]["apiVersions"] = [version]
    return objects


def policy_for_pools(username: str, pools: Iterable[tuple[str, str | None]]) -> list[Body]:
    """Return a fence without parameters, and its binding, for servers that do not serve DeviceTaintRule.

    `pools` are (driver, pool), or (driver, None) for all pools of a driver.
    """
    wanted = set(pools)
    drivers = {driver for driver, pool in wanted if pool is None}
    # No driver has a slash in its name, so the texts of two pools are not equal.
    named = {f"{driver}/{pool}" for driver, pool in wanted if pool is not None and driver not in drivers}
    objects = _read_published("ownership_pools.yaml", username)
    for variable, names in zip(objects[0]["spec"]["variables"], (drivers, named), strict=False):
        variable["expression"] = json.dumps(sorted(names))
    return objects


def _read_published(file: str, username: str) -> list[Body]:
    """Return the objects of a file of manifests/components/ownership, for another user of the operator."""
    objects = deepcopy(_load_published(file))
    others = objects[0]["spec"]["matchConditions"][1]
    others["expression"] = others["expression"].replace(json.dumps(OPERATOR), json.dumps(username))
    return objects


@cache
def _load_published(file: str) -> list[Body]:
    """Return the objects of a file, which nobody changes: the fence is read every few seconds, in the loop."""
    return list(yaml.safe_load_all(Path(__file__).with_name(file).read_text(encoding="utf-8")))


def fenced(policy: Mapping[str, Any], binding: Mapping[str, Any]) -> RulesFence | PoolsFence | None:
    """Return what an installed policy and its binding cover; None if they are not as they are made here.

    Whoever changes an expression may well know why, but what then is covered is not known.
    """
    fence = _read_fence(policy.get("spec") or {})
    if fence is None:
        return None
    if isinstance(fence, RulesFence):
        made = policy_for_rules(fence.username, fence.version)
    else:
        pools = [*fence.pools, *((driver, None) for driver in fence.drivers)]
        made = policy_for_pools(fence.username, pools)
    if _policy_meaning(policy) != _policy_meaning(made[0]):
        return None
    if "Deny" not in ((binding.get("spec") or {}).get("validationActions") or ()):
        return None
    return fence if _binding_meaning(binding) == _binding_meaning(made[1]) else None


# --- reading what is installed


def _read_fence(spec: Mapping[str, Any]) -> RulesFence | PoolsFence | None:
    """Return what the spec of a policy says about itself, if it says anything; whether it is so is not looked at."""
    conditions = {each.get("name"): str(each.get("expression")) for each in spec.get("matchConditions") or ()}
    username = _json(conditions.get("others", "").removeprefix(_NOT_FROM).removesuffix(_OR_DRY_RUN))
    if not isinstance(username, str):
        return None
    if param_kind := spec.get("paramKind"):
        return RulesFence(username, str(param_kind.get("apiVersion")).rpartition("/")[2])
    variables = {each.get("name"): str(each.get("expression")) for each in spec.get("variables") or ()}
    drivers, pools = _texts(variables.get("drivers", "")), _texts(variables.get("pools", ""))
    if drivers is None or pools is None:
        return None
    parted = (each.partition("/") for each in pools)
    return PoolsFence(username, frozenset(drivers), frozenset((driver, pool) for driver, _, pool in parted))


def _texts(expression: str) -> list[str] | None:
    found = _json(expression)
    is_list = isinstance(found, list) and all(isinstance(each, str) for each in found)
    return found if is_list else None


def _json(expression: str) -> Any:
    try:
        return json.loads(expression)
    except ValueError:
        return None


def _policy_meaning(policy: Mapping[str, Any]) -> Body:
    """Return the spec of a policy with the API's defaults, and without the layout of its expressions.

    Messages may be in other words: they cover nothing.
    """
    spec = {"failurePolicy": "Fail", **(policy.get("spec") or {})}
    anywhere = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    constraints = {**anywhere, **(spec.get("matchConstraints") or {})}
    rules = [{"scope": "*", **rule} for rule in constraints.get("resourceRules") or ()]
    expressions = {
        name: [(each.get("name"), _plain(each.get("expression"))) for each in spec.get(name) or ()]
        for name in ("matchConditions", "variables", "validations")
    }
    return {**spec, "matchConstraints": {**constraints, "resourceRules": rules}, **expressions}


def _binding_meaning(binding: Mapping[str, Any]) -> Body:
    """Return the spec of a binding; that it audits or warns as well changes nothing."""
    return {name: value for name, value in (binding.get("spec") or {}).items() if name != "validationActions"}


def _plain(expression: object) -> str:
    return re.sub(r"\s+", " ", str(expression))


PATHS: Final = {
    "policy": f"/apis/{GROUP}/v1/validatingadmissionpolicies/",
    "binding": f"/apis/{GROUP}/v1/validatingadmissionpolicybindings/",
}
"""Of a policy and of its binding, which has the same name."""


async def refuses(
    session: ApiSession,
    claims: Served,
    claim: ResourceClaim,
    device: tuple[str, str, str],
    *,
    policy: str = OWNED_POLICY,
    timeout: float = 60,  # noqa: ASYNC109 - it is the limit of one exchange
) -> bool:
    """Return whether a policy refuses a device (driver, pool, name) to a claim without allocation, in a dry run.

    A policy that was deleted and installed again refuses nothing under new rules: the API server goes on with the rules
    of before, until it is restarted. Raises ApiError and ApiUnreachable if that cannot be known.
    Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic, `ensureParamsForPolicyLocked` of Kubernetes 1.37.
    """
    request = claim.spec.devices.requests[0]
    name = request.name if request.exactly else f"{request.name}/{request.first_available[0].name}"
    result = dict(zip(("request", "driver", "pool", "device"), (name, *device), strict=True))
    path = claims.path(claim.metadata.namespace, claim.metadata.name, "status")
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    try:
        await session.request(
            "PATCH", path, params={"dryRun": "All"}, body=body, content_type=MERGE_PATCH, timeout=timeout
        )
    except ApiError as error:
        if f"ValidatingAdmissionPolicy '{policy}'" in error.message:
            return True
        raise
    return False


async def read_maintenance_fence(session: ApiSession) -> str:
    """Return uids and generations of the policy about devices in maintenance and its binding, which tell of a change.

    Nothing if it is not installed as published, or that is not known.
    """
    policy, binding = _load_published("maintenance_policy.yaml")
    try:
        found = [await session.request("GET", where + MAINTENANCE_POLICY) for where in PATHS.values()]
    except (ApiError, ApiUnreachable):
        return ""
    is_fenced = (
        _policy_meaning(found[0]) == _policy_meaning(policy)
        and _binding_meaning(found[1]) == _binding_meaning(binding)
        and "Deny" in found[1]["spec"]["validationActions"]
    )
    names = [f"{each['metadata'].get('uid')}:{each['metadata'].get('generation')}" for each in found]
    return "/".join(names) if is_fenced else ""


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
