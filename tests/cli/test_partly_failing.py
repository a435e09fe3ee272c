"""Selectors that fail on devices which the search of an allocated claim did not reach, as `simulate` notes them."""

import pytest

import factories
from simulation import CLASS, devices, states

READY = "device.attributes['gpu.example.com'].ready"
WOULD_REFUSE = "; the claim was allocated before such a device was reached; kube-scheduler would refuse it"
ADVICE = "this device has no attributes; guard what not every device has by has(), or by .? and orValue()"


def published(node, *ready):
    """A pool of a node, of which some devices say that they are ready, and the others say nothing."""
    found = devices(*(f"gpu-{number}" for number in range(len(ready))), on=node)
    for device, is_ready in zip(found["spec"]["devices"], ready, strict=True):
        device["attributes"] = {"ready": {"bool": True}} if is_ready else {}
    return found


def claim(name="c", *expressions, device_class="gpu", requests=None):
    """A claim for a device with some selectors."""
    return factories.claim(name, *(requests or [factories.request("gpu", device_class, *expressions)]))


def notes(result):
    """Return what is noted about selectors."""
    return [line.removeprefix("note: ") for line in result.stderr.splitlines() if " fails on " in line]


@pytest.mark.parametrize(
    ("ready", "state", "failing"),
    [
        ((True, False, False), "allocated", "2 of 3 devices: gpu.example.com/node-2/gpu-0"),
        ((True, True, False), "allocated", "1 of 3 devices: gpu.example.com/node-3/gpu-0"),
        ((True, True, True), "allocated", None),
        ((False, True, False), "pending", None),
        ((False, False, False), "pending", None),
    ],
    ids=["first node", "first two nodes", "all nodes", "second node", "none"],
)
def test_a_claim_is_allocated_until_a_device_is_reached_on_which_its_selector_fails(
    simulate, ready, state, failing
):
    """And where it is, it is noted on how many devices the selector fails, and how on the first."""
    pools = [published(f"node-{number}", good) for number, good in enumerate(ready, 1)]

    result = simulate(CLASS, *pools, claim("c", READY))

    assert states(result) == {"default/c": state}
    text = f'ResourceClaim "default/c": request gpu: selector #0 fails on {failing}: no such key: ready; {ADVICE}'
    assert notes(result) == ([text + WOULD_REFUSE] if failing else [])


def test_the_selectors_of_a_class_are_told_by_its_name(simulate):
    """And asked about those devices only that the ones before them select."""
    selectors = ["device.driver == 'gpu.example.com'", READY]
    body = {
        **CLASS,
        "metadata": {"name": "ready"},
        "spec": {"selectors": [{"cel": {"expression": s}} for s in selectors]},
    }
    other = published("node-3", False)
    other["spec"]["driver"] = "nic.example.com"

    result = simulate(
        body, published("node-1", True), published("node-2", False), other, claim(device_class="ready")
    )

    (note,) = notes(result)
    assert 'ResourceClaim "default/c": class ready: selector #1 fails on 1 of 2 devices: ' in note
