"""Preparations of one claim, one after the other."""

import asyncio

from dra_bridge.cdi import Answer
from dra_bridge.checkpoint import Checkpoint
from dra_bridge.device_nodes import HostDevices
from dra_bridge.devices import PluginDevice
from dra_bridge.preparation import ClaimReference, Preparation
from dra_bridge.resources import Resource

DRIVER, UID = "foo.vendor.com", "7d1e4a1c-2f0b-4a3e-9a51-0d6c2b8f2f10"


class SlowPlugin:
    """Knows how many of its calls were under way at most."""

    running = most = 0

    async def allocate(self, _ids):
        """Take a while."""
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.05)
        self.running -= 1
        return Answer()

    async def pre_start(self, _ids):
        """Do nothing."""


def test_claim_is_prepared_by_one_at_a_time(tmp_path):
    """Also where it is unprepared between two that wait, and asked for once more while they do."""

    async def run():
        result = {"request": "a", "driver": DRIVER, "pool": "node-1", "device": "dev-0"}
        claim = {"metadata": {"uid": UID}, "status": {"allocation": {"devices": {"results": [result]}}}}
        checkpoint = Checkpoint(tmp_path / "state")
        checkpoint.load()
        preparation = Preparation(
            checkpoint,
            tmp_path,
            "node-1",
            host_devices=HostDevices(tmp_path),
            get_claim=lambda *_: asyncio.sleep(0, claim),
            held=lambda: asyncio.sleep(0, {}),
            may_be_offered=lambda _: False,
            warn=lambda *_: None,
            count_failure=lambda _: None,
        )
        resource, plugin = Resource("vendor.com/foo", DRIVER, (), 0), SlowPlugin()
        resource.list_devices(plugin, (PluginDevice("dev-0", is_healthy=True),))
        reference = ClaimReference("default", "claim", UID)
        first = asyncio.create_task(preparation.prepare(resource, reference))
        await asyncio.sleep(0.01)
        end = asyncio.create_task(preparation.unprepare(DRIVER, reference))
        await asyncio.sleep(0)
        second = asyncio.create_task(preparation.prepare(resource, reference))
        await asyncio.gather(first, end)
        await asyncio.gather(second, preparation.prepare(resource, reference))
        assert plugin.most == 1

    asyncio.run(run())
