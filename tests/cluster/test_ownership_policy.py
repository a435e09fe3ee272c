"""The texts of the fence around devices that are ours, and what is read from installed ones."""

import copy

import pytest

from dra_operator.api.kinds import KINDS
from dra_operator.api.names import OWNED_POLICY, OWNED_RULES_POLICY
from dra_operator.api.read import read_object
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.ownership_policy import (
    OPERATOR,
    PoolsFence,
    RulesFence,
    fenced,
    policy_for_pools,
    policy_for_rules,
    refuses,
)
from dra_operator.cluster.session import ApiError, ApiUnreachable

POOLS = (("gpu.example.com", "node-1"), ("gpu.example.com", "rack/2"), ("nic.example.com", None))


def stored(objects):
    """Return a policy and its binding as an API server gives them back: with its defaults."""
    policy, binding = copy.deepcopy(objects[:2])
    constraints = policy["spec"]["matchConstraints"]
    constraints |= {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    for rule in constraints["resourceRules"]:
        rule["scope"] = "*"
    policy["metadata"] |= {"uid": "1", "generation": 1}
    policy["status"] = {"observedGeneration": 1}
    return policy, binding


def test_fence_by_rules_is_read_back():
    """Who is let in, and in which version the rules are read."""
    policy, binding = stored(policy_for_rules("jane", "v1beta2"))

    assert fenced(policy, binding) == RulesFence("jane", "v1beta2")


def test_fence_around_pools_is_read_back():
    """A pool may have a slash in its name."""
    policy, binding = stored(policy_for_pools(OPERATOR, POOLS))

    assert fenced(policy, binding) == PoolsFence(
        OPERATOR,
        frozenset({"nic.example.com"}),
        frozenset({("gpu.example.com", "node-1"), ("gpu.example.com", "rack/2")}),
    )


def test_layout_and_messages_may_be_others():
    """Neither covers anything; the API server may also warn and audit."""
    policy, binding = stored(policy_for_rules(OPERATOR))
    for each in policy["spec"]["validations"]:
        each["message"] = "ask the platform team"
        del each["messageExpression"]
        each["expression"] = f"{each['expression']}".replace(" ", "\n  ")
    binding["spec"]["validationActions"] = ["Deny", "Audit"]

    assert fenced(policy, binding) == RulesFence(OPERATOR, "v1")


def change(policy, binding, path, value):
    """Set one field of a policy or binding; the path begins with which of the two."""
    *parts, last = path.split(".")
    place = {"policy": policy, "binding": binding}
    for part in parts:
        place = place[int(part) if part.isdecimal() else part]
    place[int(last) if last.isdecimal() else last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policy.spec", None),
        ("policy.spec.failurePolicy", "Ignore"),
        ("policy.spec.paramKind.kind", "ConfigMap"),
        ("policy.spec.matchConstraints.namespaceSelector", {"matchLabels": {"a": "b"}}),
        ("policy.spec.matchConstraints.matchPolicy", "Exact"),
        ("policy.spec.matchConstraints.resourceRules.0.apiVersions", ["v1beta1"]),
        ("policy.spec.matchConditions.0.expression", "false"),
        ("policy.spec.matchConditions.1.expression", 'request.userInfo.username.startsWith("a")'),
        ("policy.spec.matchConditions.1.expression", f'request.userInfo.username != "{OPERATOR}"'),
        ("policy.spec.variables.0.expression", "false"),
        ("policy.spec.validations.0.expression", "true"),
        ("policy.spec.validations", []),
        ("binding.spec.policyName", "another"),
        ("binding.spec.validationActions", ["Warn"]),
        ("binding.spec.paramRef", {"name": "one", "parameterNotFoundAction": "Allow"}),
        ("binding.spec.matchResources", {"namespaceSelector": {"matchLabels": {"a": "b"}}}),
        ("binding.spec", None),
    ],
)
def test_changed_policy_is_no_fence(path, value):
    """What another expression covers is not known, so it counts as nothing."""
    policy, binding = stored(policy_for_rules(OPERATOR))
    change(policy, binding, path, value)

    assert fenced(policy, binding) is None


class Answering:
    """An API server that answers a dry run, and keeps what it was asked."""

    def __init__(self, error=None):
        self.error = error

    async def request(self, method, path, **request):
        """Keep the request, and let it pass or not."""
        self.asked = (method, path, request["params"], request["body"])
        if self.error is not None:
            raise self.error
        return {}


DENIED = (
    "resourceclaims.resource.k8s.io \"claim\" is forbidden: ValidatingAdmissionPolicy '{}' with binding '{}' denied "
    "request: device gpu.example.com/node-1/gpu-0 is owned by dra-operator"
)
CLAIMS = Served(KINDS["ResourceClaim"], "v1")


def waiting(request):
    """A claim without allocation."""
    body = {"metadata": {"namespace": "team", "name": "claim"}, "spec": {"devices": {"requests": [request]}}}
    return read_object({"kind": "ResourceClaim", **body}, "ResourceClaim")


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}, "gpu"),
        ({"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]}, "gpu/big"),
    ],
)
async def test_what_the_api_server_lets_pass_it_does_not_refuse(request_, name):
    """The question is a dry run that gives the claim the device, by the name of its first request."""
    server = Answering()

    assert not await refuses(server, CLAIMS, waiting(request_), ("gpu.example.com", "node-1", "gpu-0"))
    method, path, params, body = server.asked
    assert (method, path, params) == (
        "PATCH",
        "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/claim/status",
        {"dryRun": "All"},
    )
    result = {"request": name, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    assert body == {"status": {"allocation": {"devices": {"results": [result]}}}}


async def test_only_the_refusal_of_the_policy_counts():
    """Whoever else refuses, as another policy or the rights, says nothing about the rule."""
    claim, device = waiting({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}), ("d", "p", "n")
    ours, other = (DENIED.format(name, name) for name in (OWNED_POLICY, OWNED_RULES_POLICY))

    assert await refuses(Answering(ApiError(403, "Forbidden", ours)), CLAIMS, claim, device)
    for error in (ApiError(403, "Forbidden", other), ApiError(422, "Invalid", "no"), ApiUnreachable("away")):
        with pytest.raises(type(error)):
            await refuses(Answering(error), CLAIMS, claim, device)
