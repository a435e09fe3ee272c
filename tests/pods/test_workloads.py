"""The pods of workloads, and the claims of these pods."""

import json

import pytest
import yaml

from dra_operator.pods.workloads import KNOWN_WORKLOADS
from factories import manifest
from simulation import CLASS, claim, devices, node, states, table

TEMPLATE = manifest(
    "ResourceClaimTemplate",
    "one-gpu",
    {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
)
POD_SPEC = {
    "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
}


def workload(kind="Deployment", *, name="train", version=None, pod=POD_SPEC, **spec):
    """A workload whose pods want a GPU each."""
    return {
        "apiVersion": version or ("batch/v1" if kind == "Job" else "apps/v1"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": {"app": "train"}}, "spec": pod}, **spec},
    }


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": 3}, 3),
        ("StatefulSet", {"replicas": 2}, 2),
        ("ReplicaSet", {"replicas": 0}, 0),
        ("Job", {}, 1),
        ("Job", {"completions": 10, "parallelism": 2}, 2),
        ("Job", {"completions": 2, "parallelism": 3}, 2),
        ("Job", {"parallelism": 3}, 3),
        ("Job", {"parallelism": 3, "suspend": True}, 0),
    ],
)
def test_as_many_pods_want_claims_as_run_at_a_time(simulate, kind, spec, pods):
    """The defaults are those of the API; a Job runs no more pods than are left to complete."""
    result = simulate(CLASS, devices("a", "b", "c"), TEMPLATE, workload(kind, **spec))

    assert [row[0][:-5] for row in table(result)] == [
        f"default/train-{number}-gpu-" for number in range(pods)
    ]
    assert "ignored" not in result.stderr
    assert (f'{kind} "train": has no pods, so none of its claims is decided' in result.stderr) is (pods == 0)


def test_a_cron_job_counts_as_one_of_its_jobs(simulate):
    """Suspended or not: what is asked is whether a Job of it would get its devices."""
    job = workload("Job", parallelism=2)["spec"]
    body = {
        **workload("CronJob", version="batch/v1"),
        "spec": {"suspend": True, "jobTemplate": {"spec": job}},
    }
    wrong = {**body, "spec": {"jobTemplate": {"spec": {**job, "parallelism": "two"}}}}

    result = simulate(CLASS, devices("a", "b", "c"), TEMPLATE, body)

    assert [row[0][:-5] for row in table(result)] == ["default/train-0-gpu-", "default/train-1-gpu-"]
    message = 'CronJob "train": spec.jobTemplate.spec.parallelism: "two" is not a whole number'
    assert message in simulate(CLASS, wrong).stderr


def built(text, template):
    """The object that a text of YAML is, with a template in each place for one."""
    return yaml.safe_load(
        text.replace("TEMPLATE", json.dumps(template)).replace("PODSPEC", json.dumps(POD_SPEC))
    )


KINDS = {
    "JobSet": (
        """{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [
            {name: lead, template: {spec: {template: TEMPLATE}}},
            {name: work, replicas: 2, template: {spec: {parallelism: 3, completions: 2, template: TEMPLATE}}}]}}""",
        {"lead": 1, "work": 4},
    ),
    "JobSet that is suspended": (
        """{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {suspend: true, replicatedJobs: [
            {name: lead, template: {spec: {template: TEMPLATE}}}]}}""",
        {},
    ),
    "LeaderWorkerSet": (
        """{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {replicas: 2,
            leaderWorkerTemplate: {size: 4, leaderTemplate: TEMPLATE, workerTemplate: TEMPLATE}}}""",
        {"leader": 2, "worker": 6},
    ),
    "LeaderWorkerSet of one pod": (
        """{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {
            leaderWorkerTemplate: {workerTemplate: TEMPLATE}}}""",
        {"leader": 1},
    ),
    "RayCluster": (
        """{apiVersion: ray.io/v1, kind: RayCluster, spec: {headGroupSpec: {template: TEMPLATE}, workerGroupSpecs: [
            {groupName: a, replicas: 9, minReplicas: 0, maxReplicas: 2, numOfHosts: 2, template: TEMPLATE},
            {groupName: b, minReplicas: 1, template: TEMPLATE}, {groupName: c, template: TEMPLATE}]}}""",
        {"head": 1, "a": 4, "b": 1},
    ),
    "RayJob": (
        """{apiVersion: ray.io/v1, kind: RayJob, spec: {rayClusterSpec: {headGroupSpec: {template: TEMPLATE}}}}""",
        {"head": 1},
    ),
    "RayService": (
        """{apiVersion: ray.io/v1, kind: RayService, spec: {
            rayClusterConfig: {headGroupSpec: {template: TEMPLATE}}}}""",
        {"head": 1},
    ),
    "PyTorchJob": (
        """{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {pytorchReplicaSpecs: {
            Master: {template: TEMPLATE}, Worker: {replicas: 3, template: TEMPLATE}}}}""",
        {"master": 1, "worker": 3},
    ),
    "MPIJob that is suspended": (
        """{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, spec: {runPolicy: {suspend: true}, mpiReplicaSpecs: {
            Launcher: {template: TEMPLATE}}}}""",
        {},
    ),
    "Job of Volcano": (
        """{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, spec: {tasks: [
            {name: ps, replicas: 1, template: TEMPLATE}, {name: work, replicas: 2, template: TEMPLATE}]}}""",
        {"ps": 1, "work": 2},
    ),
    "PodClique": (
        "{apiVersion: grove.io/v1alpha1, kind: PodClique, spec: {replicas: 3, roleName: x, podSpec: PODSPEC}}",
        {"": 3},
    ),
    "ReplicationController": (
        "{apiVersion: v1, kind: ReplicationController, spec: {replicas: 2, template: TEMPLATE}}",
        {"": 2},
    ),
}
"""Workloads by what they are, and how many pods of each role they have."""


@pytest.mark.parametrize("name", KINDS)
def test_workloads_of_others_are_read_by_the_fields_of_their_kind(simulate, name):
    """The number of pods is the product of the fields that say it; roles are in the names."""
    text, roles = KINDS[name]
    body = {**built(text, {"spec": POD_SPEC}), "metadata": {"name": "train"}}

    result = simulate(CLASS, devices(*"abcdefghij"), TEMPLATE, body)

    assert sorted(row[0].rpartition("-")[0] for row in table(result)) == sorted(
        f"default/train{f'-{role}' if role else ''}-{number}-gpu"
        for role, count in roles.items()
        for number in range(count)
    )
    assert "ignored" not in result.stderr


def test_each_kind_of_workload_is_known_by_one_name():
    """What kubectl calls them is of one kind only, and a plural of two groups is that of the built-in one."""
    short = [name for known in KNOWN_WORKLOADS.values() for name in known.short]

    assert len({*short}) == len(short)
    assert [kind for group, kind in KNOWN_WORKLOADS].count("Job") == 2
    assert next(group for group, kind in KNOWN_WORKLOADS if kind == "Job") == "batch"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [
                {name: a, template: {spec: {template: TEMPLATE}}}, {name: b, replicas: two, template: {spec: {
                template: TEMPLATE}}}]}}""",
            'spec.replicatedJobs[1].replicas: "two" is not a whole number',
        ),
        (
            """{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [
                {name: a, template: {spec: {template: TEMPLATE}}}, {name: b}]}}""",
            "spec.replicatedJobs[1].template.spec.template: is no template of pods",
        ),
        (
            """{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {pytorchReplicaSpecs: {
                Worker: {replicas: 10001, template: TEMPLATE}}}}""",
            "spec.pytorchReplicaSpecs.Worker.replicas: 10001 pods are more than the 10,000 that are looked at",
        ),
    ],
)
def test_what_is_wrong_in_a_workload_of_others_is_named_by_its_path(simulate, text, message):
    """The place in the list, or the key of the map, is part of it."""
    body = {**built(text, {"spec": POD_SPEC}), "metadata": {"name": "train"}}

    result = simulate(CLASS, devices("a"), TEMPLATE, body)

    assert result.exit_code == 2
    assert message in result.stderr


def test_the_pods_are_those_of_the_template(simulate):
    """They are in the namespace of the workload, and what else they ask for counts as in any pod."""
    entry = {"name": "gpu", "resourceClaimName": "shared"}
    pod = {"nodeSelector": {"zone": "b"}, "containers": [{"name": "main"}], "resourceClaims": [entry]}
    body = workload(replicas=2, pod=pod)
    body["metadata"]["namespace"] = "team"

    result = simulate(CLASS, devices("a"), claim("shared", namespace="team"), body)

    assert states(result) == {"team/shared": "allocated"}
    assert "pod team/train-0 cannot use its claims, which are on node node-1" in result.stderr


def test_what_is_wrong_with_all_pods_is_told_once(simulate):
    """They come of one template, where it is mended."""
    result = simulate(CLASS, devices("a"), workload(replicas=3))

    told = [line for line in result.stderr.splitlines() if "there is no ResourceClaimTemplate" in line]
    assert len(told) == 1
    assert 'Pod "default/train-0"' in told[0]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ("three", '"three" is not a whole number'),
        (-1, "-1 is not a whole number"),
        (
            "${REPLICAS}",
            '"${REPLICAS}" is not a whole number; variables must be filled in first, as by envsubst',
        ),
        (10_001, "10001 pods are more than the 10,000 that are looked at"),
    ],
)
def test_a_number_of_pods_that_cannot_be_is_an_error(simulate, replicas, message):
    """Workload, field and value are named."""
    result = simulate(CLASS, devices("a"), TEMPLATE, workload(replicas=replicas))

    assert result.exit_code == 2
    assert f'Deployment "train": spec.replicas: {message}' in result.stderr


def test_the_pods_of_a_job_share_what_it_says(simulate):
    """The Job controller makes a PodGroup of them, with the claims of `spec.scheduling`."""
    body = workload("Job", parallelism=2, scheduling={"resourceClaims": POD_SPEC["resourceClaims"]})

    assert [row[0][:-5] for row in table(simulate(CLASS, devices("a"), TEMPLATE, body))] == [
        "default/train-gpu-"
    ]


def test_a_template_that_no_pod_uses_is_told(simulate):
    """Nothing is decided of it; those of a cluster need no mention."""
    stored = {**TEMPLATE, "metadata": {"name": "stored", "uid": "u"}}
    used = simulate(CLASS, devices("a"), TEMPLATE, workload())
    unused = simulate(CLASS, devices("a"), TEMPLATE, stored)

    assert "no pod here uses it" not in used.stderr
    assert unused.stderr.count("no pod here uses it, so no claim is made of it") == 1
    assert 'ResourceClaimTemplate "default/one-gpu": no pod here uses it' in unused.stderr
    assert unused.exit_code == 0


def daemons(**pod):
    """A DaemonSet whose pods want a GPU each."""
    return workload("DaemonSet", name="watch", pod={**POD_SPEC, **pod})


def labelled(name, spec=None, **labels):
    """A node with labels."""
    body = node(name, **(spec or {}))
    body["metadata"]["labels"] = labels
    return body


def claims(result):
    """Return what became of the claim of the pod on each node."""
    return {row[0].removeprefix("default/watch-").partition("-gpu-")[0]: row[1:3] for row in table(result)}


def test_each_node_has_a_pod_whose_claim_is_for_that_node(simulate):
    """A device of another node is of no use to it, however many there are."""
    result = simulate(CLASS, node("a"), node("b"), node("c"), devices("x", "z", on="b"), TEMPLATE, daemons())

    assert claims(result) == {"a": ["pending", "-"], "b": ["allocated", "b"], "c": ["pending", "-"]}
    assert table(result)[0][3].endswith(
        "request gpu: no devices are published; counted on a, to which its node affinity keeps the pod"
    )
    assert "ignored" not in result.stderr


TAINT = {"taints": [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("other", "pod", "has_pod"),
    [
        (labelled("b"), {}, True),
        (labelled("b"), {"nodeSelector": {"gpu": "yes"}}, False),
        (labelled("b", gpu="yes"), {"nodeSelector": {"gpu": "yes"}}, True),
        (labelled("b"), {"affinity": AFFINITY}, False),
        (labelled("b", gpu="yes"), {"affinity": AFFINITY}, True),
        (labelled("b", TAINT), {}, False),
        (labelled("b", TAINT), {"tolerations": [{"operator": "Exists"}]}, True),
        (labelled("b", TAINT), {"tolerations": [{"key": "gpu", "value": "a100"}]}, True),
        (labelled("b", TAINT), {"tolerations": [{"key": "gpu", "value": "h100"}]}, False),
        (labelled("b", TAINT), {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}, False),
        (labelled("b", {"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}), {}, True),
        (labelled("b", {"unschedulable": True}), {}, False),
    ],
)
def test_a_node_has_a_pod_if_it_fits(simulate, other, pod, has_pod):
    """By labels and taints; not if the node cannot be used, as no claim is allocated there."""
    result = simulate(CLASS, devices("x", on="b"), TEMPLATE, other, daemons(**pod))

    assert claims(result) == ({"b": ["allocated", "b"]} if has_pod else {})


@pytest.mark.parametrize(
    ("condition", "effect", "pod", "has_pod"),
    [
        ("not-ready", "NoExecute", {}, True),
        ("not-ready", "NoSchedule", {}, False),
        ("unreachable", "NoExecute", {}, True),
        ("disk-pressure", "NoSchedule", {}, True),
        ("disk-pressure", "NoExecute", {}, False),
        ("memory-pressure", "NoSchedule", {}, True),
        ("pid-pressure", "NoSchedule", {}, True),
        ("unschedulable", "NoSchedule", {}, True),
        ("network-unavailable", "NoSchedule", {}, False),
        ("network-unavailable", "NoSchedule", {"hostNetwork": True}, True),
        ("out-of-service", "NoExecute", {}, False),
    ],
)
def test_pods_tolerate_the_taints_of_some_conditions(simulate, condition, effect, pod, has_pod):
    """Those for which the DaemonSet controller adds a toleration."""
    tainted = node("b", taints=[{"key": f"node.kubernetes.io/{condition}", "effect": effect}])
    result = simulate(CLASS, devices("x", on="b"), TEMPLATE, tainted, daemons(**pod))

    assert claims(result) == ({"b": ["allocated", "b"]} if has_pod else {})


@pytest.mark.parametrize(
    "affinity", [{"nodeSelectorTerms": 1}, {"nodeSelectorTerms": [{"matchFields": [{}]}]}, 1]
)
def test_an_affinity_that_selects_no_nodes_is_an_error(simulate, affinity):
    """The API server would refuse it."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
    result = simulate(CLASS, devices("x"), TEMPLATE, daemons(affinity={"nodeAffinity": required}))

    assert result.exit_code == 2
    assert 'DaemonSet "watch": spec.template.spec.affinity.nodeAffinity: is no affinity that' in result.stderr


def test_a_claim_that_all_pods_name_is_told_where_it_is_of_no_use(simulate):
    """It is allocated once, on one node."""
    body = daemons(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    result = simulate(CLASS, node("a"), node("b"), devices("x", on="a"), claim("shared"), body)

    assert states(result) == {"default/shared": "allocated"}
    told = [line for line in result.stderr.splitlines() if "cannot use its claims" in line]
    assert len(told) == 1
    assert (
        'pod default/watch-b cannot use its claims: claim "gpu" is allocated on a, where the pod cannot run: 1 '
        "affinity metadata.name In b (a)" in told[0]
    )
