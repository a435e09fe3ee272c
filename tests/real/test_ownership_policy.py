"""The fence around devices that are ours, on the real API server: who is refused, where, and with which words."""

import time
from contextlib import contextmanager

import pytest

from controlplane import (
    Scene,
    clear_cluster,
    fresh_namespace,
)
from controlplane.client import MERGE_PATCH
from controlplane.fencing import ADMISSION, DRIVER, RULES, Fenced, install, installed, remove, rule
from controlplane.fleet import DRIVER as FLEET
from controlplane.fleet import create_fleet
from controlplane.manifests import install_fence
from dra_operator.api.names import OWNED_KEY as KEY
from dra_operator.api.names import OWNED_POLICY, OWNED_RULES_POLICY
from dra_operator.cluster.ownership_policy import (
    OPERATOR,
    PoolsFence,
    RulesFence,
    policy_for_pools,
    policy_for_rules,
)


@contextmanager
def without_policy_for_rules(fence):
    """Be without what keeps bad rules out inside the `with` block."""
    fence.client.delete(f"{ADMISSION}/validatingadmissionpolicybindings/{OWNED_RULES_POLICY}")
    yield
    install_fence(fence.scene.plane)


@pytest.fixture
def fence(fenced_plane):
    """Return a namespace there, and who acts in it."""
    with fresh_namespace(fenced_plane) as name:
        yield Fenced(Scene(fenced_plane, name))
    clear_cluster(fenced_plane)


def test_manifest_is_what_the_operator_takes_for_a_fence(fence):
    """As the API server gives it back, defaults and all."""
    assert installed(fence.client) == RulesFence(OPERATOR, "v1")


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("user", ["scheduler", "admin"])
def test_nobody_else_allocates_an_owned_device(fence, user, version):
    """Whatever rights they have, and in whichever version they write."""
    name = fence.own(pool="node-1")
    answer = fence.allocate(user, ("node-2", "gpu-0"), ("node-1", "gpu-0"), version=version)

    assert answer.status == 403
    assert (
        "device gpu.example.com/node-1/gpu-0 is owned by dra-operator, which alone may allocate it "
        f"(DeviceTaintRule {name})" in answer.body["message"]
    )


def test_operator_allocates_an_owned_device(fence):
    """It is the only one. Its dry runs are refused, by which it learns that the API server knows the rule."""
    fence.own(pool="node-1")

    assert fence.allocate("operator", ("node-1", "gpu-0"), query="").status == 200
    assert fence.allocate("operator", ("node-1", "gpu-0")).status == 403
    assert fence.allocate("operator", ("node-2", "gpu-0")).status == 200


def test_admin_access_passes(fence):
    """It holds nothing."""
    fence.own(pool="node-1")

    assert fence.allocate("scheduler", ("node-1", "gpu-0"), admin_access=True).status == 200


def test_what_is_allocated_is_reserved_and_cleared_by_others(fence):
    """Only the first allocation is refused: kube-scheduler reserves our claims for pods, and kubectl clears them."""
    fence.own(pool="node-1")
    fence.scene.create_claim("held", "any.example.com")
    path = f"{fence.scene.claims}/held/status"
    result = {"request": "devices", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
    allocation = {"status": {"allocation": {"devices": {"results": [result]}}}}
    user = {"resource": "pods", "name": "user", "uid": "1"}

    for name, status in (
        ("operator", allocation),
        ("scheduler", {"status": {"reservedFor": [user]}}),
        ("admin", {"status": None}),
    ):
        answer = fence.users[name].request("PATCH", path, status, content_type=MERGE_PATCH)
        assert answer.ok, answer.body


def test_rule_that_is_being_deleted_still_counts(fence):
    """The operator keeps it until its own writes are answered."""
    name = fence.own(pool="node-1")
    fence.client.patch(f"{RULES}/{name}", {"metadata": {"finalizers": [KEY]}})
    fence.client.delete(f"{RULES}/{name}")

    assert fence.client.get(f"{RULES}/{name}")["metadata"]["deletionTimestamp"]
    assert fence.allocate("scheduler", ("node-1", "gpu-0")).status == 403

    fence.client.patch(f"{RULES}/{name}", {"metadata": {"finalizers": None}})
    fence.wait(lambda: fence.allocate("scheduler", ("node-1", "gpu-0")).status == 200)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("value", {"value": "team-a", "selector": {"driver": DRIVER}}),
        ("effect", {"effect": "NoExecute", "selector": {"driver": DRIVER}}),
        ("no-driver", {"selector": {}}),
        ("no-selector", {}),
        ("another", {"key": "dra-operator.io/Owned", "selector": {"driver": DRIVER}}),
    ],
)
def test_rule_that_owns_nothing_fences_nothing(fence, name, spec):
    """One that was there before the policies may be of any sort."""
    with without_policy_for_rules(fence):
        fence.wait(lambda: fence.client.request("POST", RULES, rule(name, **spec)).status in (201, 409))
    fence.own(pool="node-1")

    assert fence.allocate("scheduler", ("node-2", "gpu-0")).status == 200


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"effect": "NoExecute", "selector": {"driver": DRIVER}},
            f"spec.taint.effect: NoExecute: a taint {KEY} owns devices only with the effect NoSchedule: write that",
        ),
        (
            {"value": "team-a", "selector": {"driver": DRIVER}},
            f"spec.taint.value: team-a: a taint {KEY} owns devices only without a value: leave it out",
        ),
        (
            {"selector": {}},
            f"spec.deviceSelector.driver: is required for a taint {KEY}, which owns devices of one driver: name it",
        ),
        ({}, f"spec.deviceSelector.driver: is required for a taint {KEY}"),
        ({"selector": {"pool": "node-1"}}, f"spec.deviceSelector.driver: is required for a taint {KEY}"),
    ],
)
def test_rule_that_would_own_nothing_is_refused(fence, spec, said):
    """Its field, its value and what to do are named, and so is the rule."""
    answer = fence.client.request("POST", RULES, rule("bad", **spec))

    assert answer.status == 403
    assert '"bad"' in answer.body["message"]
    assert said in answer.body["message"]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"taint": {"key": "example.com/other"}}, "spec.taint.key: example.com/other: the key of a rule"),
        ({"taint": {"effect": "NoExecute"}}, "spec.taint.effect: NoExecute: the effect of a rule"),
        ({"taint": {"value": "team-a"}}, "spec.taint.value: team-a: the value of a rule"),
        ({"deviceSelector": {"pool": "node-2"}}, "spec.deviceSelector: the selector of a rule"),
        ({"deviceSelector": {"pool": None}}, "spec.deviceSelector: the selector of a rule"),
        ({"deviceSelector": None}, "spec.deviceSelector: the selector of a rule"),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_rule_that_owns_devices_is_not_changed(fence, patch, said, version):
    """So that it is certain since when it has been in force."""
    path = f"{RULES}/{fence.own(pool='node-1')}".replace("/v1/", f"/{version}/", 1)
    answer = fence.client.request("PATCH", path, {"spec": patch}, content_type=MERGE_PATCH)

    assert answer.status == 403
    assert said in answer.body["message"]
    assert "cannot be changed: delete the rule and create another" in answer.body["message"]


def test_other_rule_does_not_become_one_that_owns_devices(fence):
    """Only a new rule has a beginning."""
    fence.client.create(RULES, rule("other", key="example.com/broken", selector={"driver": DRIVER}))
    patch = {"spec": {"taint": {"key": KEY}}}
    answer = fence.client.request("PATCH", f"{RULES}/other", patch, content_type=MERGE_PATCH)

    assert answer.status == 403
    assert f"spec.taint.key: {KEY}: the key of a rule" in answer.body["message"]


def test_metadata_of_a_rule_may_change(fence):
    """By the operator too, which has the right to it: it puts finalizer and annotation there."""
    name = fence.own(pool="node-1")
    metadata = {"finalizers": [KEY], "annotations": {"dra-operator.io/settled": "1"}}
    patch = {"metadata": metadata}
    answer = fence.users["operator"].request("PATCH", f"{RULES}/{name}", patch, content_type=MERGE_PATCH)

    assert answer.status == 200, answer.body
    assert answer.body["metadata"]["annotations"] == metadata["annotations"]
    assert answer.body["metadata"]["generation"] == 1


def test_bad_rule_of_before_loses_its_finalizer(fence):
    """What is asked of new rules keeps nobody from deleting an old one."""
    body = rule("old", effect="NoExecute", value="team-a")
    body["metadata"]["finalizers"] = [KEY]
    with without_policy_for_rules(fence):
        fence.wait(lambda: fence.client.request("POST", RULES, body).status in (201, 409))
    fence.client.delete(f"{RULES}/old")
    patch = {"metadata": {"finalizers": None}}
    answer = fence.client.request("PATCH", f"{RULES}/old", patch, content_type=MERGE_PATCH)

    assert answer.ok, answer.body


def test_many_rules_and_a_large_claim_cost_no_more_than_is_allowed(fence):
    """A claim with as many devices as it can have is judged by each of 60 rules."""
    for number in range(60):
        fence.client.create(
            RULES, rule(f"ours-{number}", selector={"driver": DRIVER, "pool": f"p-{number}", "device": "d"})
        )
    name = fence.own(pool="node-1", device="gpu-31")
    others = [("node-2", f"gpu-{number}") for number in range(32)]

    assert fence.allocate("scheduler", *others).status == 200
    refused = fence.allocate("scheduler", *others[:31], ("node-1", "gpu-31"))
    assert refused.status == 403
    assert f"(DeviceTaintRule {name})" in refused.body["message"]


@pytest.fixture
def fence_around_pools(fence):
    """Put up a fence around many pools, that needs no rules, beside the other one."""
    pools = [(DRIVER, f"node-{number}") for number in range(1000)]
    objects = policy_for_pools(OPERATOR, pools)
    for each in objects:
        each["metadata"]["name"] = "pools"
    objects[1]["spec"]["policyName"] = "pools"
    install(fence.scene, objects)
    fence.wait(lambda: fence.allocate("admin", ("node-1", "gpu-0")).status == 403)
    yield fence
    remove(fence.client, "pools")


def test_fence_around_pools_needs_no_rules(fence_around_pools):
    """It serves API servers that do not know DeviceTaintRule; a thousand pools and 32 devices are not too many."""
    fence = fence_around_pools
    others = [("rack", f"gpu-{number}") for number in range(32)]
    refused = fence.allocate("scheduler", ("rack", "gpu-0"), ("node-999", "gpu-7"))

    assert isinstance(installed(fence.client, "pools"), PoolsFence)
    assert refused.status == 403
    assert "device gpu.example.com/node-999/gpu-7 is owned by dra-operator" in refused.body["message"]
    assert fence.allocate("scheduler", *others).status == 200
    assert fence.allocate("operator", ("node-999", "gpu-7"), query="").status == 200
    assert fence.allocate("scheduler", ("node-999", "gpu-7"), admin_access=True).status == 200


def test_policy_that_was_deleted_and_created_again_is_blind_until_the_api_server_is_restarted(fence):
    """A fault of Kubernetes 1.37: it goes on with the rules of before. A dry run tells."""
    before = fence.own(pool="node-1")
    remove(fence.client, OWNED_POLICY)
    fence.wait(lambda: fence.allocate("scheduler", ("node-1", "gpu-0")).status == 200)
    # The API server looks at policies each second.
    time.sleep(3)
    install_fence(fence.scene.plane)
    fence.wait(lambda: fence.allocate("scheduler", ("node-1", "gpu-0")).status == 403)
    create_fleet(fence.client, nodes=2, devices=1)
    fence.scene.create_claim("waits", FLEET)
    fence.client.create(RULES, rule("later", selector={"driver": DRIVER, "pool": "node-2"}))
    fence.client.delete(f"{RULES}/{before}")
    assert fence.allocate("scheduler", ("node-2", "gpu-0")).status == 200
    assert fence.allocate("scheduler", ("node-1", "gpu-0")).status == 403

    with fence.scene.plane.outage():
        pass
    fence.wait(lambda: fence.allocate("scheduler", ("node-2", "gpu-0")).status == 403)
    assert fence.allocate("scheduler", ("node-1", "gpu-0")).status == 200


def test_api_server_finds_no_fault_with_the_expressions(full_scene):
    """Its controller checks their types against the API's schema."""
    objects = policy_for_rules(OPERATOR)
    for each in objects:
        # Other tests may want the fence on this API server, which is put up only once.
        each["metadata"]["name"] += "-checked"
    policies = objects[::2]
    names = [each["metadata"]["name"] for each in policies]
    install(full_scene, policies)
    try:
        for name in names:
            path = f"{ADMISSION}/validatingadmissionpolicies/{name}"
            found = full_scene.client.wait_for(
                path, lambda policy: (policy.get("status") or {}).get("observedGeneration")
            )
            assert (found["status"].get("typeChecking") or {}).get("expressionWarnings", []) == []
    finally:
        remove(full_scene.client, *names)
