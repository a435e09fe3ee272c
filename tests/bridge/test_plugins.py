"""A plugin whose bytes are no messages, or that goes while it is asked, is an error of its own."""

import asyncio

import grpc
import pytest

from dra_bridge.plugins import PluginClient
from dra_bridge.protocols import deviceplugin_pb2 as pb
from dra_bridge.resources import PluginError


class BrokenPlugin(grpc.GenericRpcHandler):
    """Answers bytes that cannot be parsed, but for its second list; with `hangs` it does not answer."""

    hangs = asked = False

    def service(self, details):
        """Return who answers a call."""
        self.asked = True
        if details.method.endswith("/ListAndWatch"):
            return grpc.unary_stream_rpc_method_handler(self._list)
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _list(self, _request, _context):
        yield b"\xff"
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID="a", health="Healthy")]).SerializeToString()
        await asyncio.sleep(100)

    async def _answer(self, _request, _context):
        await asyncio.sleep(100 if self.hangs else 0)
        return b"\xff"


def test_what_cannot_be_parsed_is_an_error_of_the_plugin(tmp_path):
    """A list that is none is left out, and Allocate fails by a PluginError, also of a closed channel."""

    async def run():
        plugin, listed = BrokenPlugin(), asyncio.Queue()
        server = await serve(plugin, tmp_path / "p.sock")
        client = PluginClient(
            "vendor.com/foo",
            tmp_path / "p.sock",
            pb.DevicePluginOptions(),
            listed=lambda _, devices: listed.put_nowait(devices),
            lost=lambda _: None,
        )
        following = asyncio.create_task(client.run())
        (device,) = await asyncio.wait_for(listed.get(), 30)
        assert device.id == "a"
        with pytest.raises(PluginError, match="cannot be parsed"):
            await client.allocate(["a"])
        plugin.hangs = True
        hanging = asyncio.create_task(client.allocate(["a"]))
        await asyncio.sleep(0.1)
        following.cancel()
        for call in (hanging, client.allocate(["a"])):
            with pytest.raises(PluginError, match="gone meanwhile"):
                await call
        await server.stop(0)

    asyncio.run(run())


def test_new_socket_at_the_same_path(tmp_path):
    """Whoever makes it registers again, maybe another resource: until then it is asked for nothing."""

    async def run():
        lost, listed = [], asyncio.Event()
        path = tmp_path / "p.sock"
        server = await serve(BrokenPlugin(), path)
        client = PluginClient(
            "vendor.com/foo",
            path,
            pb.DevicePluginOptions(),
            listed=lambda _, __: listed.set(),
            lost=lost.append,
        )
        following = asyncio.create_task(client.run())
        await asyncio.wait_for(listed.wait(), 30)
        await server.stop(0)
        new = BrokenPlugin()
        path.unlink(missing_ok=True)
        server = await serve(new, path)

        await asyncio.wait_for(following, 30)

        assert client in lost
        assert not new.asked
        await server.stop(0)

    asyncio.run(run())


async def serve(plugin, path):
    """Return a server of a plugin at a socket."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((plugin,))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    return server
