"""What `simulate` refuses of a slice or a rule is what the real API server refuses, and nothing else."""

import pytest

import slips
import slips_of_values

CASES = slips.CASES | slips_of_values.CASES
RIGHT = slips.RIGHT | slips_of_values.RIGHT

SERVED = {"ResourceSlice": ("v1", "resourceslices"), "DeviceTaintRule": ("v1beta2", "devicetaintrules")}


@pytest.fixture
def dry_run(client):
    """Return a function that has a slice created without storing it, and returns the answer."""

    def create(body):
        version, plural = SERVED[body["kind"]]
        whole = {"apiVersion": f"resource.k8s.io/{version}", "metadata": {"name": "slip"}, **body}
        # Null is an object's way to leave a field out.
        whole["spec"] = {name: value for name, value in whole["spec"].items() if value is not None}
        path = f"/apis/resource.k8s.io/{version}/{plural}"
        return client.request("POST", path, whole, query={"dryRun": "All", "fieldValidation": "Strict"})

    return create


@pytest.mark.parametrize("name", CASES)
def test_the_api_server_refuses_it_too(dry_run, name):
    """At the same field, or at the item of the list of which it is the name."""
    body, path, _ = CASES[name]

    answer = dry_run(body)

    assert answer.status == 422, answer.body
    fields = {cause["field"] for cause in answer.body["details"]["causes"]}
    path = path.replace('"', "")
    assert fields & {path, path.removesuffix(".name").removesuffix(".counterSet")}


@pytest.mark.parametrize("name", RIGHT)
def test_the_api_server_takes_it_too(dry_run, name):
    """What is not told is right."""
    answer = dry_run(RIGHT[name])

    assert answer.status == 201, answer.body
