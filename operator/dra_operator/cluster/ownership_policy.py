"""The policy that fences off devices that are ours: who else allocates them is refused; and what of it is installed.

kube-scheduler decides faster than it writes: allocations that it decided before a device was tainted are stored up to
minutes later. A ValidatingAdmissionPolicy refuses them.
Source: docs/operator.md, "Devices that are ours"; k8s.io/api/admissionregistration/v1.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Any, Final

from dra_operator.api.kinds import KINDS, RESOURCE_GROUP
from dra_operator.api.names import OWNED_KEY, OWNED_POLICY, OWNED_RULES_POLICY, OWNED_TOLERATIONS_POLICY
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.delivery import Permit
from dra_operator.cluster.discovery import Served, served
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable

GROUP: Final = "admissionregistration.k8s.io"
OPERATOR: Final = "system:serviceaccount:dra-operator:dra-operator"
"""The operator's user, where nobody has chosen another namespace for it."""
CLAIM_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""All that a claim can be written in: their status is the same, so one expression reads each of them."""

Body = dict[str, Any]


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
    param_kind = {"apiVersion": f"{RESOURCE_GROUP}/{version}", "kind": "DeviceTaintRule"}
    fence: Body = {
        "failurePolicy": "Fail",
        "paramKind": param_kind,
        **_on("resourceclaims/status", CLAIM_VERSIONS, ["UPDATE"]),
        "matchConditions": _conditions(username, _OR_DRY_RUN),
        "variables": [
            {"name": "owns", "expression": _RULE_OWNS},
            {"name": "others", "expression": _OWNED_BY_RULE},
        ],
        "validations": [_validation(f"!variables.owns || {_NONE}", _IS_OWNED, text=_IS_OWNED_BY_RULE)],
    }
    immutable: Body = {
        "failurePolicy": "Fail",
        **_on("devicetaintrules", [version], ["CREATE", "UPDATE"]),
        "matchConditions": [{"name": "owned", "expression": _NEW_OR_OLD_IS_OURS}],
        "validations": [*_rules_validations()],
    }
    tolerations: Body = {
        # It saves kube-scheduler work, and keeps nobody off a device: where it fails, the fence is there.
        "failurePolicy": "Ignore",
        # Objects of other versions are converted before they are looked at (`matchPolicy: Equivalent`).
        **_on("resourceclaims", ["v1"], ["CREATE"], "resourceclaimtemplates"),
        "variables": [{"name": "tolerant", "expression": _TOLERANT}],
        "validations": [
            _validation(
                "variables.tolerant.size() == 0", f"{_REQUESTS}a request {_TOLERATES}", text=_IS_TOLERANT
            )
        ],
    }
    params = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return [
        _policy(OWNED_POLICY, fence),
        _binding(OWNED_POLICY, {"paramRef": params}),
        _policy(OWNED_RULES_POLICY, immutable),
        _binding(OWNED_RULES_POLICY, {}),
        _policy(OWNED_TOLERATIONS_POLICY, tolerations),
        _binding(OWNED_TOLERATIONS_POLICY, {}),
    ]


def policy_for_pools(username: str, pools: Iterable[tuple[str, str | None]]) -> list[Body]:
    """Return a fence without parameters, and its binding, for servers that do not serve DeviceTaintRule.

    `pools` are (driver, pool), or (driver, None) for all pools of a driver.
    """
    wanted = set(pools)
    drivers = {driver for driver, pool in wanted if pool is None}
    named = {(driver, pool) for driver, pool in wanted if pool is not None and driver not in drivers}
    fence: Body = {
        "failurePolicy": "Fail",
        **_on("resourceclaims/status", CLAIM_VERSIONS, ["UPDATE"]),
        "matchConditions": _conditions(username),
        "variables": [
            {"name": "drivers", "expression": json.dumps(sorted(drivers))},
            # No driver has a slash in its name, so the texts of two pools are not equal.
            {"name": "pools", "expression": json.dumps(sorted(f"{each[0]}/{each[1]}" for each in named))},
            {"name": "others", "expression": _OWNED_BY_POOL},
        ],
        "validations": [_validation(_NONE, _IS_OWNED, text=_IS_OWNED_BY_POOL)],
    }
    return [_policy(OWNED_POLICY, fence), _binding(OWNED_POLICY, {})]


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


# --- expressions

_ADMITTED = "has(r.adminAccess) && r.adminAccess"
_RULE_OWNS = dedent(f"""\
    params.spec.taint.key == "{OWNED_KEY}"
      && params.spec.taint.effect == "NoSchedule"
      && (!has(params.spec.taint.value) || params.spec.taint.value == "")
      && has(params.spec.deviceSelector)
      && has(params.spec.deviceSelector.driver)""")
_OWNED_BY_RULE = dedent(f"""\
    object.status.allocation.devices.results.filter(r,
      !({_ADMITTED})
      && r.driver == params.spec.deviceSelector.driver
      && (!has(params.spec.deviceSelector.pool) || r.pool == params.spec.deviceSelector.pool)
      && (!has(params.spec.deviceSelector.device) || r.device == params.spec.deviceSelector.device))""")
_OWNED_BY_POOL = dedent(f"""\
    object.status.allocation.devices.results.filter(r,
      !({_ADMITTED})
      && (r.driver in variables.drivers || r.driver + "/" + r.pool in variables.pools))""")
_NONE = "variables.others.size() == 0"
_IS_OWNED = (
    "a device of this allocation is owned by dra-operator, which alone may allocate it: "
    "use another device, or ask the admin of this cluster"
)
_DEVICE = '"device " + variables.others[0].driver + "/" + variables.others[0].pool + "/" + variables.others[0].device'
_IS_OWNED_BY_RULE = dedent(f"""\
    !variables.owns || {_NONE} ? "" :
      {_DEVICE}
      + " is owned by dra-operator, which alone may allocate it (DeviceTaintRule " + params.metadata.name
      + "): use another device, or ask the admin of this cluster" """).rstrip()
_IS_OWNED_BY_POOL = dedent(f"""\
    {_NONE} ? "" :
      {_DEVICE}
      + " is owned by dra-operator, which alone may allocate it (ValidatingAdmissionPolicy {OWNED_POLICY}): "
      + "use another device, or ask the admin of this cluster" """).rstrip()
_TOLERANT = dedent(f"""\
    dyn(object.spec).?spec.orValue(dyn(object.spec)).?devices.?requests.orValue([]).filter(request,
      ([request.?exactly.?adminAccess.orValue(false) ? dyn([]) : request.?exactly.?tolerations.orValue([])]
        + request.?firstAvailable.orValue([]).map(alternative, alternative.?tolerations.orValue([])))
      .exists(tolerations, tolerations.exists(toleration,
        toleration.?effect.orValue("") in ["", "NoSchedule"]
        && (toleration.?operator.orValue("") == "Exists"
          ? toleration.?key.orValue("") in ["", "{OWNED_KEY}"]
          : toleration.?key.orValue("") == "{OWNED_KEY}" && toleration.?value.orValue("") == "")))
    ).map(request, request.name)""")
_REQUESTS = "spec.devices.requests: "
_TOLERATES = (
    f"tolerates the taint {OWNED_KEY}, whose devices dra-operator alone allocates, so the toleration gets no device, "
    f"and delays all pods: tolerate other taints by their keys, and not {OWNED_KEY}"
)
_IS_TOLERANT = dedent(f"""\
    (has(dyn(object.spec).spec) ? "spec." : "") + "{_REQUESTS}request " + variables.tolerant.join(", ")
      + " {_TOLERATES}" """).rstrip()
_NEW_OR_OLD_IS_OURS = dedent(f"""\
    object.spec.taint.key == "{OWNED_KEY}"
      || (oldObject != null && oldObject.spec.taint.key == "{OWNED_KEY}")""")
_NOT_CREATED = 'request.operation != "CREATE"'
_NOT_UPDATED = 'request.operation != "UPDATE"'
_ANEW = f"of a rule that owns devices ({OWNED_KEY}) cannot be changed: delete the rule and create another"
_VALUE = 'object.spec.taint.?value.orValue("")'


def _rules_validations() -> Iterator[Body]:
    """Yield what is asked of rules with our key: when they are created, and when they are changed."""
    yield _validation(
        f'{_NOT_CREATED} || object.spec.taint.effect == "NoSchedule"',
        f"spec.taint.effect: a taint {OWNED_KEY} owns devices only with the effect NoSchedule: write that",
        value="object.spec.taint.effect",
    )
    yield _validation(
        f'{_NOT_CREATED} || {_VALUE} == ""',
        f"spec.taint.value: a taint {OWNED_KEY} owns devices only without a value: leave it out",
        value=_VALUE,
    )
    yield _validation(
        f"{_NOT_CREATED} || (has(object.spec.deviceSelector) && has(object.spec.deviceSelector.driver))",
        f"spec.deviceSelector.driver: is required for a taint {OWNED_KEY}, which owns devices of one driver: name it",
    )
    yield _validation(
        f"{_NOT_UPDATED} || object.spec.taint.key == oldObject.spec.taint.key",
        f"spec.taint.key: the key {_ANEW}",
        value="object.spec.taint.key",
    )
    yield _validation(
        f"{_NOT_UPDATED} || object.spec.taint.effect == oldObject.spec.taint.effect",
        f"spec.taint.effect: the effect {_ANEW}",
        value="object.spec.taint.effect",
    )
    yield _validation(
        f"{_NOT_UPDATED} || {_VALUE} == {_VALUE.replace('object', 'oldObject')}",
        f"spec.taint.value: the value {_ANEW}",
        value=_VALUE,
    )
    yield _validation(
        f"{_NOT_UPDATED} || object.spec.?deviceSelector == oldObject.spec.?deviceSelector",
        f"spec.deviceSelector: the selector {_ANEW}",
    )


# --- parts of objects


def _on(resource: str, versions: Iterable[str], operations: list[str], *more: str) -> Body:
    rule = {
        "apiGroups": [RESOURCE_GROUP],
        "apiVersions": [*versions],
        "operations": operations,
        "resources": [resource, *more],
        # The default; a list of rules without it is another one to `kubectl apply` each time.
        "scope": "*",
    }
    return {"matchConstraints": {"resourceRules": [rule]}}


def _conditions(username: str, or_else: str = "") -> list[Body]:
    allocates = dedent("""\
        has(object.status) && has(object.status.allocation)
          && !(has(oldObject.status) && has(oldObject.status.allocation))
          && has(object.status.allocation.devices) && has(object.status.allocation.devices.results)""")
    return [
        {"name": "allocates", "expression": allocates},
        {"name": "others", "expression": f"{_NOT_FROM}{json.dumps(username)}{or_else}"},
    ]


_NOT_FROM: Final = "request.userInfo.username != "
_OR_DRY_RUN: Final = " || request.dryRun"
"""The operator finds out by a dry run of its own whether the API server knows a rule."""


def _validation(expression: str, message: str, *, value: str = "", text: str = "") -> Body:
    """Return a validation. Its message gets the value that `value` gives after the field, or is what `text` gives."""
    if value:
        field, _, rest = message.partition(": ")
        text = f'"{field}: " + {value} + ": {rest}"'
    texts = {"messageExpression": text} if text else {}
    return {"expression": expression, "message": message, **texts, "reason": "Forbidden"}


def _policy(name: str, spec: Body) -> Body:
    return {**_identity("ValidatingAdmissionPolicy", name), "spec": spec}


def _binding(name: str, params: Body) -> Body:
    spec = {"policyName": name, "validationActions": ["Deny"], **params}
    return {**_identity("ValidatingAdmissionPolicyBinding", name), "spec": spec}


def _identity(kind: str, name: str) -> Body:
    labels = {"app.kubernetes.io/name": "dra-operator", "app.kubernetes.io/part-of": "dra-operator"}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "labels": labels}}


# --- reading what is installed


def _read_fence(spec: Mapping[str, Any]) -> RulesFence | PoolsFence | None:
    """Return what the spec of a policy says about itself, if it says anything; whether it is so is not looked at."""
    conditions = {each.get("name"): str(each.get("expression")) for each in spec.get("matchConditions") or ()}
    username = _text(conditions.get("others", "").removeprefix(_NOT_FROM).removesuffix(_OR_DRY_RUN))
    if username is None:
        return None
    if param_kind := spec.get("paramKind"):
        return RulesFence(username, str(param_kind.get("apiVersion")).rpartition("/")[2])
    variables = {each.get("name"): str(each.get("expression")) for each in spec.get("variables") or ()}
    drivers, pools = _texts(variables.get("drivers", "")), _texts(variables.get("pools", ""))
    if drivers is None or pools is None:
        return None
    parted = (each.partition("/") for each in pools)
    return PoolsFence(username, frozenset(drivers), frozenset((driver, pool) for driver, _, pool in parted))


def _text(expression: str) -> str | None:
    found = _json(expression)
    return found if isinstance(found, str) else None


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


_PATHS: Final = {
    "policy": f"/apis/{GROUP}/v1/validatingadmissionpolicies/{OWNED_POLICY}",
    "binding": f"/apis/{GROUP}/v1/validatingadmissionpolicybindings/{OWNED_POLICY}",
}


@dataclass(frozen=True, slots=True)
class InstalledFence:
    """What the API server has: `fence` is None if it is not there, or not as it is published.

    `missing` is `policy` or `binding`, or empty; `denied` is the refusal to those who may not ask. `uid` is made of
    those of both. `serves_parameters` is False where the policy refuses everything for lack of its parameters' kind.
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
    fence, uid = fenced(*found), "/".join(str(each["metadata"].get("uid") or "") for each in found)
    if not isinstance(fence, RulesFence):
        return InstalledFence(fence, uid=uid)
    rules = replace(KINDS["DeviceTaintRule"], versions=(fence.version,))
    return InstalledFence(fence, uid=uid, serves_parameters=bool(await served(session, {rules.kind: rules})))


async def refuses(
    session: ApiSession,
    claims: Served,
    claim: ResourceClaim,
    device: tuple[str, str, str],
    *,
    timeout: float = 60,  # noqa: ASYNC109 - it is the limit of one exchange
) -> bool:
    """Return whether the policy refuses a device (driver, pool, name) to a claim without allocation, in a dry run.

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
        if f"ValidatingAdmissionPolicy '{OWNED_POLICY}'" in error.message:
            return True
        raise
    return False


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
