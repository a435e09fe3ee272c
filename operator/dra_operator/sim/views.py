"""One object, several views: served versions of resource.k8s.io, and the two groups that show Events.

The store holds one shape for each kind; what a client sends or gets in another shape is converted at the edge. For
Events the stored shape is that of core/v1. Source: pkg/apis/core/v1 and pkg/apis/events/v1 conversion of Kubernetes.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from dra_operator.api import convert
from dra_operator.sim import schema
from dra_operator.sim.resources import Resource

Body = Mapping[str, Any]

_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
# v1beta2 has the shape of v1, and so has the v1alpha3 of DeviceTaintRule, the only kind served in it.
_OTHER_SHAPES = frozenset({"v1beta1"})
_CORE_EVENT_NAMES = {core: name for name, core in _EVENT_NAMES.items()}


def to_stored(body: Body, resource: Resource, version: str) -> dict[str, Any]:
    """Return a body of a served version in the shape of the store, without kind and apiVersion."""
    converted = _to_stored(body, resource, version)
    return {name: value for name, value in converted.items() if name not in ("kind", "apiVersion")}


def _to_stored(body: Body, resource: Resource, version: str) -> Body:
    if resource.group == "events.k8s.io":
        named = {_EVENT_NAMES.get(name, name): value for name, value in body.items()}
        return schema.decode(named, "core/v1.Event")[0]
    if version not in _OTHER_SHAPES:
        return body
    converted = convert.to_v1(body, kind=resource.kind, version=version)
    return _normalised(converted, resource, "v1")


def from_stored(body: Body, resource: Resource, version: str) -> Body:
    """Return a stored body in the shape of a served version; kind and apiVersion are left to the caller."""
    if resource.group == "events.k8s.io":
        named = {_CORE_EVENT_NAMES.get(name, name): value for name, value in body.items()}
        return schema.decode(named, "events/v1.Event")[0]
    if version not in _OTHER_SHAPES:
        return body
    return _normalised(convert.from_v1(body, version, kind=resource.kind), resource, version)


def _normalised(body: Body, resource: Resource, version: str) -> dict[str, Any]:
    """Return a body as the Go struct of a version encodes it; conversion leaves empty fields that Go hides."""
    return schema.decode(body, resource.struct(version))[0]


def front(resource: Resource, version: str) -> bytes:
    """Return how the JSON of an object of a kind begins."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version(version)}",'.encode()


def encode(body: Body, resource: Resource, version: str) -> bytes:
    """Return the JSON of a stored body in a version, kind and apiVersion first."""
    shown = from_stored(body, resource, version)
    return front(resource, version) + orjson.dumps(shown)[1:]


def wire_body(body: Body, resource: Resource, version: str) -> dict[str, Any]:
    """Return a fresh, changeable copy of a stored body in a version, with kind and apiVersion."""
    copy: dict[str, Any] = orjson.loads(encode(body, resource, version))
    return copy
