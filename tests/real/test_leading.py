"""Two operators on the real API server: one decides, and one that was frozen gives no device twice."""

import asyncio
import signal

import pytest

from controlplane.fleet import DRIVER, create_fleet
from controlplane.scene import devices


@pytest.fixture
def start(start_operator):
    """Start operators of pods of their own, whose Lease lasts three seconds."""
    return lambda name, **options: start_operator(
        f"--identity={name}", "--lease-seconds=3", "--request-timeout-seconds=30", **options
    )


async def test_one_that_was_frozen_gives_no_device_twice(scene, start, proxy, through_proxy):
    """When it wakes, what it had sent is refused, it writes nothing more, and ends with 1 to be started anew."""
    create_fleet(scene.client, nodes=1, devices=1)
    proxy.holds = lambda request: request.method == "PATCH" and request.path.endswith("/status")
    first = start("first", kubeconfig=through_proxy)
    await asyncio.to_thread(first.wait_ready)
    scene.create_claim("early", DRIVER)
    async with asyncio.timeout(30):
        while not proxy.held:  # noqa: ASYNC110 - the proxy signals nothing
            await asyncio.sleep(0.01)
    first.send(signal.SIGSTOP)
    scene.create_user("early")
    second = start("second")
    scene.create_claim("late", DRIVER)
    holder = await asyncio.to_thread(scene.wait_allocated, "late")

    proxy.holds = lambda _: False
    codes = await proxy.let_through()
    first.send(signal.SIGCONT)
    code = await asyncio.to_thread(first.wait, 40)

    assert (codes, devices(holder), devices(scene.claim("early"))) == ([409], ["node-000/dev-0"], [])
    assert code == 1
    (lost,) = [line for line in first.lines() if line["event"] == "lease lost"]
    assert lost["holder"] == "second"
    await asyncio.to_thread(second.wait_ready)
