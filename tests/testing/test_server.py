"""The server as a whole: its life, the way in without HTTP, versions, and the count of requests."""

from typing import Any

import aiohttp
import pytest

from dra_operator.testing.discovery import serving_only
from dra_operator.testing.server import ApiServer

from .conftest import Api
from .steps import claim


async def test_objects_survive_a_restart(api: Api) -> None:
    """Stopping and starting again loses nothing: revisions go on."""
    await api.create(claim("a"))
    before = api.server.store.revision

    await api.server.stop()
    await api.server.start()

    assert api.server.get("ResourceClaim", "a", "default") is not None
    assert api.server.store.revision == before


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_a_server_of_one_version(version: str) -> None:
    """Only that version of resource.k8s.io is discovered and served, and it can be written and read."""
    async with (
        ApiServer(resources=serving_only(version)) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        api = Api(server, session)
        group = (await api.get("/apis/resource.k8s.io")).body
        path = f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims"
        request: dict[str, Any] = {"deviceClassName": "c"}
        body = {"name": "gpu", **request} if version == "v1beta1" else {"name": "gpu", "exactly": request}
        await api.create({"metadata": {"name": "a"}, "spec": {"devices": {"requests": [body]}}}, path)
        listed = (await api.get(path)).body

    assert [item["version"] for item in group["versions"]] == [version]
    shown = listed["items"][0]["spec"]["devices"]["requests"][0]
    assert shown.get("exactly", shown)["deviceClassName"] == "c"


async def test_the_admin_access_rule_can_be_off() -> None:
    """With the rule off a claim for admin access is accepted in any namespace."""
    body = claim("a")
    body["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    async with (
        ApiServer(checks_admin_access=False) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        await Api(server, session).create(body)
