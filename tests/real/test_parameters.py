"""Opaque parameters as a client wrote them, which the API server writes anew with each patch."""

import json
import ssl
import urllib.request

import pytest

from controlplane.fleet import DRIVER, create_fleet


@pytest.fixture
def create(control_plane, scene, operator):
    """Create a claim with these parameters, written just so; an operator runs."""
    assert operator.exit_code is None
    create_fleet(scene.client, nodes=1, devices=2)
    context = ssl.create_default_context(cafile=str(control_plane.ca))

    def send(name, parameters):
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
        config = {"opaque": {"driver": DRIVER, "parameters": "@"}}
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request], "config": [config]}}}
        headers = {
            "Authorization": f"Bearer {control_plane.tokens['admin']}",
            "Content-Type": "application/json",
        }
        text = json.dumps(body).replace('"@"', parameters)
        url = f"{control_plane.server}{scene.claims}"
        sent = urllib.request.Request(url, text.encode(), headers)  # noqa: S310 - the address is our own
        urllib.request.urlopen(sent, context=context).close()  # noqa: S310

    return send


def test_compact_parameters_are_no_obstacle(create, scene):
    """In whatever order their names come."""
    create("compact", '{"b":2,"a":1.0}')

    scene.wait_allocated("compact")


@pytest.mark.parametrize("parameters", ['{"a": 1}', '{"a":"x<y"}'], ids=["spaces", "signs"])
def test_parameters_that_forbid_each_patch_are_told_as_the_reason(create, scene, parameters):
    """The API server would write them anew; whoever made the claim learns what to do."""
    create("loose", parameters)

    assert "in compact JSON" in scene.wait_event("loose", "AllocationRefused")["message"]
