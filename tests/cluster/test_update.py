"""Delivery to a claim whose opaque parameters let it take no patch: the same change as an update in protobuf."""

import pytest
from aiohttp import web

from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.cluster.delivery import PROTOBUF
from dra_operator.cluster.writes import Denied, Stale, Stored

from .protobuf import annotation, encoded_claim
from .script import cut, ok, status
from .writing import DONE, PATH, UNCHANGED, allocate, annotate, claim, patches

CAUSE = {"reason": "FieldValueInvalid", "field": "spec", "message": "Invalid value: {}: field is immutable"}
IMMUTABLE = status(
    422,
    f'ResourceClaim "c" is invalid: spec: Invalid value: {{{"x" * 9000}}}: field is immutable',
    "Invalid",
    details={"causes": [CAUSE]},
)
WAITING = annotation(PENDING_ANNOTATION, "none is free")
PLAIN = ok(claim(5))


def encoded(content):
    """An answer: an object in protobuf."""
    return lambda _: web.Response(body=content, content_type=PROTOBUF)


LOOSE = encoded(encoded_claim(finalizers=()))

SILENCE = {"504": (status(504),), "cut": (cut, cut)}
"""Answers that say nothing. Where a connection breaks that was used before, aiohttp repeats a GET or PUT by itself."""


def updates(script):
    """What was put: subresource and body."""
    return [(asked.path.removeprefix(PATH), asked.body) for asked in script.asked if asked.method == "PUT"]


async def test_a_claim_that_takes_no_patch_is_updated(script, desk):
    """Finalizer and annotation are changed on the bytes that were read, and then its status is patched."""
    read = encoded(encoded_claim(more=WAITING, finalizers=["other"]))
    script.then(IMMUTABLE, read, ok(claim(6, finalizers=["other", FINALIZER])), DONE)

    assert isinstance(await desk().result(allocate(["other"], drop_annotation=True)), Stored)

    assert updates(script) == [("", encoded_claim(finalizers=["other", FINALIZER]))]
    assert [asked.method for asked in script.asked] == ["PATCH", "GET", "PUT", "PATCH"]
    _, read, put, _ = script.asked
    assert read.headers["Accept"] == PROTOBUF
    assert (put.headers["Content-Type"], put.headers["Accept"]) == (PROTOBUF, "application/json")
    assert put.query == {"fieldManager": "dra-operator"}
    assert patches(script)[-1][1]["metadata"] == {"resourceVersion": "6", "uid": "u"}


@pytest.mark.parametrize(
    ("changed", "now"),
    [
        (encoded_claim("9"), claim(9)),
        (encoded_claim(uid="another"), claim(5, uid="another")),
    ],
    ids=["newer", "made anew"],
)
async def test_another_claim_than_the_one_decided_on_is_a_conflict(script, desk, changed, now):
    """An update puts the whole object, so nothing is sent unless it is the one that was decided on."""
    script.then(IMMUTABLE, encoded(changed), ok(now))

    outcome = await desk().result(allocate(()))

    assert isinstance(outcome, Stale)
    assert outcome.body == now
    assert updates(script) == []


async def test_an_update_that_comes_too_late_is_a_conflict(script, desk):
    """What changes between reading and updating gets the update a 409, as a patch would."""
    script.then(IMMUTABLE, LOOSE, status(409, "the object has been modified", "Conflict"), ok(claim(9)))

    assert isinstance(await desk().result(allocate(())), Stale)


@pytest.mark.parametrize("silence", SILENCE.values(), ids=SILENCE)
async def test_an_update_without_an_answer_is_read_back(script, desk, silence):
    """It may have been stored, and nothing is concluded from silence."""
    script.then(IMMUTABLE, LOOSE, *silence, ok(claim(6, annotation="none is free")))

    assert isinstance(await desk().result(annotate("none is free")), Stored)


async def test_the_right_to_update_is_named_where_it_lacks(script, desk):
    """As other rights are."""
    message = 'User "system:serviceaccount:a:b" cannot update resource "resourceclaims" in API group'
    script.then(IMMUTABLE, LOOSE, status(403, message, "Forbidden"))

    outcome = await desk().result(allocate(()))

    assert isinstance(outcome, Denied)
    assert (outcome.missing.verb, outcome.missing.resource) == ("update", "resourceclaims")


@pytest.mark.parametrize("answer", [b"k8s\0\x12\x7fcut", b"<html>"], ids=["cut short", "another encoding"])
async def test_what_is_no_object_in_protobuf_is_refused(script, desk, answer):
    """Nothing is made of it and nothing sent."""
    script.then(IMMUTABLE, encoded(answer))

    outcome = await desk().result(allocate(()))

    assert isinstance(outcome, Denied)
    assert "Malformed" in outcome.message
    assert updates(script) == []


async def test_a_status_is_never_updated(script, desk):
    """It has no parameters: a webhook that changes a claim on the way is told of in words."""
    script.then(IMMUTABLE, UNCHANGED, IMMUTABLE)

    outcome = await desk().result(allocate())

    assert isinstance(outcome, Denied)
    assert "webhook" in outcome.message
    assert updates(script) == []
