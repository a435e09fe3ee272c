"""Paging: all objects of a kind, page by page, so that neither the API server nor we hold all of them at once."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from dra_operator.api.text import shown
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import ApiSession, ApiUnreachable


async def pages(
    session: ApiSession, served: Served, chunk: int
) -> AsyncIterator[tuple[str, Iterator[dict[str, Any]], bool]]:
    """Yield version, objects, and whether more follow, of each page. Raises ApiError, ApiUnreachable.

    At its end the iterator lets go of the objects, before the next page is asked for.
    """
    path, params = served.path(), {"limit": str(chunk)}
    while True:
        page = await session.request("GET", path, params=params)
        version, proceed = list_version(path, page), page["metadata"].get("continue")
        yield version, iter(page.pop("items", None) or ()), bool(proceed)
        if not proceed:
            return
        params = {"limit": str(chunk), "continue": proceed}


def list_version(path: str, page: dict[str, Any]) -> str:
    """Return the version of a list. Raises ApiUnreachable for what is none: it would read as if nothing were there."""
    try:
        return str(page["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise ApiUnreachable(f"GET {path}: the answer is no list of objects, but {shown(page)}") from None
