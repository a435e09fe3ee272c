"""Claims made for pods, by the rules of the claim controller."""

import pytest

from dra_operator.pods.claims import make_claims
from dra_operator.pods.objects import Manifest, Place
from dra_operator.questions.load import gather
from factories import manifest
from slips_of_names import PODS

V1 = "resource.k8s.io/v1"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
TEMPLATE = manifest(
    "ResourceClaimTemplate",
    "one-gpu",
    {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    },
)


def pod(entry=ENTRY, name="train", *, status=None, uid="uid-1", **metadata):
    """A pod with one entry."""
    spec = {"containers": [{"name": "main"}], "resourceClaims": [entry]}
    return manifest("Pod", name, spec, status=status or {}, uid=uid, **metadata)


def claim(name, **metadata):
    """A claim."""
    return manifest("ResourceClaim", name, {}, **metadata)


def made(*bodies):
    """Return the claims that are made, and the problems."""
    gathered = gather(Manifest(Place("f", number, 1), body) for number, body in enumerate(bodies, 1))
    assert not gathered.errors
    return make_claims(gathered)


def test_a_claim_is_what_the_template_says():
    """Spec, labels and annotations come from the template; owner and entry from the pod."""
    (record,), problems = made(TEMPLATE, pod(creationTimestamp="2026-01-01T00:00:00Z"))

    metadata, request = record.obj.metadata, record.obj.spec.devices.requests[0].exactly
    assert problems == []
    assert (request.device_class_name, request.allocation_mode, request.count) == ("gpu", "ExactCount", 1)
    assert metadata.labels == {"team": "a"}
    assert metadata.annotations == {"note": "b", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert [(owner.name, owner.uid, owner.controller) for owner in metadata.owner_references] == [
        ("train", "uid-1", True)
    ]
    assert metadata.namespace == "default"
    assert metadata.creation_timestamp == "2026-01-01T00:00:00Z"
    assert metadata.name.startswith("train-gpu-")
    assert len(metadata.name) == len("train-gpu-") + 5


@pytest.mark.parametrize(
    "bodies",
    [
        [pod(status={"phase": "Succeeded"})],
        [pod(status={"phase": "Failed"})],
        [pod(deletionTimestamp="2026-01-01T00:00:00Z")],
        [pod(status={"resourceClaimStatuses": [{"name": "gpu"}]})],
        [pod(status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}), claim("c")],
        [
            pod(),
            claim(
                "c",
                annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
                ownerReferences=[{"kind": "Pod", "name": "train", "uid": "uid-1", "controller": True}],
            ),
        ],
        [pod({"name": "gpu", "resourceClaimName": "c"}), claim("c")],
    ],
    ids=[
        "succeeded",
        "failed",
        "being deleted",
        "none needed",
        "made",
        "made, not yet recorded",
        "names one",
    ],
)
def test_no_claim_is_made_where_none_is_missing(bodies):
    """A pod that is finished, or has its claims, gets none."""
    assert made(TEMPLATE, *bodies) == ([], [])


@pytest.mark.parametrize(
    ("entry", "there", "told"),
    [
        (
            {"name": "gpu", "resourceClaimName": "one-gpu"},
            TEMPLATE,
            (
                'there is no ResourceClaim "default/one-gpu", but a ResourceClaimTemplate of that name; '
                "resourceClaimTemplateName names one"
            ),
        ),
        (
            ENTRY,
            claim("one-gpu"),
            (
                'there is no ResourceClaimTemplate "default/one-gpu", but a ResourceClaim of that name; '
                "resourceClaimName names one"
            ),
        ),
    ],
    ids=["a template is meant", "a claim is meant"],
)
def test_a_claim_and_a_template_are_easily_mixed_up(entry, there, told):
    """What has the name is told, with the field that would have named it."""
    _, (problem,) = made(there, pod(entry))

    assert problem.endswith(f'entry "gpu": {told}')


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            pod({"name": "gpu", "resourceClaimTemplateName": "one-gpus"}),
            'there is no ResourceClaimTemplate "default/one-gpus"; did you mean "one-gpu"?',
        ),
        (
            pod({"name": "gpu", "resourceClaimName": "shraed"}),
            'there is no ResourceClaim "default/shraed"; did you mean "shared"?',
        ),
        (
            pod({"name": "gpu", "resourceClaimName": "elsewher"}),
            'there is no ResourceClaim "default/elsewher"',
        ),
    ],
    ids=["template", "claim", "claim of another namespace"],
)
def test_a_name_that_is_nearly_right_is_told(body, told):
    """Of those in the namespace of the pod, as it can use no others."""
    _, (problem,) = made(TEMPLATE, claim("shared"), claim("elsewhere", namespace="other"), body)

    assert problem.endswith(f'entry "gpu": {told}')


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        (ENTRY, 'there is no ResourceClaimTemplate "default/one-gpu"'),
        ({"name": "gpu", "resourceClaimName": "absent"}, 'there is no ResourceClaim "default/absent"'),
    ],
    ids=["template", "claim"],
)
def test_what_a_pod_names_and_is_not_there_is_told(entry, missing):
    """The line names the pod, the entry and what is missing."""
    assert made(pod(entry)) == ([], [f'f, document 1 (line 1): Pod "default/train": entry "gpu": {missing}'])


@pytest.mark.parametrize(("body", "_", "line"), PODS.values(), ids=PODS)
def test_an_entry_of_a_wrong_name_is_told(body, _, line):
    """The API server refuses the pod; the line names the entry and says what to do."""
    template = {**TEMPLATE, "metadata": {"name": "t"}}
    _, problems = made({"apiVersion": "v1", "metadata": {"name": "train"}, **body}, claim("x"), template)

    (told,) = problems
    assert f'Pod "default/train": {line}' in told


@pytest.mark.parametrize(
    ("name", "entry", "cause"),
    [
        ("train", "A", "is no name: "),
        ("a", "e" * 63, 'its claim cannot be made, as "-eee'),
        (f"{'p' * 45}.{'p' * 54}", "e" * 20, f'its claim cannot be made, as "{"p" * 45}.-eee'),
    ],
    ids=["of an entry", "cut to nothing", "cut at a dot"],
)
def test_no_claim_is_made_that_could_not_have_its_name(name, entry, cause):
    """The API server refuses the claim, or the pod before; `simulate` itself would, where it is given it again."""
    claims, (problem,) = made(TEMPLATE, pod({**ENTRY, "name": entry}, name=name))

    assert claims == []
    assert f'entry "{entry}": {cause}' in problem


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "neither resourceClaimName nor resourceClaimTemplateName is set: set one of them"),
        (
            {"resourceClaimName": "a", "resourceClaimTemplateName": "one-gpu"},
            "resourceClaimName and resourceClaimTemplateName are both set: keep one of them",
        ),
    ],
    ids=["none", "both"],
)
def test_an_entry_that_names_no_claim_or_two_is_told(entry, problem):
    """The API server refuses the pod; here it had no claim, and nobody was told."""
    _, problems = made(TEMPLATE, claim("a"), pod({"name": "gpu", **entry}, uid=""))

    (found,) = problems
    assert found == f'f, document 3 (line 1): Pod "default/train": entry "gpu": {problem}'


def group(*entries, **metadata):
    """A PodGroup with claims."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "team", **metadata},
        "spec": {"resourceClaims": entries},
    }


def member(name, entry=ENTRY, group="team"):
    """A pod of a group."""
    body = pod(entry, name=name, uid="")
    body["spec"]["schedulingGroup"] = {"podGroupName": group}
    return body


def prefixes(claims):
    """Return what claims are named after."""
    return [record.body["metadata"]["generateName"] for record in claims]


def test_a_group_that_is_not_there_is_told():
    """The claim controller makes no claim for its pods: it cannot know which are shared."""
    claims, (problem,) = made(TEMPLATE, group(ENTRY), member("a", group="taem"))

    assert prefixes(claims) == ["team-gpu-"]
    text = 'spec.schedulingGroup.podGroupName: there is no PodGroup "default/taem"; did you mean "team"?'
    assert problem.endswith(f'Pod "default/a": {text}')
