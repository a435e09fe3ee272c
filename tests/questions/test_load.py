"""What `simulate` can be given, and what is told when it cannot be read."""

import copy

import pytest
from click.testing import CliRunner

import slips_of_derived
import too_long
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.cli.simulate import app
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.load import find_refused_expressions
from factories import manifest
from simulation import CLASS, V1, claim, devices, node, states, table

NAMELESS = "is required, or a text in metadata.generateName\n"


def test_a_bad_object_is_told_and_the_others_are_read(simulate):
    """The line names file, document, object, field and value; the exit code is 2."""
    bad = claim("bad")
    bad["spec"]["devices"]["requests"][0]["exactly"]["count"] = "two"
    worse = devices("x", on="node-9")
    worse["spec"]["devices"][0]["capacity"] = {"memory": {"value": "12 GB"}}

    result = simulate(CLASS, bad, worse, node("node-1"), devices("a"), claim("one"))

    assert result.exit_code == 2
    assert states(result) == {"default/one": "allocated"}
    first, second = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "state.yaml, document 2 (line 10): " in first
    assert first.endswith(
        'ResourceClaim "bad": spec.devices.requests[0].exactly.count: "two" is not a whole number'
    )
    assert "document 3" in second
    assert 'ResourceSlice "slice-node-9": spec.devices[0].capacity["memory"].value: "12 GB" is not' in second


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"kind": "Node", "metadata": {"name": "n-1"}}, 'Node "n-1": apiVersion: is required'),
        (
            manifest("DeviceClass", "c", version="v9"),
            'DeviceClass "c": apiVersion: "resource.k8s.io/v9" is none of resource.k8s.io/v1, resource',
        ),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {}}, f"Node: metadata.name: {NAMELESS}"),
        ({"apiVersion": "v1", "kind": "Node"}, f"Node: metadata.name: {NAMELESS}"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": None}, f"Node: metadata.name: {NAMELESS}"),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": ""}},
            f'Pod "default/": metadata.name: {NAMELESS}',
        ),
        (claim("{{ app }}-gpu"), "; a template must be rendered first, as by helm template\n"),
        (
            claim("gpu", "${COUNT}"),
            "is not a whole number; variables must be filled in first, as by envsubst\n",
        ),
        ({"apiVersion": "v1", "metadata": {"name": "n"}}, "kind: is required, one of DeviceClass, "),
        ({"apiVersion": V1, "kind": "ResourceClam"}, 'kind: "ResourceClam" is none of the kinds'),
        (
            {**CLASS, "apiVersion": "v1"},
            'DeviceClass "gpu": apiVersion: "v1" is none of resource.k8s.io/v1, ',
        ),
        ({**CLASS, "apiVersion": "resources.k8s.io/v1"}, 'apiVersion: "resources.k8s.io/v1" is none of '),
        (
            {**claim("old"), "apiVersion": "resource.k8s.io/v1alpha2"},
            "until Kubernetes 1.30 its fields were others: write it anew\n",
        ),
        (
            {"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClass", "driverName": "a"},
            'kind: "ResourceClass" is no kind since Kubernetes 1.31: write a DeviceClass\n',
        ),
    ],
    ids=[
        "no version",
        "unknown version",
        "no name",
        "no metadata",
        "empty metadata",
        "a generated name",
        "a template",
        "a variable",
        "no kind",
        "unknown kind of the group",
        "no group",
        "misspelt group",
        "version of another shape",
        "kind that was replaced",
    ],
)
def test_what_is_no_object_of_a_cluster_is_told(simulate, body, message):
    """An object that no API server would take is a mistake."""
    result = simulate(body)

    assert result.exit_code == 2
    assert message in result.stderr


def test_objects_of_other_kinds_are_passed_over(simulate):
    """They stand beside ours in many files; it is said how many."""
    job = manifest("Job", "job")
    other = {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "other"}}

    result = simulate(job, job, other, CLASS)

    assert result.exit_code == 0
    assert "note: ignored, and so are any pods that they would create: 2 Job, 1 Node" in result.stderr


def test_what_makes_no_pods_is_not_said_to(simulate):
    """Of Kubernetes' own kinds few make pods."""
    bodies = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "other"}}
        for version, kind in (
            ("v1", "ConfigMap"),
            ("v1", "ReplicationController"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        )
    ]

    assert simulate(*bodies).stderr.splitlines()[:2] == [
        "note: ignored: 1 ConfigMap, 1 Role",
        "note: ignored, and so are any pods that they would create: 1 JobSet, 1 ReplicationController",
    ]


def test_a_kustomization_is_told_to_have_no_effect(simulate):
    """What stands beside it is read as it is written, without its namespace and patches."""
    folder = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "metadata": {"name": "gpus"},
        "namespace": "team",
    }
    note = "note: a Kustomization changes nothing here: give what `kubectl kustomize` prints\n"

    assert note in simulate(folder, CLASS, devices("a"), claim("one")).stderr
    assert note not in simulate(CLASS, devices("a"), claim("one")).stderr


@pytest.mark.parametrize(
    "arguments",
    [[], ["-f", "absent.yaml"], ["-f", "x", "-o", "xml"]],
    ids=["no file", "no such file", "form"],
)
def test_wrong_usage_ends_with_2(arguments, tmp_path, monkeypatch):
    """And says what is wrong."""
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert result.stderr


def test_a_misspelt_field_is_an_error(simulate):
    """A claim with a field that its kind does not have is not decided without it; the others are."""
    wrong = claim("typo", namespace="default")
    exactly = wrong["spec"]["devices"]["requests"][0]["exactly"]
    exactly["selector"] = [{"cel": {"expression": "false"}}]

    result = simulate(CLASS, devices("a"), wrong, claim("right"))

    assert result.exit_code == 2
    path = "spec.devices.requests[0].exactly.selector"
    assert (
        f'ResourceClaim "default/typo": {path}: unknown field; did you mean "selectors"?\n' in result.stderr
    )
    assert "typo" not in result.stdout
    assert "default/right" in result.stdout


def test_what_the_api_server_refuses_is_an_error(simulate):
    """A claim with values that are refused is told with the path as it was written, and is not decided."""
    wrong = claim("wrong", -1)
    wrong["apiVersion"] = "resource.k8s.io/v1beta1"
    (request,) = wrong["spec"]["devices"]["requests"]
    wrong["spec"]["devices"]["requests"] = [{"name": "gpu", **request["exactly"]}]

    result = simulate(CLASS, devices("a"), wrong, claim("right"))

    assert result.exit_code == 2
    assert (
        'ResourceClaim "default/wrong": spec.devices.requests[0].count: -1 is not greater than zero: '
        in result.stderr
    )
    assert "wrong" not in result.stdout
    assert "default/right" in result.stdout


def with_field(body, name, *path, **metadata):
    """An object with one more field below a path."""
    body = copy.deepcopy(body)
    body["metadata"] |= metadata
    inner = body
    for step in path:
        inner = inner[step]
    inner[name] = {"of": "a newer API"}
    return body


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            with_field(claim("one"), "priority", "spec", uid="1"),
            'ResourceClaim "one": spec.priority: unknown field, ignored as by the operator\n',
        ),
        (
            with_field(claim("one"), "selector", "spec", "devices", "requests", 0, "exactly", uid="1"),
            '.exactly.selector: unknown field, ignored as by the operator; did you mean "selectors"?\n',
        ),
        (
            with_field(CLASS, "pool", "spec", uid="1"),
            'DeviceClass "gpu": spec.pool: unknown field, ignored ',
        ),
    ],
)
def test_a_field_of_a_newer_server_is_left_out_and_told(simulate, body, line):
    """An object with a uid passed an API server, which knew the field: it is decided as the operator decides."""
    result = simulate(CLASS, devices("a"), claim("one"), body)

    assert (states(result), result.exit_code) == ({"default/one": "allocated"}, 0)
    assert line in result.stderr
    assert "error" not in result.stderr


PAIR = {"name": "gpu", "resourceClaimName": "pair"}


def pod(*, top=None, container=None, **spec):
    """A pod that uses a claim."""
    containers = [{"name": "main", "image": "none", **(container or {})}]
    return {**manifest("Pod", "user", {"containers": containers, **spec}), **(top or {})}


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


CASES = slips_of_derived.EXPRESSIONS


def read(body, **metadata):
    """Return an object of a body."""
    return apply_defaults(read_object({"metadata": {"name": "x"} | metadata, **body}))


@pytest.mark.parametrize(("body", "path", "message"), CASES.values(), ids=CASES)
def test_a_refusal_names_the_expression(body, path, message):
    """Each slip is told once, with the path of the field."""
    (found,) = find_refused_expressions(read(body))

    assert found.path == path
    assert found.message.startswith(message)


def test_a_selector_that_does_not_compile_is_left_to_the_allocator():
    """The reason of the claim says it."""
    selector = {"cel": {"expression": "device.name"}}

    assert not list(
        find_refused_expressions(read(too_long.claim(requests=[too_long.request(selectors=[selector])])))
    )


@pytest.mark.parametrize("spec", [None, {}])
def test_a_slice_without_a_spec_is_refused_like_an_empty_one(spec):
    """What is wrong with it is said, whichever way nothing is written."""
    body = manifest("ResourceSlice", "s", spec)

    errors = Cluster.load([body]).errors

    assert errors
    assert all('ResourceSlice "s": spec' in each for each in errors)
