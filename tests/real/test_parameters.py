"""Opaque parameters as a client wrote them, which the API server would write anew with each patch."""

import json

import pytest

from controlplane.fleet import DRIVER, create_fleet
from controlplane.scene import FINALIZER, PENDING, annotations

PARAMETERS = {
    "compact": '{"b":2,"a":1.0}',
    "spaces": '{"b": 2, "a": 1.0}',
    "signs": '{"a":"x<y>&z"}',
    "lines": '{\n  "a": "<\u00e9>"\n}',
}
ODD = {
    "numbers": b'{"a":123456789012345678901234567890,"b":1e3}',
    "depth": b'{"a":' + 2000 * b"[" + 2000 * b"]" + b"}",
    "half a character": rb'{"a":"\ud800"}',
    "no text": b'{"a":"\xff"}',
}
"""Such as Go reads and decoders of others do not, or not as they are."""


class Author:
    """Somebody who writes claims as they like, and reads them in protobuf."""

    def __init__(self, scene):
        self._scene = scene

    def create(self, name, parameters, device_class=DRIVER):
        """Create a claim with these parameters, written just so."""
        request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
        config = {"opaque": {"driver": DRIVER, "parameters": "@"}}
        spec = {"devices": {"requests": [request], "config": [config]}}
        metadata = {"name": name, "annotations": {"theirs": "kept"}, "labels": {"a": "b"}}
        body = json.dumps({"metadata": metadata, "spec": spec}).encode().replace(b'"@"', parameters)
        assert self._scene.client.request("POST", self._scene.claims, body).ok

    def stored(self, name):
        """Return a claim as it is stored."""
        return self._scene.client.bytes_of(f"{self._scene.claims}/{name}")


@pytest.fixture
def author(scene, operator):
    """Return an author of claims for two devices that there are; an operator runs."""
    assert operator.exit_code is None
    create_fleet(scene.client, nodes=1, devices=2)
    return Author(scene)


@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
class TestParameters:
    """However they are written."""

    def test_a_claim_is_allocated_and_released(self, author, scene, parameters):
        """It gets finalizer and devices, keeps what its author wrote, and goes when it is deleted."""
        author.create("works", parameters.encode())

        claim = scene.wait_allocated("works")

        metadata = claim["metadata"]
        assert metadata["finalizers"] == [FINALIZER]
        assert (metadata["labels"], metadata["annotations"]) == ({"a": "b"}, {"theirs": "kept"})
        (config,) = claim["spec"]["devices"]["config"]
        assert config["opaque"]["parameters"] == json.loads(parameters)
        assert parameters.encode() in author.stored("works")
        scene.delete_claim("works")
        scene.wait_gone("works")

    def test_a_claim_that_waits_says_why(self, author, scene, parameters):
        """The annotation comes, and goes when the claim is allocated; the spec stays the same bytes."""
        author.create("waits", parameters.encode(), "absent.example.com")
        spec = spec_of(author.stored("waits"))
        scene.wait_pending("waits")
        assert spec_of(author.stored("waits")) == spec

        client = scene.client
        classes = "/apis/resource.k8s.io/v1/deviceclasses"
        client.create(
            classes,
            {"metadata": {"name": "absent.example.com"}, "spec": client.get(f"{classes}/{DRIVER}")["spec"]},
        )
        claim = scene.wait_allocated("waits")

        assert PENDING not in annotations(claim)
        assert annotations(claim) == {"theirs": "kept"}
        assert spec_of(author.stored("waits")) == spec


@pytest.mark.parametrize("parameters", ODD.values(), ids=ODD)
def test_parameters_that_only_go_reads_are_allocated_as_they_are(author, scene, parameters):
    """Their claim hides no other one, and can be deleted."""
    author.create("odd", parameters)
    author.create("plain", b"{}")

    scene.wait_allocated("plain")
    scene.wait_allocated("odd")
    assert author.stored("odd").count(parameters) == 2
    scene.delete_claim("odd")
    scene.wait_gone("odd")


def spec_of(stored):
    """Return the bytes of a claim's spec, which is field 2 of what is in field 2 of the envelope."""
    return fields(fields(stored.removeprefix(b"k8s\0"))[2])[2]


def fields(message):
    """Return what the fields of a message hold, by number; here all of them are texts or messages."""
    found, at = {}, 0
    while at < len(message):
        number, kind = message[at] >> 3, message[at] & 7
        assert kind == 2
        length, at = 0, at + 1
        for shift in range(0, 35, 7):
            byte = message[at]
            length, at = length | (byte & 127) << shift, at + 1
            if byte < 128:
                break
        found[number], at = message[at : at + length], at + length
    return found
