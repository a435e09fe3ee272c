"""What tests of `own`, `disown` and `owned` put into a cluster, and how they read what is said."""

import sys
from pathlib import Path

import factories
from cluster import V1, allocation, claim, resource_slice

# The small cluster of the controller's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))


DRIVER = "gpu.example.com"
KEY = "dra-operator.io/owned"
RULES = f"/apis/{V1}/devicetaintrules"
FENCE = "there is no ValidatingAdmissionPolicy dra-operator-owned"


def rule(name="ours", *, effect="NoSchedule", selector=None, **metadata):
    """A rule with the key of ownership."""
    return factories.taint_rule(
        name, {"driver": DRIVER, **(selector or {})}, key=KEY, effect=effect, **metadata
    )


def held_claim(name="held", device="gpu-0", pool="pool-1", **status):
    """A claim that holds a device."""
    return {**claim(name), "status": {"allocation": allocation(device, pool), **status}}


def template(name="monitor", **request):
    """A template for claims with one request."""
    body = claim(name, request=request)
    return {**body, "kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}


def mig_slices(*parts, pool="mig"):
    """The slices of a pool whose devices draw on one counter set, a quarter of it each."""
    place = {"driver": DRIVER, "nodeName": "node-1"}
    place["pool"] = {"name": pool, "generation": 1, "resourceSliceCount": 2}
    uses = [{"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}]
    counters = [{"name": "gpu", "counters": {"memory": {"value": "4"}}}]
    devices = [{"name": name, "consumesCounters": uses} for name in parts]
    return [
        {**resource_slice(name=f"{pool}-counters"), "spec": {**place, "sharedCounters": counters}},
        {**resource_slice(name=f"{pool}-parts"), "spec": {**place, "devices": devices}},
    ]


async def rules(cluster):
    """Return the rules that there are, by what they select."""
    found = await cluster.session.request("GET", RULES)
    return {tuple(each["spec"]["deviceSelector"].values()): each for each in found["items"]}


def lines(result, prefix):
    """Return what is said on stderr with a prefix, but for the fence."""
    return [
        line.removeprefix(f"{prefix}: ")
        for line in result.stderr.splitlines()
        if line.startswith(f"{prefix}: ") and FENCE not in line
    ]
