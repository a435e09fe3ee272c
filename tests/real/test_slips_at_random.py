"""Slips at random: what `simulate` refuses, the real API server refuses as well."""

import json
import random
from collections import defaultdict
from copy import deepcopy

import pytest

import slips
import slips_of_asides
import slips_of_derived
import slips_of_values
from dra_operator.api.kinds import KINDS
from dra_operator.pods.objects import Manifest, Place
from dra_operator.questions.load import gather

RIGHT = [
    *slips.RIGHT.values(),
    *slips_of_values.RIGHT.values(),
    *slips_of_derived.RIGHT.values(),
    *slips_of_asides.RIGHT.values(),
]
WRONG = [
    body
    for module in (slips, slips_of_values, slips_of_asides)
    for body, _path, _message in module.CASES.values()
]
TRIES = 400


def fields(value, path=()):
    """Yield the path of each field and each item of an object, and what is there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key), inner
        yield from fields(inner, (*path, key))


@pytest.fixture(scope="module")
def donors():
    """Return what stands in the fields of all slips, by the name of the field."""
    found = defaultdict(list)
    for body in (*RIGHT, *WRONG):
        for path, value in fields(body["spec"]):
            found[path[-1]].append(value)
    return found


def changed(chance, body, donors):
    """Return an object with one field that is gone, there twice, or as it is in another object."""
    body = deepcopy(body)
    path, value = chance.choice(list(fields(body["spec"])))
    owner = body["spec"]
    for step in path[:-1]:
        owner = owner[step]
    match chance.randrange(4):
        case 0:
            del owner[path[-1]]
        case 1 if isinstance(owner, list):
            owner.append(deepcopy(value))
        case _:
            owner[path[-1]] = deepcopy(chance.choice(donors[path[-1]]))
    return body


def test_what_simulate_refuses_the_api_server_refuses(client, donors):
    """Of some hundred objects with random changes, simulate refuses none that the API server takes."""
    chance = random.Random(1)  # noqa: S311 - a seed makes it repeatable
    both = 0
    for _ in range(TRIES):
        body = changed(chance, chance.choice(RIGHT), donors)
        kind = KINDS[body["kind"]]
        whole = {"apiVersion": kind.api_version("v1"), "metadata": {"name": "slip"}, **body}
        refusals = gather([Manifest(Place("slip", 1, 1), whole)]).errors
        if not refusals:
            continue
        where = "namespaces/default/" if kind.namespaced else ""
        path = f"/apis/{kind.group}/v1/{where}{kind.plural}"
        answer = client.request("POST", path, whole, query={"dryRun": "All", "fieldValidation": "Strict"})
        assert not answer.ok, json.dumps(whole)
        both += not answer.ok

    assert both > TRIES / 5
