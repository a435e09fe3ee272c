"""The server as a whole: its life, the way in without HTTP, versions, and the count of requests."""

import io
from typing import Any

import aiohttp
import pytest
import yaml

from dra_operator.testing.resources import RESOURCES, serving_only
from dra_operator.testing.server import ApiServer, ServerOptions
from dra_operator.testing.strategy import AdminAccess

from .conftest import CLAIMS, Api
from .steps import claim


async def test_two_servers_do_not_meet() -> None:
    """Each takes a free port and has its own objects."""
    async with ApiServer() as one, ApiServer() as other:
        one.put(claim("a"))

        assert one.url != other.url
        assert other.get("ResourceClaim", "a", "default") is None


async def test_the_kubeconfig_names_the_server(server: ApiServer) -> None:
    """Whoever loads it finds the URL in the current context."""
    config = yaml.safe_load(server.kubeconfig())

    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert config["current-context"] == config["contexts"][0]["name"]


async def test_objects_survive_a_restart(api: Api) -> None:
    """Stopping and starting again loses nothing: revisions go on."""
    await api.create(claim("a"))
    before = api.server.store.revision

    await api.server.stop()
    await api.server.start()

    assert api.server.get("ResourceClaim", "a", "default") is not None
    assert api.server.store.revision == before


def test_put_keeps_identity_and_status() -> None:
    """A body put a second time replaces the object but not its uid; status is stored as it comes."""
    server = ApiServer()
    server.put({**claim("a"), "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}})
    first = server.get("ResourceClaim", "a", "default")
    server.put(claim("a"))
    second = server.get("ResourceClaim", "a", "default")

    assert first is not None
    assert second is not None
    assert first["status"]["reservedFor"][0]["name"] == "p"
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]


def test_put_refuses_what_is_not_served() -> None:
    """A kind or version that the server does not have is an error of the test."""
    with pytest.raises(ValueError, match="is not served here"):
        ApiServer().put({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"}})


def test_copies_do_not_reach_the_store() -> None:
    """Changing what `get` and `list` return changes nothing."""
    server = ApiServer()
    server.put(claim("a"))
    for copy in (server.get("ResourceClaim", "a", "default"), server.list("ResourceClaim")[0]):
        assert copy is not None
        copy["spec"].clear()

    assert server.list("ResourceClaim", "default")[0]["spec"] != {}


async def test_requests_are_counted(api: Api) -> None:
    """By verb and kind."""
    await api.create(claim("a"))
    await api.merge(f"{CLAIMS}/a/status", {"status": {}})

    assert api.server.requests == {"create ResourceClaim": 1, "patch ResourceClaim/status": 1}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_a_server_of_one_version(version: str) -> None:
    """Only that version of resource.k8s.io is discovered and served, and it can be written and read."""
    async with (
        ApiServer(options=ServerOptions(resources=serving_only(version))) as server,
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


async def test_a_kind_can_be_left_out() -> None:
    """A kind that is not among the resources is neither discovered nor served."""
    resources = tuple(found for found in RESOURCES if found.kind != "DeviceTaintRule")
    async with (
        ApiServer(options=ServerOptions(resources=resources)) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        api = Api(server, session)
        listed = (await api.get("/apis/resource.k8s.io/v1beta2")).body
        answer = await api.get("/apis/resource.k8s.io/v1beta2/devicetaintrules")

    assert "devicetaintrules" not in [item["name"] for item in listed["resources"]]
    assert answer.status == 404


async def test_the_admin_access_rule_can_be_off() -> None:
    """With the rule off a claim for admin access is accepted in any namespace."""
    body = claim("a")
    body["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    async with (
        ApiServer(options=ServerOptions(admin_access=AdminAccess.UNCHECKED)) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        await Api(server, session).create(body)


async def test_deleting_a_namespace_empties_it(api: Api) -> None:
    """Its objects go with it; a finalizer holds object and namespace, and nothing new can be made meanwhile."""
    inside = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims"
    await api.create({"metadata": {"name": "n"}}, "/api/v1/namespaces")
    await api.create(claim("a"), inside)
    await api.create(claim("b", finalizers=["x/y"]), inside)

    await api.send("DELETE", "/api/v1/namespaces/n")

    refused = await api.send("POST", inside, claim("c"))
    left = [item["metadata"]["name"] for item in (await api.get(inside)).body["items"]]
    assert (left, refused.status) == (["b"], 403)
    assert [cause["reason"] for cause in refused.body["details"]["causes"]] == ["NamespaceTerminating"]

    await api.merge(f"{inside}/b", {"metadata": {"finalizers": None}})

    assert (await api.get("/api/v1/namespaces/n")).status == 404


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    """Beyond 3 MiB the answer is 413."""
    answer = await api.send("POST", CLAIMS, io.BytesIO(b" " * (3 * 1024 * 1024 + 1)))

    assert answer.status == 413


async def test_protobuf_is_refused_with_what_to_do(api: Api) -> None:
    """Kubectl sends it for some kinds, and shows its user the message."""
    answer = await api.send(
        "POST", CLAIMS, io.BytesIO(b"k8s"), content_type="application/vnd.kubernetes.protobuf"
    )

    assert answer.status == 415
    assert "use kubectl apply -f" in answer.body["message"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health(api: Api, path: str) -> None:
    """It is well while it answers."""
    answer = await api.get(path)

    assert (answer.status, answer.body) == (200, "ok")
