"""Two operators on the real API server: one decides, and one that was frozen gives no device twice."""

import asyncio
import re
import signal

import pytest

from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import NAMESPACE
from controlplane.scene import devices

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/dra-operator"


@pytest.fixture
def start(start_operator):
    """Start operators of pods of their own, whose Lease lasts three seconds."""
    return lambda name, **options: start_operator(
        f"--identity={name}", "--lease-seconds=3", "--request-timeout-seconds=30", **options
    )


def test_the_one_that_stops_hands_over_to_the_one_that_stands_by(scene, start):
    """Within two periods of the Lease, and with nothing lost."""
    create_fleet(scene.client, nodes=1, devices=2)
    first = start("first")
    first.wait_ready()
    scene.create_claim("early", DRIVER)
    scene.wait_allocated("early")
    second = start("second")
    second.wait_until(lambda: second.ready() and "standing by: first" in second.http("/leaderz")[1])

    assert first.stop() == 0
    scene.create_claim("late", DRIVER)

    assert devices(scene.wait_allocated("late")) == ["node-000/dev-1"]
    assert scene.client.get(LEASE)["spec"]["holderIdentity"] == "second"
    second.wait_until(lambda: second.http("/leaderz") == (200, "ok\n"))

    def is_described():
        """Whether the Event is there: those about claims may go first."""
        described = scene.plane.kubectl("describe", "lease", "dra-operator", f"--namespace={NAMESPACE}")
        return re.search(r"Normal +LeaderElection .* dra-operator +second became leader", described)

    second.wait_until(is_described)


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
