"""`kubectl dra replay --check` on the real control plane: what kube-scheduler decided comes out the same again."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from controlplane.manifests import MANIFESTS
from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import StoreError, open_store
from factories import GPU, device_class, manifest, request, resource_slice, selectors

PROGRAM = Path(sys.executable).with_name("kubectl-dra")
PODS = int(os.environ.get("CHECKED_PODS", "100"))
NODES = 8
"""500 for the whole: `CHECKED_PODS=500`."""
BURST = 12


def device(name, kind, **fields):
    """A device of a kind."""
    return {"name": name, "attributes": {"kind": {"string": kind}}, **fields}


def slices(node, *, taints=()):
    """Two whole cards, one that can be shared, and one that is cut in halves by a counter."""
    card = device("card-0", "card", taints=list(taints)), device("card-1", "card")
    shared = device("shared", "shared", allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}})
    yield resource_slice(f"{node}-cards", [*card, shared], pool=node)

    def part(name, value):
        return device(
            name,
            "part",
            consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": value}}}],
            capacity={"memory": {"value": value}},
        )

    where = {"pool": f"{node}-parts", "count": 2, "nodeName": node}
    parts = [part("half-0", "40Gi"), part("half-1", "40Gi"), part("whole", "80Gi")]
    yield resource_slice(f"{node}-parts", parts, **where)
    counters = resource_slice(f"{node}-counters", [], **where)
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    yield counters


def is_a(kind):
    """The expression for devices of a kind."""
    return f'device.attributes["{GPU}"].kind == "{kind}"'


def of(kind, name="gpu", **exactly):
    """A request for devices of a kind."""
    return request(name, "gpu", is_a(kind), **exactly)


SHAPES = {
    "card": [of("card")],
    "cards": [of("card", count=2)],
    "share": [of("shared", capacity={"requests": {"memory": "20Gi"}})],
    "large-share": [of("shared", capacity={"requests": {"memory": "50Gi"}})],
    "half": [of("part", capacity={"requests": {"memory": "40Gi"}})],
    "whole": [of("part", capacity={"requests": {"memory": "80Gi"}})],
    "either": [
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": name, "deviceClassName": "gpu", "selectors": selectors(is_a(kind))}
                for name, kind in (("first", "card"), ("second", "part"))
            ],
        }
    ],
    "both": [of("card"), of("part", "part")],
}


@pytest.fixture
def record(full_scene, full_control_plane, tmp_path):
    """Record to a store, and return its URL."""
    access = MANIFESTS / "record" / "access.yaml"
    full_control_plane.kubectl("apply", "-f", str(access))
    config = full_control_plane.kubeconfig_for("dra-record", "dra-record")
    url = f"sqlite:///{tmp_path}/history.db"
    with (tmp_path / "record.log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "record", "--to", url, "--kubeconfig", config], stderr=log)
    yield url
    process.terminate()
    assert process.wait(90) == 0
    full_control_plane.kubectl("delete", "-f", str(access))


def lay_out(scene):
    """Create nodes, slices, the class and templates."""
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"},
    }
    names = [f"node-{number}" for number in range(NODES)]
    bodies = [manifest("Node", name, {}, status=status) for name in names]
    for body in bodies:
        scene.client.create("/api/v1/nodes", body)
    scene.client.create("/apis/resource.k8s.io/v1/deviceclasses", device_class())
    for name in names:
        for body in slices(name):
            scene.client.create("/apis/resource.k8s.io/v1/resourceslices", body)
    for name, requests in SHAPES.items():
        body = manifest("ResourceClaimTemplate", name, {"spec": {"devices": {"requests": requests}}})
        scene.client.create(
            f"/apis/resource.k8s.io/v1/namespaces/{scene.namespace}/resourceclaimtemplates", body
        )


def pod(number, shape):
    """A pod with a claim of a template."""
    resources = {"claims": [{"name": "gpu"}], "requests": {"cpu": "1"}}
    return {
        "metadata": {"name": f"pod-{number}"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": shape}],
        },
    }


def taint(client, random):
    """Let a node have a tainted card, or no more."""
    name = f"node-{random.randrange(NODES)}"
    path = f"/apis/resource.k8s.io/v1/resourceslices/{name}-cards"
    found = client.get(path)
    taints = random.choice(((), ({"key": "hot", "effect": "NoSchedule"},)))
    client.replace(path, {**found, "spec": next(slices(name, taints=taints))["spec"]})


def run_pods(scene, random):
    """Let pods come in bursts and go at random, and taints too, until each pod has had a node."""
    client, path = scene.client, f"/api/v1/namespaces/{scene.namespace}/pods"
    waiting = iter(range(PODS))
    while True:
        taint(client, random)
        burst = [*islice(waiting, BURST)]
        for number in burst:
            client.create(path, pod(number, random.choice([*SHAPES])))
        here = client.wait_for(
            path,
            lambda found: any(each["spec"].get("nodeName") for each in found["items"]) or not found["items"],
        )["items"]
        bound = [each["metadata"]["name"] for each in here if each["spec"].get("nodeName")]
        for name in random.sample(bound, min(len(bound), BURST)):
            if random.random() < 0.5:
                client.patch(f"{path}/{name}/status", {"status": {"phase": "Succeeded"}})
            client.delete(f"{path}/{name}")
        if not burst and not here:
            return


def ask(url):
    """Return the answer; if nothing differs the exit code is 0."""
    command = [PROGRAM, "replay", "--history", url, "--check", "-o", "json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout, found.stderr
    answer = json.loads(found.stdout)
    assert found.returncode == bool(answer.get("items"))
    return answer


@pytest.mark.timeout(3600)
def test_decisions_come_out_the_same(full_scene, record):
    """Each pod got on its node what the check decides again, with partitions, shares and pods that come and go."""
    client = full_scene.client
    lay_out(full_scene)

    def holds(kind, number, **more):
        def is_there(_):
            try:
                reader = Reader(open_store(record))
            except StoreError:
                return False
            span = Span(reader.span.until, reader.span.until + 1) if more else reader.span
            return len({row.uid for row in reader.read_states(span, kind)}) == number

        client.wait_for("/version", is_there, what=f"{number} {kind} in the record")

    holds("ResourceSlice", 3 * NODES)
    run_pods(full_scene, Random(7))  # noqa: S311 - a seed makes a run repeatable
    holds("Pod", PODS)
    holds("Pod", 0, now=True)

    answer = ask(record)
    assert answer["decisions"] == PODS
    # What the scheduler had not heard of when it decided is all that may make a difference.
    others = [each for each in answer.get("items", []) if each["difference"] not in ("Released", "Changed")]
    assert others == []
    assert answer["same"] > PODS / 2
