"""Policies of a cluster that change what the operator writes."""

import pytest

from controlplane.fleet import DRIVER, create_fleet
from controlplane.scene import PENDING, annotations

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["resource.k8s.io"],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["resourceclaims"],
            }
        ]
    },
    "reinvocationPolicy": "Never",
    "mutations": [
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": f'Object{{metadata: Object.metadata{{annotations: {{"{PENDING}": "of a policy"}}}}}}'
            },
        }
    ],
}
"""Puts our annotation on each claim that it is bound to, whatever somebody writes."""


@pytest.fixture
def policy(scene):
    """Return a scene where that is so."""
    metadata, client = {"name": "stubborn"}, scene.client
    client.create(f"{ADMISSION}/mutatingadmissionpolicies", {"metadata": metadata, "spec": POLICY})
    # In this namespace alone: the API server goes on for a moment after the end, with the tests that follow.
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}}
    binding = {"metadata": metadata, "spec": {"policyName": "stubborn", "matchResources": here}}
    client.create(f"{ADMISSION}/mutatingadmissionpolicybindings", binding)

    # It takes the API server a moment.
    numbers = iter(range(1000))

    def works():
        name = f"probe-{next(numbers)}"
        scene.create_claim(name, "absent.example.com", labels={"dra-operator.io/allocate": "false"})
        return PENDING in annotations(scene.claim(name))

    client.wait_for(scene.claims, lambda _: works(), what="the policy")
    yield scene
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        client.delete(f"{ADMISSION}/{kind}/stubborn")


def test_a_claim_gets_its_devices_although_a_policy_keeps_our_annotation_on_it(policy, operator):
    """What it says is not true then, which the log tells; that is no reason to let it wait."""
    create_fleet(policy.client, nodes=1, devices=1)
    policy.create_claim("claim", DRIVER)

    claim = policy.wait_allocated("claim")
    assert annotations(claim)[PENDING] == "of a policy"

    def told():
        lines = [line for line in operator.lines() if line.get("event") == "write refused"]
        return [line["why"] for line in lines if line["claim"].endswith("/claim")]

    operator.wait_until(told)
    assert "metadata.annotations is not as sent" in told()[0]
