"""Kill -9 with an allocation on its way, on the real API server: what is stored late gives no device twice."""

import asyncio

from controlplane.fleet import DRIVER, create_fleet
from controlplane.scene import FINALIZER, devices


async def test_an_allocation_that_is_stored_late_gives_no_device_twice(
    scene, start_operator, proxy, through_proxy
):
    """The API server refuses what the killed operator had sent, since its successor has fenced the claim."""
    create_fleet(scene.client, nodes=1, devices=1)
    proxy.holds = lambda request: request.method == "PATCH" and request.path.endswith("/status")
    first = start_operator(kubeconfig=through_proxy)
    await asyncio.to_thread(first.wait_ready)
    scene.create_claim("first", DRIVER)
    async with asyncio.timeout(60):
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
