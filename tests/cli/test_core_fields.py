"""Fields that pods, nodes and namespaces do not have, as `simulate` tells them."""

import pytest

from simulation import CLASS, V1, claim, devices, table

PAIR = {"name": "gpu", "resourceClaimName": "pair"}


def pod(*, top=None, container=None, **spec):
    """A pod that uses a claim."""
    containers = [{"name": "main", "image": "none", **(container or {})}]
    metadata = {"name": "user"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }
    return {**body, **(top or {})}


def errors(result):
    """Return what is wrong, without the place."""
    return [line.partition("): ")[2] for line in result.stderr.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (pod(resourceclaims=[PAIR]), 'spec.resourceclaims: unknown field; did you mean "resourceClaims"?'),
        (pod(restartpolicy="Never"), 'spec.restartpolicy: unknown field; did you mean "restartPolicy"?'),
        (
            pod(resourceClaims=[{"name": "gpu", "resourceclaimname": "pair"}]),
            'spec.resourceClaims[0].resourceclaimname: unknown field; did you mean "resourceClaimName"?',
        ),
        (
            pod(resourceClaims=[{"name": "gpu", "source": {"resourceClaimName": "pair"}}]),
            "spec.resourceClaims[0].source: unknown field; since Kubernetes 1.31 its fields are next to the name",
        ),
        (
            pod(container={"resources": {"claim": [{"name": "gpu"}]}}, resourceClaims=[PAIR]),
            'spec.containers[0].resources.claim: unknown field; did you mean "claims"?',
        ),
        (
            pod(container={"resourceClaims": [{"name": "gpu"}]}, resourceClaims=[PAIR]),
            (
                "spec.containers[0].resourceClaims: unknown field; write resources.claims, "
                "of entries in spec.resourceClaims"
            ),
        ),
        (
            pod(affinity={"nodeAffinity": {"requiredDuringScheduling": {}}}),
            (
                "spec.affinity.nodeAffinity.requiredDuringScheduling: unknown field; "
                'did you mean "requiredDuringSchedulingIgnoredDuringExecution"?'
            ),
        ),
        (pod(top={"sepc": {}}), 'sepc: unknown field; did you mean "spec"?'),
    ],
    ids=[
        "claims",
        "another",
        "of an entry",
        "of 1.30",
        "of resources",
        "of a container",
        "far below",
        "at the top",
    ],
)
def test_a_field_that_a_pod_does_not_have_is_an_error(simulate, body, error):
    """Its path, and what was meant or what to do, as of a claim; kubectl refuses the pod."""
    result = simulate(CLASS, devices("gpu-0", "gpu-1"), claim("pair", 2), body)

    assert result.exit_code == 2
    assert errors(result) == [f'Pod "user": {error}']
    assert [row[:2] for row in table(result)] == [["default/pair", "allocated"]]


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "CronJob"])
def test_a_pod_template_is_checked_as_its_pods_are(simulate, kind):
    """Once, however many pods there are."""
    template = {"spec": {"containers": [], "resourceclaims": [PAIR]}}
    spec = {"template": template, "replicas": 3}
    group = "batch/v1" if kind == "CronJob" else "apps/v1"
    spec = {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec
    body = {"apiVersion": group, "kind": kind, "metadata": {"name": "user"}, "spec": spec}

    result = simulate(CLASS, devices("gpu-0"), claim("pair"), body)

    assert result.exit_code == 2
    (error,) = errors(result)
    assert error.endswith('spec.resourceclaims: unknown field; did you mean "resourceClaims"?')


def test_a_field_of_a_stored_pod_is_left_out_and_noted_once(simulate):
    """A newer API server may have taken it."""
    pods = [
        {**pod(newField=1), "metadata": {"name": f"user-{number}", "uid": f"uid-{number}"}}
        for number in range(3)
    ]

    result = simulate(CLASS, devices("gpu-0"), claim("single"), *pods)

    assert result.exit_code == 0
    assert (
        'Pod "user-0": spec.newField: unknown field, ignored as by the operator (3 times in all)'
        in result.stderr
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            {"kind": "Node", "metadata": {"name": "node-1"}, "spec": {"unscheduleable": True}},
            'Node "node-1": spec.unscheduleable: unknown field; did you mean "unschedulable"?',
        ),
        (
            {"kind": "Namespace", "metadata": {"name": "team", "lables": {}}},
            'Namespace "team": metadata.lables: unknown field; did you mean "labels"?',
        ),
    ],
    ids=["node", "namespace"],
)
def test_nodes_and_namespaces_are_checked_as_well(simulate, body, error):
    """A node that is not cordoned after all, and a namespace without its label, change what is decided."""
    result = simulate(CLASS, devices("gpu-0"), claim("single"), {"apiVersion": "v1", **body})

    assert errors(result) == [error]


@pytest.mark.parametrize("kind", ["Pod", "ResourceClaim"])
def test_a_version_in_other_letters_is_named(simulate, kind):
    """It is required, and there under another name."""
    version = "v1" if kind == "Pod" else V1
    result = simulate(
        {"apiversion": version, "kind": kind, "metadata": {"name": "user"}, "spec": {"containers": []}}
    )

    assert errors(result) == [
        f'{kind} "user": apiVersion: is required; "apiversion" is no field: write apiVersion'
    ]
