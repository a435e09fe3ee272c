"""What `simulate` refuses of an object is what the real API server refuses, and nothing else."""

import pytest

import slips
import slips_of_asides
import slips_of_derived
import slips_of_names
import slips_of_values
from dra_operator.api.kinds import KINDS

CASES = (
    slips.CASES
    | slips_of_values.CASES
    | slips_of_names.CASES
    | slips_of_names.PODS
    | slips_of_derived.NAMES
    | slips_of_derived.EXPRESSIONS
    | slips_of_asides.CASES
)
RIGHT = (
    slips.RIGHT
    | slips_of_values.RIGHT
    | slips_of_names.RIGHT
    | slips_of_names.RIGHT_PODS
    | slips_of_derived.RIGHT
    | slips_of_asides.RIGHT
)


@pytest.fixture
def dry_run(client):
    """Return a function that has an object created without storing it, and returns the answer."""

    def create(body):
        kind = KINDS[body["kind"]]
        whole = {"apiVersion": kind.api_version("v1"), "metadata": {"name": "slip"}, **body}
        # Null is an object's way to leave a field out.
        if "spec" in whole:
            whole["spec"] = {name: value for name, value in whole["spec"].items() if value is not None}
        root = f"/apis/{kind.group}" if kind.group else "/api"
        where = "namespaces/default/" if kind.namespaced else ""
        path = f"{root}/v1/{where}{kind.plural}"
        return client.request("POST", path, whole, query={"dryRun": "All", "fieldValidation": "Strict"})

    return create


@pytest.mark.parametrize("name", CASES)
def test_the_api_server_refuses_it_too(dry_run, name):
    """At the same field, at the item of the list of which it is the name, or at what is missing below it."""
    body, path, _ = CASES[name]

    answer = dry_run(body)

    assert answer.status == 422, answer.body
    fields = {cause["field"] for cause in answer.body["details"]["causes"]}
    path = path.replace('"', "")
    # Some it calls by another name: a default as if it were one of the bounds.
    others = {path.removesuffix(".name").removesuffix(".counterSet"), f"{path}.opaque"}
    assert fields & {path, path.replace("Policy.default", "Policy.validRange.default"), *others}


@pytest.mark.parametrize("name", RIGHT)
def test_the_api_server_takes_it_too(dry_run, name):
    """What is not told is right."""
    answer = dry_run(RIGHT[name])

    assert answer.status == 201, answer.body
