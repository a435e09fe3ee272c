"""Where pods can run, with what is there and with pods placed before; `simulate` is asked from outside."""

import pytest

from factories import manifest
from simulation import CLASS, claim, devices, states, table

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINT = {"key": "dedicated", "effect": "NoSchedule"}
SLICES = devices("a", "b", "c"), devices("a", "b", "c", on="node-2")


def node(name, *, labels=None, spec=None, **allocatable):
    """A node, of which is known what is said."""
    status = {"allocatable": allocatable} if allocatable else {}
    return manifest("Node", name, spec or {}, status=status, labels=labels or {})


def pod(name="p", *, uses=("c",), cpu=None, on=None, metadata=None, **spec):
    """A pod that names claims, by default one."""
    container = {"name": "main", **({"resources": {"requests": {"cpu": cpu}}} if cpu else {})}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": item, "resourceClaimName": item} for item in uses],
        **({"nodeName": on} if on else {}),
        **spec,
    }
    return manifest("Pod", name, spec, **(metadata or {}))


def volume_claim(name="data", volume="v", **metadata):
    """A claim that is bound to a volume."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    return manifest(
        "PersistentVolumeClaim", name, {"volumeName": volume}, annotations=annotations, **metadata
    )


def volume(name="v", **labels):
    """A volume."""
    return manifest("PersistentVolume", name, labels=labels)


DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
ZONE = "topology.kubernetes.io/zone"
SSD = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}


@pytest.mark.parametrize(
    ("nodes", "bodies", "told"),
    [
        ([node("node-1", spec={"taints": [TAINT]}), node("node-2")], [pod()], "1 taint dedicated:NoSchedule"),
        (
            [node("node-1"), node("node-2", labels={"disk": "ssd"})],
            [pod(affinity={"nodeAffinity": {REQUIRED: SSD}})],
            "1 affinity disk In ssd",
        ),
        (
            [node("node-1", cpu="4"), node("node-2")],
            [pod(cpu="2"), pod("there", uses=(), cpu="3500m", on="node-1")],
            "1 cpu (500m left of 4, 2 requested)",
        ),
        (
            [node("node-1", pods="1"), node("node-2")],
            [pod(), pod("there", uses=(), on="node-1")],
            "1 pods (0 left of 1)",
        ),
        (
            [node("node-1"), node("node-2")],
            [
                pod(hostNetwork=True, containers=[{"name": "m", "ports": [{"containerPort": 80}]}]),
                pod("there", uses=(), on="node-1", containers=[{"name": "m", "ports": [{"hostPort": 80}]}]),
            ],
            "1 ports 80/TCP (in use)",
        ),
        (
            [node("node-1", labels={ZONE: "b"}), node("node-2", labels={ZONE: "a"})],
            [pod(volumes=DATA), volume_claim(), volume(**{ZONE: "a"})],
            "1 volume v (zone a)",
        ),
    ],
    ids=["taint", "affinity", "cpu", "pods", "ports", "volume"],
)
def test_claims_go_where_the_pod_can_run(simulate, nodes, bodies, told):
    """And where there are no devices, what is against the other node is told."""
    result = simulate(CLASS, claim("c"), *nodes, *SLICES, *bodies)
    assert [row[1:3] for row in table(result)] == [["allocated", "node-2"]]

    result = simulate(CLASS, claim("c"), *nodes, SLICES[0], *bodies)
    assert result.exit_code == 1
    text = table(result)[0][3]
    if "affinity" in told:
        assert text == (
            "NoDevices: request gpu: no devices are published; counted on node-2, to which its node affinity keeps the "
            "pod"
        )
        return
    assert text == (
        f"NodeUnsuitable: its claim fits on 1 node, where the pod cannot run: {told} (node-1); on node-2: request gpu: "
        "no devices are published"
    )


def test_what_earlier_pods_request_is_not_left(simulate):
    """Each goes to the first node with devices and cores; the one that finds none waits, and takes nothing."""
    names = ("one", "two", "three", "four")
    pods = [pod(name, uses=(name,), cpu="3") for name in names]
    pods += [pod("little", uses=("little",), cpu="1")]
    nodes = node("node-1", cpu="4"), node("node-2", cpu="7")
    result = simulate(CLASS, *map(claim, (*names, "little")), *nodes, *SLICES, *pods)

    places = {row[0].removeprefix("default/"): row[2] for row in table(result)}
    assert places == {"four": "node-1", "little": "node-1", "one": "node-2", "three": "node-2", "two": "-"}
    (text,) = [row[3] for row in table(result) if row[1] == "pending"]
    assert text == (
        "NodeUnsuitable: its claim fits on 2 nodes, where the pod cannot run: 1 cpu (0 left of 4, 3 requested) "
        "(node-1), 1 cpu (1 left of 7, 3 requested) (node-2)"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"priority": 5}, {}),
        ({}, {"priority": -1}),
        ({"priorityClassName": "system-node-critical"}, {"priority": 1_000_000_000}),
        ({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}, {}),
        (
            {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}},
            {"metadata": {"creationTimestamp": "2026-01-02T00:00:00Z"}},
        ),
    ],
    ids=["higher priority", "than less than none", "of the system", "older than new", "older"],
)
def test_pods_come_in_the_order_of_kube_scheduler(simulate, one, other):
    """By priority, then by creation; how old their claims are does not matter."""
    old = {"creationTimestamp": "2025-01-01T00:00:00Z"}
    pods = pod("a", uses=("hers",), **other), pod("b", uses=("his",), **one)
    result = simulate(CLASS, claim("hers", **old), claim("his"), node("node-1"), devices("x"), *pods)

    assert states(result) == {"default/hers": "pending", "default/his": "allocated"}


def test_special_claims_go_where_the_pod_can_run(simulate):
    """As others do; and their pods have a place then."""
    served = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": "example.com/gpu"}}
    resources = {"requests": {"cpu": "3"}, "limits": {"example.com/gpu": "1"}}
    pods = [pod(name, uses=(), containers=[{"name": "m", "resources": resources}]) for name in ("one", "two")]
    nodes = node("node-1", cpu="4"), node("node-2", cpu="4", spec={"taints": [TAINT]})
    result = simulate(served, *nodes, *SLICES, *pods)

    assert [row[1:3] for row in table(result)] == [["allocated", "node-1"], ["pending", "-"]]
    assert table(result)[1][3] == (
        "NodeUnsuitable: its claim fits on 2 nodes, where the pod cannot run: 1 cpu (1 left of 4, 3 requested) "
        "(node-1), 1 taint dedicated:NoSchedule (node-2)"
    )


@pytest.mark.parametrize(
    "bodies",
    [
        [],
        [volume_claim(volume="")],
        [volume_claim(), volume()],
        [volume_claim(namespace="other", volume="gone")],
    ],
    ids=["not given", "not bound", "bound", "another namespace"],
)
def test_volume_claims_of_which_nothing_is_known_count_for_nothing(simulate, bodies):
    """Files may leave them out."""
    result = simulate(CLASS, claim("c"), node("node-1"), *SLICES[:1], pod(volumes=DATA), *bodies)

    assert (result.exit_code, states(result)) == (0, {"default/c": "allocated"})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({**volume(), "metadata": {}}, "PersistentVolume: metadata.name: is required, or a text in "),
        (
            {**volume(), "spec": {"nodeAffinity": {"required": []}}},
            'PersistentVolume "v": spec.nodeAffinity.required: [] is not an object',
        ),
        (
            volume_claim(volume=7),
            'PersistentVolumeClaim "data": spec.volumeName: 7 is not text: write it in ',
        ),
        (pod(cpu="much"), '"much" is not a quantity such as 16Gi or 500m'),
        (node("node-1", cpu="much"), 'Node "node-1": status.allocatable["cpu"]: "much" is not a quantity'),
        (
            pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": 7}}}),
            f'Pod "default/p": spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: 7 is not a list',
        ),
    ],
    ids=["no name", "volume", "volume claim", "quantity", "node", "affinity"],
)
def test_what_cannot_be_read_is_told(simulate, body, problem):
    """Object, field and value."""
    result = simulate(CLASS, claim("c"), body)

    assert result.exit_code == 2
    assert problem in result.stderr
