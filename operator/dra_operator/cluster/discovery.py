"""Discovery: which of our kinds an API server serves, in which version; and lists of them, page by page.

The newest version that both sides know is used; a kind that is not served is absent from the answer, which is a state
to live with and not an error (docs/kopf.md). By pages, neither side holds all objects of a kind at once.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.kinds import Kind
from dra_operator.api.text import shown
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable


@dataclass(frozen=True, slots=True)
class Served:
    """A kind in the version that this API server serves."""

    kind: Kind
    version: str

    @property
    def api_version(self) -> str:
        """What `apiVersion` holds in its objects, e.g. `resource.k8s.io/v1`."""
        return self.kind.api_version(self.version)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of an object's subresource, or of all objects (of a namespace)."""
        base = f"/apis/{self.kind.group}/{self.version}" if self.kind.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{base}{scope}/{self.kind.plural}{tail}"


async def served(session: ApiSession, kinds: Mapping[str, Kind]) -> dict[str, Served]:
    """Return each of `kinds` that is served, in the newest version served, keyed as in `kinds`.

    Raises ApiError or ApiUnreachable if the API server cannot say; the caller tries again.
    """
    plurals: dict[tuple[str, str], frozenset[str]] = {}
    found: dict[str, Served] = {}
    for key, kind in kinds.items():
        for version in kind.versions:
            place = (kind.group, version)
            if place not in plurals:
                plurals[place] = await _plurals(session, *place)
            if kind.plural in plurals[place]:
                found[key] = Served(kind, version)
                break
    return found


async def server_version(session: ApiSession) -> str:
    """Return the version of the API server, such as `v1.38.0`; nothing if it keeps that to itself.

    Raises ApiError or ApiUnreachable if it cannot say now; the caller tries again.
    """
    try:
        answer = await session.request("GET", "/version")
    except ApiError as error:
        if error.status in {401, 403, 404}:
            return ""
        raise
    return str(answer.get("gitVersion", ""))


async def _plurals(session: ApiSession, group: str, version: str) -> frozenset[str]:
    """Return the plurals that one group and version serves; none if it is not served."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        answer: dict[str, Any] = await session.request("GET", path)
    except ApiError as error:
        # Every API server serves the core; without it, it is not one that answers. Decisions would be made without
        # Nodes and Pods.
        if error.status == 404 and group:
            return frozenset()
        raise
    if "resources" not in answer:
        # From something between; kinds that are served would count as not served, and be done without.
        raise ApiUnreachable(f"GET {path}: the answer is no list of resources, but {shown(answer)}")
    return frozenset(resource["name"] for resource in answer["resources"] or ())


async def pages(
    session: ApiSession, served: Served, chunk: int, fields: str = ""
) -> AsyncIterator[tuple[str, Iterator[dict[str, Any]], bool]]:
    """Yield version, objects, and whether more follow, of each page; `fields` select some.

    Raises ApiError, ApiUnreachable. At its end the iterator lets go of the objects, before the next page is asked for.
    """
    path, every = served.path(), {"limit": str(chunk), **({"fieldSelector": fields} if fields else {})}
    params = every
    while True:
        page = await session.request("GET", path, params=params)
        version, proceed = list_version(path, page), page["metadata"].get("continue")
        yield version, iter(page.pop("items", None) or ()), bool(proceed)
        if not proceed:
            return
        params = {**every, "continue": proceed}


def list_version(path: str, page: dict[str, Any]) -> str:
    """Return the version of a list. Raises ApiUnreachable for what is none: it would read as if nothing were there."""
    try:
        return str(page["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise ApiUnreachable(f"GET {path}: the answer is no list of objects, but {shown(page)}") from None
