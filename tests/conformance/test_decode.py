"""The examples, decoded strictly with the published types of Kubernetes 1.37.

The API server of the other tests is older: what it does not know yet, it drops. Here an unknown field is an error,
so that an example cannot show a field that is not there.
"""

from pathlib import Path

import pytest

from conformance.program import running
from dra_operator.pods.objects import Manifest
from dra_operator.questions.manifests import read

EXAMPLES = Path(__file__).parents[2] / "examples"
FOREIGN = {"jobset.yaml", "leaderworkerset.yaml"}
FILES = sorted(
    path for path in EXAMPLES.rglob("*.yaml") if path.parent.name != "kinds" and path.name not in FOREIGN
)
"""But those of our own kinds and of other projects, which Kubernetes does not have."""

pytestmark = pytest.mark.timeout(900)  # The first run builds the program.


@pytest.fixture(scope="module")
def decode(program):
    """Return a function that decodes an object and returns the answer."""
    with running(program, "decode") as upstream:
        yield upstream.ask


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_every_object_of_an_example_is_one_of_kubernetes_1_37(decode, file):
    """No field is unknown, and none has a value of another type."""
    found = list(read([str(file)]))

    assert found
    for item in found:
        assert isinstance(item, Manifest), item
        answer = decode(item.body)
        assert answer.get("ok") is True, f"{item.place}: {answer}"
        assert answer["kind"] == item.body["kind"]


DEVICE = {"name": "gpu-0"}


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ({**DEVICE, "nodeAllocatableResourceMappings": {}}, 'unknown field "spec.devices[0].nodeAllocatable'),
        (
            {**DEVICE, "consumesCounters": [{"compatibilityGroup": "a"}]},
            'unknown field "spec.devices[0].consumes',
        ),
        ({**DEVICE, "attributes": {"a": {"ints": ["1"]}}}, "cannot unmarshal string"),
    ],
    ids=["a field of 1.36", "a misspelt field", "a value of another type"],
)
def test_what_1_37_does_not_know_is_refused(decode, device, message):
    """Decoding is strict: what the test above holds examples to can fail."""
    slice_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {"driver": "gpu.example.com", "devices": [device]},
    }

    answer = decode(slice_)

    assert "ok" not in answer
    assert message in answer["error"]
