"""An object as the store holds it: one immutable body, and its bytes in each version, encoded once and shared.

The body is the shape of the stored version without `kind` and `apiVersion`; these come first in the bytes, so that a
list can leave them out by cutting the front off, as the real server's lists do.
"""

from collections.abc import Mapping
from typing import Any

from dra_operator.sim.resources import Resource
from dra_operator.sim.views import encode, front

Body = Mapping[str, Any]


class Stored:
    """One version of one object; `revision` is its resourceVersion as a number. Never changed once made."""

    __slots__ = ("_encoded", "body", "key", "revision")

    def __init__(self, key: str, body: Body, revision: int) -> None:
        self.key = key
        self.body = body
        self.revision = revision
        self._encoded: dict[tuple[str, str], bytes] = {}

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace, empty for a cluster-scoped kind."""
        return str(self.body["metadata"].get("namespace", ""))

    def encoded(self, resource: Resource, version: str) -> bytes:
        """Return the object's JSON in a version of a kind, kind and apiVersion first."""
        view = (resource.group, version)
        found = self._encoded.get(view)
        if found is None:
            found = encode(self.body, resource, version)
            self._encoded[view] = found
        return found

    def list_item(self, resource: Resource, version: str) -> bytes:
        """Return the object's JSON as an item of a list, without kind and apiVersion."""
        return b"{" + self.encoded(resource, version)[len(front(resource, version)) :]
