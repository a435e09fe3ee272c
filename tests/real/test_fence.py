"""Kill -9 with an allocation on its way, on the real API server: what is stored late gives no device twice."""

import asyncio
import json
import ssl

import pytest
import yaml

from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT
from controlplane.scene import FINALIZER, devices
from holding_proxy import HoldingProxy


@pytest.fixture
async def proxy(access):
    """A proxy before the API server."""
    context = ssl.create_default_context(cafile=str(access.ca))
    async with HoldingProxy(access.server, context) as proxy:
        yield proxy


@pytest.fixture
def through_proxy(access, proxy, tmp_path):
    """The operator's kubeconfig, by way of the proxy."""
    config = yaml.safe_load(access.kubeconfig_for(SERVICE_ACCOUNT, NAMESPACE).read_text())
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    path = tmp_path / "proxy.kubeconfig"
    path.write_text(json.dumps(config))
    return path


async def test_an_allocation_that_is_stored_late_gives_no_device_twice(
    scene, start_operator, proxy, through_proxy
):
    """The API server refuses what the killed operator had sent, since its successor has fenced the claim."""
    create_fleet(scene.client, nodes=1, devices=1)
    proxy.holds = lambda request: request.method == "PATCH" and request.path.endswith("/status")
    first = start_operator(kubeconfig=through_proxy)
    await asyncio.to_thread(first.wait_ready)
    scene.create_claim("first", DRIVER)
    async with asyncio.timeout(10):
        while not proxy.held:  # noqa: ASYNC110 - the proxy signals nothing
            await asyncio.sleep(0.01)
    first.kill()
    assert scene.claim("first")["metadata"]["finalizers"] == [FINALIZER]
    scene.create_user("first")
    scene.create_claim("second", DRIVER)
    second = start_operator()
    holder = await asyncio.to_thread(scene.wait_allocated, "second")

    codes = await proxy.let_through()

    assert (codes, devices(holder), devices(scene.claim("first"))) == ([409], ["node-000/dev-0"], [])
    assert "finalizers" not in scene.claim("first")["metadata"]
    assert [line["claims"] for line in second.lines() if line["event"] == "earlier writes fenced"] == [1]
