"""JSON that the API server sends and our decoder does not take as it is."""

import orjson
import pytest

from dra_operator.api.read import readable
from dra_operator.cluster.decoding import decode, encode

DEEP = b'{"a":' + 2000 * b"[" + 2000 * b"]" + b"}"
NESTED = 300 * b'{"a":' + b"1" + 300 * b"}"
HALF = rb'{"a":"\ud800"}'
NO_TEXT = b'{"a":"\xff"}'
UNREAD = {"too deep": DEEP, "half a character": HALF, "no text": NO_TEXT}
ODD = {
    **UNREAD,
    "too deep to be written": NESTED,
    "a long number": b'{"a":123456789012345678901234567890}',
    "an exponent": b'{"a":1e3}',
    "escapes": rb'{"a":"\u003c\"}{["}',
    "one name twice": b'{"a":1,"a":2}',
}


def claim(parameters=b'{"a":1}', data=b'{"a":1}', fields=b'{"f:a":{}}', name=b"claim"):
    """A claim as an API server writes it."""
    return (
        b'{"metadata":{"name":"%b","managedFields":[{"fieldsV1":%b}]},'
        b'"spec":{"devices":{"config":[{"opaque":{"driver":"a.io","parameters":%b}}]}},'
        b'"status":{"devices":[{"data":%b}]}}' % (name, fields, parameters, data)
    )


def parameters_of(body):
    """The parameters of a claim."""
    return body["spec"]["devices"]["config"][0]["opaque"]["parameters"]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_parameters_that_would_be_changed_are_written_as_they_are(odd):
    """Wherever they stand in a list; those beside them mean the same as ever."""
    page = decode(b'{"items":[%b,%b,%b]}' % (claim(), claim(odd, name=b"odd"), claim(b"{}")))

    assert [item["metadata"]["name"] for item in page["items"]] == ["claim", "odd", "claim"]
    assert [encode(parameters_of(item)) for item in page["items"]] == [b'{"a":1}', odd, b"{}"]


@pytest.mark.parametrize("unread", UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("field", ["data", "fields"])
def test_what_nothing_depends_on_and_cannot_be_read_is_left_out(unread, field):
    """And only that; of a kind that has no parameters as well."""
    left_out = {"data": b"{}", "fields": b"{}"}

    found = decode(claim(**{field: unread}))
    assert encode(found) == claim(**{field: left_out[field]})
    assert decode(b'{"fieldsV1":%b,"data":{"string":"a"}}' % unread) == {
        "fieldsV1": {},
        "data": {"string": "a"},
    }


def test_what_can_be_read_and_written_is_read(monkeypatch):
    """It is not carried, and costs no second reading."""
    monkeypatch.setattr("dra_operator.cluster.decoding.json.loads", None)

    assert parameters_of(decode(claim(b'{"a":[1,-2.5,"\xc3\xa9",null,{}]}'))) == {
        "a": [1, -2.5, "\xe9", None, {}]
    }
    assert decode(claim(data=b'{"a":1e3}'))["status"] == {"devices": [{"data": {"a": 1000.0}}]}


@pytest.mark.parametrize(
    "content", [b"", b"{", claim(DEEP)[:-9], claim(DEEP)[:200], b'{"a":"\xff"}', b'{"opaque"']
)
def test_what_is_no_json_is_none(content):
    """Cut short, or with what an API server does not write elsewhere."""
    with pytest.raises(orjson.JSONDecodeError):
        decode(content)


@pytest.mark.parametrize(
    ("carried", "read"),
    [(b'{"a":"\\u003c"}', {"a": "<"}), (DEEP, {}), (NESTED, {}), (HALF, {})],
    ids=["escapes", "too deep", "too deep to be written", "half a character"],
)
def test_parameters_that_were_carried_are_shown_as_far_as_they_can_be_read(carried, read):
    """In a snapshot, where nothing is allocated by them."""
    assert readable(carried) == read
