"""What is too long for `simulate` is what the real API server refuses as too long, and nothing shorter."""

import json

import pytest

from dra_operator.api.kinds import KINDS
from too_long import CASES


@pytest.fixture
def dry_run(client):
    """Return a function that has an object created without storing it, and returns the answer."""

    def create(body):
        kind = KINDS[body["kind"]]
        where = "namespaces/default/" if kind.namespaced else ""
        whole = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "too-long"}, **body}
        path = f"/apis/resource.k8s.io/v1/{where}{kind.plural}"
        # As kubectl sends it: of parameters the API server counts the bytes.
        sent = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        return client.request("POST", path, sent, query={"dryRun": "All", "fieldValidation": "Strict"})

    return create


@pytest.mark.parametrize("name", CASES)
def test_the_api_server_draws_the_same_line(dry_run, name):
    """As many as are allowed are taken, one more is refused at the same field."""
    make, most, path = CASES[name]

    taken, refused = dry_run(make(most)), dry_run(make(most + 1))

    assert taken.status == 201, taken.body
    assert refused.status == 422
    fields = [cause["field"] for cause in refused.body["details"]["causes"]]
    assert path.replace('"', "") in fields
