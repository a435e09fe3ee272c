"""How many copies of a template fit, and what `fit` says of what it cannot place."""

import pytest

from dra_operator import QuestionError
from factories import manifest, resource_slice
from small_cluster import CLASS, cluster, devices, holding, names, node, pod, template

EXTENDED = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": "example.com/gpu"}}


def test_the_first_copy_that_does_not_fit_is_explained():
    """The answer says how many fit, and why the next does not."""
    answer = cluster(holding("held", "n2", "gpu-1")).fit(template(2), 4)

    assert (answer.fits, answer.fitting, answer.reason) == (False, 1, "NotEnoughDevices")
    assert "at most 1 on one node (n2), 2 requested" in answer.message
    assert [(each.node, each.copies) for each in answer.nodes] == [("n1", 1)]


def test_a_claim_that_a_pod_names_is_shared_by_all_copies():
    """It is allocated with the first copy, and keeps the others to its node."""
    shared = {**holding("shared", "n1", "gpu-0"), "status": {}}
    entries = [{"name": "gpu", "resourceClaimName": "shared"}]

    answer = cluster(shared).fit(pod(cpu="3", entries=entries), 4)

    assert names(answer) == [("n1", ["gpu-0"]), ("n1", [])]
    assert answer.reason == "AllocatedNodeUnsuitable"


def test_a_workload_is_asked_about_by_its_pods():
    """Of a Deployment its pod template counts, whether it is in a cluster or not."""
    deployment = manifest(
        "Deployment", "train", {"replicas": 2, "template": {"spec": pod()["spec"]}}, namespace="team", uid="d"
    )

    answer = cluster().fit([template(), deployment], 9)

    assert (answer.subject, answer.fitting) == ('Deployment "team/train"', 4)
    assert answer.failing == 'Pod "team/train-4"'


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("apps/v1 Deployment", {"replicas": 64}, 64),
        ("apps/v1 StatefulSet", {}, 1),
        ("apps/v1 ReplicaSet", {"replicas": 0}, 1),
        ("batch/v1 Job", {"parallelism": 16, "completions": 3}, 3),
        ("batch/v1 Job", {"parallelism": 16, "suspend": True}, 16),
    ],
)
def test_the_pods_of_a_workload_are_counted_whatever_stands_beside_it(kind, spec, pods):
    """A template mostly stands in the same file; one that has no pods yet is asked about by one of them."""
    version, _, kind = kind.partition(" ")
    metadata = {"name": "train", "namespace": "team"}
    body = {"apiVersion": version, "kind": kind, "metadata": metadata}
    workload = {**body, "spec": {**spec, "template": {"spec": pod()["spec"]}}}

    assert cluster().fit([template(), workload]).asked == pods
    assert cluster().fit([template(), pod()]).asked == 1


def ray(head, workers):
    """A RayCluster whose head and workers have these entries."""
    spec = {
        "headGroupSpec": {"template": {"spec": pod(entries=head)["spec"]}},
        "workerGroupSpecs": [
            {"groupName": "small", "replicas": 2, "template": {"spec": pod(entries=workers)["spec"]}}
        ],
    }
    metadata = {"name": "ray", "namespace": "team"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def test_a_claim_that_pods_of_two_templates_name_is_allocated_once():
    """What the first of them gets keeps the others to its node."""
    shared = [{"name": "gpu", "resourceClaimName": "shared"}]
    both = [*shared, {"name": "own", "resourceClaimTemplateName": "gpu"}]
    state = cluster({**holding("shared", "n1", "gpu-0"), "status": {}}, template())

    answer = state.fit(ray(shared, both))

    assert names(answer) == [("n1", ["gpu-0"]), ("n1", ["gpu-1"])]
    assert (answer.asked, answer.failing) == (3, 'Pod "team/ray-small-1"')


def test_number_of_copies_is_not_that_of_pods_that_differ():
    """All of them are asked about, once."""
    with pytest.raises(QuestionError, match="has pods that differ"):
        cluster(template()).fit(ray(None, None), 2)


def test_claims_of_a_jobs_group_are_shared_by_its_pods():
    """The Job controller makes a PodGroup, which gets the claims of `spec.scheduling`."""
    entries = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    spec = {"parallelism": 3, "scheduling": {"resourceClaims": entries}, "template": {"spec": pod()["spec"]}}
    metadata = {"name": "train", "namespace": "team"}

    answer = cluster().fit(
        [template(), {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]
    )

    assert names(answer) == [("n1", ["gpu-0"]), ("n1", []), ("n1", [])]


def test_objects_of_the_cluster_are_named():
    """A pod, a template or a class is asked about by kind, namespace and name; a pod as if it had no node."""
    asked = cluster(template(), pod("old", uid="old", nodeName="n2"))

    assert [
        asked.fit(subject, 9).fitting
        for subject in (
            "ResourceClaimTemplate/team/gpu",
            "deviceclass/gpu",
            "pod/team/old",
            "template/team/gpu",
        )
    ] == [4, 4, 4, 4]


def test_hypothetical_devices_and_nodes_stand_beside():
    """Nodes and slices that are given lie over those of the cluster, for this question."""
    asked = cluster()

    assert asked.fit([template(), node("n3"), devices("n3", "gpu-0")], 9).fitting == 5
    assert asked.fit(template(), 9).fitting == 4


def test_extended_resources_are_placed_with_the_claims():
    """What a pod asks for by the name of a resource is taken from the class that serves it, on the same node."""
    containers = [{"name": "main", "image": "none", "resources": {"limits": {"example.com/gpu": "1"}}}]

    asked = cluster(EXTENDED)

    assert {each.claim for each in asked.explain([pod(entries=[], containers=containers)]).devices} == {
        "extended resources"
    }
    assert names(asked.fit(pod(entries=[], containers=containers), 9)) == [
        ("n1", ["gpu-0"]),
        ("n1", ["gpu-1"]),
        ("n2", ["gpu-0"]),
        ("n2", ["gpu-1"]),
    ]
    assert names(asked.fit([template(), pod(containers=containers)], 9)) == [
        ("n1", ["gpu-0", "gpu-1"]),
        ("n2", ["gpu-0", "gpu-1"]),
    ]


OWNED = {"key": "dra-operator.io/owned", "effect": "NoSchedule"}


def test_a_gated_pod_gets_devices_of_the_operator():
    """Its claims are the operator's to decide, on the devices that are owned; those of others are kube-scheduler's."""
    asked = cluster(devices("n1", "gpu-0", taints=[OWNED]))
    gated = pod(schedulingGates=[{"name": "dra-operator.io/allocation"}])

    assert names(asked.fit([template(), gated], 9)) == [("n1", ["gpu-0"])]
    assert names(asked.fit([template(), pod()], 9)) == [("n2", ["gpu-0"]), ("n2", ["gpu-1"])]


def test_what_fits_cannot_be_said_where_claims_cannot_be_read():
    """Who may not list claims learns what would fit if nobody else held the devices, and which right is missing."""
    unread = {"ResourceClaim": 'User "jane" cannot list resource "resourceclaims"'}

    yes, no = (cluster(unread=unread).fit(template(), copies) for copies in (4, 5))

    assert (yes.fits, no.fits) == (True, False)
    assert {yes.partial, no.partial} == {
        ('ResourceClaim cannot be read: User "jane" cannot list resource "resourceclaims"',)
    }
    assert {yes.conclusion, no.conclusion} == {"cannot say"}


def test_nothing_is_said_without_slices():
    """Without the right to list slices there is no answer, not one that says no."""
    with pytest.raises(
        QuestionError, match="ResourceSlice cannot be read, so nothing can be said: forbidden"
    ):
        cluster(unread={"ResourceSlice": "forbidden"}).fit(template())


@pytest.mark.parametrize(
    ("subject", "copies", "message"),
    [
        pytest.param(template(), 0, "copies: 0 is not from 1 to 10,000", id="no copies"),
        pytest.param(template(), 10**9, "copies: 1000000000 is not from 1 to 10,000", id="too many copies"),
        pytest.param("Pod/team/absent", 1, 'there is no Pod "team/absent"', id="unknown pod"),
        pytest.param(
            "DeviceClass/gpus", 1, 'there is no DeviceClass "gpus"; did you mean "gpu"?', id="near name"
        ),
        pytest.param("Node/n1", 1, 'Node "n1": is none of Pod, ResourceClaim', id="kind without copies"),
        pytest.param("/absent.yaml", 1, "/absent.yaml: No such file or directory", id="no file"),
        pytest.param([], 1, "there is no object in what is given", id="nothing"),
        pytest.param([17], 1, "object 1: 17 is neither a mapping nor the path of a file", id="a number"),
        pytest.param(
            [template(), template(name="b")], 1, "several objects are asked about", id="two templates"
        ),
        pytest.param(pod(), 1, 'entry "gpu": there is no ResourceClaimTemplate "team/gpu"', id="no template"),
        pytest.param(
            pod(containerz=1),
            1,
            'spec.containerz: unknown field; did you mean "containers"?',
            id="unknown field",
        ),
        pytest.param(
            template(allocationMode="Some"),
            1,
            "allocationMode",
            id="a template that the API server would refuse",
        ),
        pytest.param(
            [template(), {**devices("n1", "gpu-0"), "metadata": {"name": "second"}}],
            1,
            "what is given contradicts what is published",
            id="slices of a pool that is complete",
        ),
        pytest.param(
            [template(), resource_slice("second", [{"name": "gpu-9"}], pool="n1", generation=0)],
            1,
            'ResourceSlice "second": spec.pool.generation: 0: pool "n1" is published in generation 1',
            id="a slice of an older generation",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(subject, copies, message):
    """Object, field and value are named, and no part of an answer is given."""
    with pytest.raises(QuestionError) as raised:
        cluster().fit(subject, copies)

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_copies_that_name_one_claim_are_as_many_as_it_can_be_reserved_for():
    """A claim is reserved for 256 pods, and what keeps the next one out is said."""
    big = [node(name, cpu="999") for name in ("n1", "n2")]
    for each in big:
        each["status"]["allocatable"]["pods"] = "999"
    entries = [{"name": "gpu", "resourceClaimName": "shared"}]

    answer = cluster(*big, holding("shared", "n1", "gpu-0")).fit(pod(cpu="1m", entries=entries), 300)

    assert (answer.fits, answer.fitting, answer.reason) == (False, 256, "ClaimReservedTooOften")
    assert answer.message == 'ResourceClaim "shared" is reserved for 256 pods, and no more can use it'


APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
SPREAD = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("spec", "unchecked"),
    [
        ({"affinity": {"podAntiAffinity": APART}}, ["pod affinity is not looked at"]),
        ({"affinity": {"podAffinity": APART}}, ["pod affinity is not looked at"]),
        ({"topologySpreadConstraints": [SPREAD]}, ["topology spread is not looked at"]),
        ({"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]}, []),
        ({"topologySpreadConstraints": ["apart"], "affinity": {"podAffinity": "near"}}, []),
        ({"topologySpreadConstraints": 3, "affinity": {"podAntiAffinity": [APART]}}, []),
    ],
)
def test_a_yes_lacks_what_is_not_looked_at(spec, unchecked):
    """A no stays one."""
    asked = cluster(template())

    fits = asked.fit(pod(**spec), 1)

    assert (fits.fits, [*fits.partial]) == (True, unchecked)
    assert (fits.conclusion == "yes") is not bool(unchecked)
    assert asked.fit(pod(**spec), 5).conclusion == "no"
    assert [*asked.headroom(pod(**spec)).partial] == unchecked
