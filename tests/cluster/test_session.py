"""The session: manners of the API, and what becomes of every fault of a network."""

import re
import socket

import pytest
from aiohttp import web

from dra_operator.cluster.credentials import Access
from dra_operator.cluster.session import (
    ApiError,
    ApiSession,
    ApiUnreachable,
)

from .script import credentials, cut, lines, ok, status

CLAIM = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"


@pytest.mark.parametrize(
    ("code", "message", "missing"),
    [
        (403, 'pods is forbidden: User "u" cannot list resource "pods" in API group ""', True),
        (403, 'admission webhook "w" denied the request: no', False),
        (403, "unable to create new content in namespace a because it is being terminated", False),
        (422, 'User "u" cannot', False),
    ],
    ids=["authorizer", "webhook", "namespace", "other code"],
)
def test_missing_right_is_told_from_other_refusals(code, message, missing):
    """A 403 comes from the authorizer or from admission; only the first is a right that is missing."""
    assert ApiError(code, "Forbidden", message).is_missing_right is missing


@pytest.mark.parametrize(
    ("code", "details", "gone"),
    [
        (403, {"kind": "events", "causes": [{"reason": "NamespaceTerminating"}]}, True),
        (404, {"kind": "namespaces", "name": "ns"}, True),
        (403, {"kind": "events", "causes": [{"reason": "QuotaExceeded"}]}, False),
        (404, {"kind": "events", "name": "e"}, False),
        (403, {"causes": ["NamespaceTerminating"]}, False),
        (403, {"causes": "NamespaceTerminating"}, False),
        (403, None, False),
    ],
    ids=["terminating", "not there", "other cause", "object not there", "text", "texts", "no details"],
)
async def test_namespace_that_ends_is_told_from_other_refusals(script, session, code, details, gone):
    """A refusal says whether it is the namespace that is being deleted, or is not there any more."""
    script.then(status(code, "no", "Nope", details=details))

    with pytest.raises(ApiError) as refused:
        await session.request("POST", "/api/v1/namespaces/ns/events", body={})

    assert refused.value.is_namespace_gone is gone


@pytest.mark.parametrize(
    ("details", "fields"),
    [
        ({"causes": [{"field": "spec", "message": "Invalid value: {}: field is immutable"}]}, {"spec"}),
        ({"causes": [{"field": "spec", "message": "Invalid value: {}: must not be"}]}, set()),
        ({"causes": ["spec", None]}, set()),
        ({"causes": 1}, set()),
        ([], set()),
    ],
    ids=["immutable", "other cause", "texts", "number", "list"],
)
async def test_fields_that_must_not_change_are_named(script, session, details, fields):
    """A refusal says which fields it would have changed, and may not."""
    script.then(status(422, "no", "Invalid", details=details))

    with pytest.raises(ApiError) as refused:
        await session.request("PATCH", CLAIM, body={})

    assert refused.value.immutable == fields


async def test_refusal_names_verb_and_resource(script, session):
    """A 403 reads as the rule that is missing."""
    script.then(status(403, "no", "Forbidden"))

    with pytest.raises(ApiError) as refused:
        await session.request("PATCH", f"{CLAIM}/status", body={})

    assert str(refused.value) == "patch resourceclaims/status: 403 Forbidden: no"
    assert (refused.value.verb, refused.value.resource) == ("patch", "resourceclaims/status")


async def test_each_request_is_told_with_its_status(script):
    """Refused, repeated with new credentials, without an answer: each request is told once, in RBAC's words."""
    told = []
    script.then(ok({}), status(429), status(401), ok({}), lines(then="cut"))
    script.default = cut
    access = Access(lambda: credentials(script.url))
    seconds = []

    def answered(verb, resource, code, took):
        told.append((verb, resource, code))
        seconds.append(took)

    async with ApiSession(access, answered=answered) as session:
        await session.request("PATCH", f"{CLAIM}/status", body={})
        with pytest.raises(ApiError):
            await session.request("POST", "/api/v1/namespaces/ns/events", body={})
        await session.request("GET", CLAIM)
        async with session.stream("/api/v1/pods", params={"watch": "1"}, idle_timeout=1):
            pass
        with pytest.raises(ApiUnreachable):
            await session.request("PATCH", CLAIM, body={})

    assert told == [
        ("patch", "resourceclaims/status", "200"),
        ("create", "events", "429"),
        ("get", "resourceclaims", "401"),
        ("get", "resourceclaims", "200"),
        ("watch", "pods", "200"),
        ("patch", "resourceclaims", "none"),
    ]
    assert 0 < min(seconds) <= max(seconds) < 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "403 Forbidden: "),
        ({"message": None}, "403 Forbidden: "),
        ({"reason": 7, "message": {"code": 1}}, "403 7: {'code': 1}"),
    ],
    ids=["nothing", "null", "no texts"],
)
async def test_a_refusal_may_say_anything(script, session, body, said):
    """What a proxy puts into its JSON is nobody's defect, nor a right that is missing."""
    script.then(lambda _: web.json_response(body, status=403))

    with pytest.raises(ApiError, match=re.escape(said)) as refused:
        await session.request("GET", CLAIM)

    assert not refused.value.is_missing_right


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "7"}, None, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({}, None, None),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None, None),
    ],
    ids=["header", "details of the Status", "neither", "a date"],
)
async def test_retry_after_is_read(script, session, headers, details, seconds):
    """How long the server asks to wait is known to the caller."""
    script.then(
        lambda _: web.json_response({"message": "slow down", "details": details}, status=429, headers=headers)
    )

    with pytest.raises(ApiError) as refused:
        await session.request("GET", CLAIM)

    assert refused.value.retry_after == seconds


async def test_refused_connection_is_unreachable():
    """Nobody listening is a fault of the network, not a defect; where that is and why is all that is said."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with ApiSession(Access(lambda: credentials(f"http://127.0.0.1:{port}"))) as session:
        with pytest.raises(ApiUnreachable) as found:
            await session.request("GET", "/version")

    assert str(found.value) == f"GET /version: cannot connect to 127.0.0.1:{port}: Connection refused"


async def test_cut_connection_is_unreachable(script, session):
    """A connection that breaks before the answer leaves the outcome unknown."""
    script.then(cut)

    with pytest.raises(ApiUnreachable):
        await session.request("PATCH", CLAIM, body={})


async def test_silent_server_is_unreachable(script, session):
    """A server that does not answer in time leaves the outcome unknown."""
    script.then(lines(then="stall"))

    with pytest.raises(ApiUnreachable, match="no answer in time"):
        await session.request("GET", CLAIM, timeout=0.05)


@pytest.mark.parametrize("text", ["<html>", '{"kind": "Resou', "[1]"], ids=["page", "cut short", "no object"])
async def test_unreadable_answer_is_unreachable(script, session, text):
    """A good status with an unreadable body leaves the outcome unknown."""
    script.then(lambda _: web.Response(text=text))

    with pytest.raises(ApiUnreachable):
        await session.request("PATCH", CLAIM, body={})


async def test_a_proxy_is_asked(script):
    """Where one is named it gets the requests, for whichever server they are."""
    script.then(ok({"kind": "ResourceClaim"}))
    behind = credentials("http://api.example", proxy=script.url)
    async with ApiSession(Access(lambda: behind)) as session:
        assert await session.request("GET", CLAIM) == {"kind": "ResourceClaim"}

    assert script.asked[0].headers["Host"] == "api.example"


async def test_redirect_is_not_followed(script, session):
    """Credentials are never sent to where a redirect points."""
    script.then(lambda _: web.Response(status=302, headers={"Location": "/elsewhere"}))

    with pytest.raises(ApiError, match="302"):
        await session.request("GET", CLAIM)

    assert len(script.asked) == 1
