"""The agent as a process: plugins register, slices come, claims are prepared, and all of it again after a crash."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from bridgefuzz.plugin import Behaviour, Listed, register
from bridgefuzz.world import DRIVER, NODE, RESOURCE, BridgeWorld
from factories import manifest


@pytest.fixture
def world():
    """Return a node on which the agent is ready."""
    with BridgeWorld() as world:
        world.start_agent()
        world.wait_ready()
        yield world


def named(count):
    """Return so many healthy devices."""
    return {f"dev-{number}": Listed() for number in range(count)}


def serve(world, devices, resource=RESOURCE, driver=DRIVER, behaviour=None):
    """Start a plugin and wait for its devices."""
    plugin = world.plugin(devices, resource)
    plugin.behaviour = behaviour or Behaviour()
    plugin.start()
    world.wait_for(lambda: len(world.devices(driver)) == len(devices), "the devices")
    world.wait_for(lambda: driver in world.kubelet.drivers, "the driver")
    return plugin


def test_devices_of_a_plugin_are_slices(world):
    """200 devices are four slices of one pool, with IDs, NUMA nodes and health."""
    devices = {f"dev-{number}": Listed(numa=(number % 2,)) for number in range(200)}
    devices["dev-7"] = Listed(healthy=False, numa=(0, 1))

    serve(world, devices)

    slices = world.slices()
    assert sorted(len(each["spec"]["devices"]) for each in slices) == [8, 64, 64, 64]
    assert {each["spec"]["nodeName"] for each in slices} == {NODE}
    found = world.devices()
    numa = "resource.kubernetes.io/numaNode"
    assert found["dev-3"]["attributes"] == {"id": {"string": "dev-3"}, numa: {"int": 1}}
    assert found["dev-7"]["attributes"] == {"id": {"string": "dev-7"}}
    assert {name for name, taints in world.taints().items() if taints} == {"dev-7"}
    assert world.kubelet.health(DRIVER)["dev-7"] == 2
    free = f'dra_bridge_devices{{resource="{RESOURCE}",state="free"}} 199.0'
    world.wait_for(lambda: free in world.get("/metrics"), "the metric")


def test_claim_is_prepared_once(world):
    """One Allocate for a request with all of its ids; its answer is a CDI file until the claim is unprepared."""
    plugin = serve(world, named(3), behaviour=Behaviour(cdi_devices=True, pre_start=True))
    claim = world.put_claim("claim", ["dev-0", "dev-2"])

    first = world.kubelet.prepare(DRIVER, claim)
    world.kill_agent()
    world.start_agent()
    world.wait_ready()
    again = world.kubelet.prepare(DRIVER, claim)

    assert first == again
    assert plugin.allocated == plugin.started == [["dev-0", "dev-2"]]
    uid = claim["metadata"]["uid"]
    assert [(each.device_name, each.pool_name, [*each.request_names]) for each in first.devices] == [
        ("dev-0", NODE, ["devices"]),
        ("dev-2", NODE, ["devices"]),
    ]
    assert [*first.devices[0].cdi_device_ids] == [
        f"{DRIVER}/claim={uid}_devices",
        "example.com/plugin=dev-0",
        "example.com/plugin=dev-2",
    ]
    (content,) = world.cdi_files().values()
    (device,) = content["devices"]
    assert device["containerEdits"] == {
        "env": ["PLUGIN_DEVICES=dev-0,dev-2"],
        "deviceNodes": [
            {"path": f"/dev/{name}", "hostPath": "/dev/zero", "permissions": "rw", "uid": 0, "gid": 0}
            for name in ("dev-0", "dev-2")
        ],
        "mounts": [
            {
                "containerPath": f"/etc/{name}",
                "hostPath": "/etc/hostname",
                "type": "bind",
                "options": ["rbind", "rprivate", "ro"],
            }
            for name in ("dev-0", "dev-2")
        ],
    }
    assert world.kubelet.unprepare(DRIVER, claim) == ""
    assert world.kubelet.unprepare(DRIVER, claim) == ""
    assert world.cdi_files() == {}


def test_slices_are_back_after_a_kubelet_restart(world):
    """A kubelet deletes the slices of its node at its start: soon they are there again."""
    serve(world, named(70))

    world.remove_slices()

    world.wait_for(lambda: len(world.devices()) == 70, "the devices", 20)


def test_plugin_that_goes_and_comes(world):
    """Its devices are unhealthy meanwhile; who registers again is followed, and the slices outlive the agent."""
    plugin = serve(world, named(2))
    plugin.stop()
    gone = {("unhealthy", "plugin-gone")}
    world.wait_for(lambda: world.taints() == {"dev-0": gone, "dev-1": gone}, "the taints")
    claim = world.put_claim("claim", ["dev-0"])
    assert "no plugin of vendor.com/foo is there" in world.kubelet.prepare(DRIVER, claim).error

    plugin.start()
    world.wait_for(lambda: world.taints() == {"dev-0": set(), "dev-1": set()}, "the end of the taints")
    plugin.devices["dev-1"].healthy = False
    plugin.change()

    world.wait_for(lambda: world.taints()["dev-1"] == {("unhealthy", "unhealthy")}, "the health", 20)
    world.agent.terminate()
    world.agent.join(30)
    assert world.agent.exitcode == 0
    assert len(world.devices()) == 2
    assert not [*(world.kubelet.folder / "plugins_registry").iterdir()]


def test_devices_of_the_device_manager(world):
    """What a container has by the device manager is tainted, and all while it offers any; prepare refuses them, too."""
    world.kubelet.held[RESOURCE] = {"dev-0"}
    world.put_node({RESOURCE: "2"})
    serve(world, named(2))
    offered = {"dev-0": {("device-manager", "in-use")}, "dev-1": {("device-manager", "allocatable")}}
    world.wait_for(lambda: world.taints() == offered, "the taints")
    world.wait_for(
        lambda: any(each["reason"] == "DevicesOfDeviceManager" for each in world.events()), "the Warning"
    )

    offered_one = world.put_claim("offered", ["dev-1"])
    assert "allocatable" in world.kubelet.prepare(DRIVER, offered_one).error
    world.put_node({RESOURCE: "0"})

    world.wait_for(lambda: world.taints() == {**offered, "dev-1": set()}, "the end of a taint")
    claim = world.put_claim("claim", ["dev-0"])
    assert "device manager" in world.kubelet.prepare(DRIVER, claim).error
    world.kubelet.held[RESOURCE] = set()
    world.wait_for(lambda: not any(world.taints().values()), "the end of all taints")
    assert world.kubelet.prepare(DRIVER, claim).error == ""


def test_nothing_is_published_before_the_device_manager_is_known():
    """While the kubelet does not say what containers have, there is no slice, and the agent is not ready."""
    with BridgeWorld() as world:
        world.kubelet.stop_pod_resources()
        world.start_agent()
        world.wait_for(lambda: "agent started" in world.log(), "the agent")
        plugin = world.plugin(named(1))
        plugin.start()
        world.wait_for(lambda: plugin.lists, "the question for devices")
        assert not world.is_ready()
        assert world.slices() == []

        world.kubelet.start_pod_resources()

        world.wait_for(world.devices, "the devices")


def refusal(world, *arguments):
    """Return what the agent says to who registers."""
    with pytest.raises(grpc.RpcError) as caught:
        register(world.plugins_folder, *arguments)
    return caught.value.details()


def test_rubbish_is_survived(world):
    """Registrations, lists and answers that are none harm nobody else, and are said."""
    assert "v9" in refusal(world, RESOURCE, "foo.sock", "v9")
    assert "no domain" in refusal(world, "foo", "foo.sock")
    assert "Kubernetes' own" in refusal(world, "kubernetes.io/foo", "foo.sock")
    for endpoint in ("", "..", "../foo.sock", "foo%2f.sock", "kubelet.sock"):
        assert "no name of a socket" in refusal(world, RESOURCE, endpoint)
    assert "too long for a socket" in refusal(world, RESOURCE, "x" * 100)
    (world.plugins_folder / "folder.sock").mkdir()
    register(world.plugins_folder, "vendor.com/folder", "folder.sock")
    long = "x" * 1000
    devices = {"": Listed(), long: Listed(), "Dev_1": Listed(), **named(2)}
    plugin = world.plugin(devices)
    plugin.duplicates = ("dev-0",)
    plugin.start()
    world.wait_for(lambda: len(world.devices()) == 4, "the devices that are some")
    found = world.devices()
    (without,) = [each for each in found.values() if "attributes" not in each]
    assert len(without["name"]) == 63
    assert "devices left out" in world.log()
    claim = world.put_claim("long", [without["name"]])
    assert world.kubelet.prepare(DRIVER, claim).error == ""
    assert plugin.allocated == [[long]]

    plugin.behaviour = Behaviour(answers=2)
    error = world.kubelet.prepare(DRIVER, world.put_claim("two", ["dev-0"])).error
    assert "answered Allocate for one container with 2 answers" in error
    plugin.behaviour = Behaviour(failure="no such card")
    error = world.kubelet.prepare(DRIVER, world.put_claim("failing", ["dev-1"])).error
    assert "no such card" in error
    failed = "dra_bridge_failed_allocates_total"
    world.wait_for(lambda: failed in world.get("/metrics"), "the metric")
    plugin.behaviour = Behaviour()
    admin = world.put_claim("admin", ["dev-0"], adminAccess=True)
    assert "admin access is not possible" in world.kubelet.prepare(DRIVER, admin).error


def test_plugin_that_hangs(world):
    """Whoever waits for its Allocate holds up no other claim and no other plugin."""
    slow = serve(world, named(2))
    slow.behaviour = Behaviour(seconds=300)
    serve(world, named(1), "vendor.com/bar", "bar.vendor.com")
    hanging = world.put_claim("hanging", ["dev-0"])
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(world.kubelet.prepare, DRIVER, hanging)
        world.wait_for(lambda: slow.asked, "the Allocate that hangs")
        slow.behaviour = Behaviour()

        other = world.put_claim("other", ["dev-0"], "bar.vendor.com")
        assert world.kubelet.prepare("bar.vendor.com", other, seconds=60).error == ""
        assert world.kubelet.prepare(DRIVER, world.put_claim("next", ["dev-1"]), seconds=60).error == ""
        assert not waiting.done()
        slow.stop()
        waiting.result(45)


def test_resource_whose_socket_cannot_be_had():
    """Its driver comes once the socket can be had; the agent says why it is not there, and other resources go on."""
    with BridgeWorld() as world:
        obstacle = world.kubelet.folder / "plugins_registry" / "bar.vendor.com-reg.sock"
        obstacle.mkdir(parents=True)
        world.start_agent()
        world.wait_ready()
        world.plugin(named(1), "vendor.com/bar").start()
        world.wait_for(lambda: "vendor.com/bar: " in world.log(), "the reason")

        serve(world, named(2))
        claim = world.put_claim("claim", ["dev-0"])
        assert world.kubelet.prepare(DRIVER, claim).error == ""
        assert not world.is_ready()
        assert world.slices("bar.vendor.com") == []

        obstacle.rmdir()
        world.wait_for(lambda: world.devices("bar.vendor.com"), "the other devices")
        world.wait_ready()


def test_what_cannot_be_bridged_is_a_warning(world):
    """Annotations, but those of CDI, and an env that two requests set; the kubelet is told a subrequest's request."""
    plugin = serve(world, named(2))
    plugin.behaviour = Behaviour(annotations={"vendor.com/a": "b", "cdi.k8s.io/x": "example.com/plugin=one"})
    claim = world.put_claim("claim", {"one": ["dev-0"], "two/big": ["dev-1"]})

    answer = world.kubelet.prepare(DRIVER, claim)

    assert plugin.allocated == [["dev-0"], ["dev-1"]]
    assert "example.com/plugin=one" in answer.devices[0].cdi_device_ids
    assert [[*each.request_names] for each in answer.devices] == [["one"], ["two"]]
    told = world.wait_for(
        lambda: (
            len(found := [e["message"] for e in world.events() if e["reason"] == "NotBridged"]) == 3 and found
        ),
        "the Warnings",
    )
    assert any("vendor.com/a" in each for each in told)
    assert any("set env PLUGIN_DEVICES" in each for each in told)


def test_device_of_a_prepared_claim(world):
    """No other claim gets it, whatever its allocation says, nor any while the claim's record cannot be read."""
    plugin = serve(world, named(2))
    first = world.put_claim("first", ["dev-0"])
    assert world.kubelet.prepare(DRIVER, first).error == ""
    assert (
        "still prepared for claim default/first"
        in world.kubelet.prepare(DRIVER, world.put_claim("second", ["dev-0"])).error
    )
    world.kill_agent()
    state = world.kubelet.folder / "plugins" / "dra-bridge" / "claims"
    (record,) = state.iterdir()
    record.write_text('{"uid": 1')
    world.start_agent()
    world.wait_ready()
    plugin.stop()
    plugin.start()
    unknown = {("unhealthy", "holder-unknown")}
    world.wait_for(lambda: world.taints() == {"dev-0": unknown, "dev-1": unknown}, "the taints")
    other = world.put_claim("other", ["dev-1"])
    assert "its record cannot be read" in world.kubelet.prepare(DRIVER, other).error

    assert world.kubelet.prepare(DRIVER, first).error == ""

    world.wait_for(lambda: not any(world.taints().values()), "the end of the taints")
    assert world.kubelet.prepare(DRIVER, other).error == ""


def test_rubbish_in_the_folder_of_cdi(world):
    """Files that are no text and folders with the bridge's names are replaced or removed at the agent's start."""
    serve(world, named(1))
    claim = world.put_claim("claim", ["dev-0"])
    assert world.kubelet.prepare(DRIVER, claim).error == ""
    before = world.cdi_files()
    for is_folder in (False, True):
        world.kill_agent()
        (name,) = before
        (world.cdi / name).write_bytes(b"\xff")
        if is_folder:
            (world.cdi / name).unlink()
            (world.cdi / name).mkdir()
        (world.cdi / "dra-bridge-foo.vendor.com_left.json").mkdir()
        world.start_agent()
        world.wait_ready()
        assert world.cdi_files() == before


def test_claim_that_is_allocated_anew(world):
    """Its other device is asked for, and takes the place of the one that was prepared."""
    plugin = serve(world, named(2))
    claim = world.put_claim("claim", ["dev-0"])
    assert world.kubelet.prepare(DRIVER, claim).error == ""
    assert world.put_claim("claim", ["dev-1"])["metadata"]["uid"] == claim["metadata"]["uid"]

    for _ in range(2):
        (device,) = world.kubelet.prepare(DRIVER, claim).devices
        assert device.device_name == "dev-1"

    assert plugin.allocated == [["dev-0"], ["dev-1"]]
    (content,) = world.cdi_files().values()
    assert content["devices"][0]["containerEdits"]["env"] == ["PLUGIN_DEVICES=dev-1"]
    assert world.kubelet.prepare(DRIVER, world.put_claim("other", ["dev-0"])).error == ""


def test_socket_of_another_resource(world):
    """A plugin that names another resource for its socket has its devices under that one alone."""
    plugin = world.plugin(named(2))
    plugin.start("one.sock")
    world.wait_for(lambda: len(world.devices()) == 2, "the devices")

    register(world.plugins_folder, "vendor.com/bar", "one.sock")

    world.wait_for(lambda: len(world.devices("bar.vendor.com")) == 2, "the devices of the other resource")
    gone = {("unhealthy", "plugin-gone")}
    world.wait_for(lambda: world.taints() == {"dev-0": gone, "dev-1": gone}, "the taints")


def test_api_server_that_drops_taints(world):
    """Devices that would need a taint are left out, no slice is written again and again, and the gate is named."""
    world.on_server(drop_taints)
    world.put_node({RESOURCE: "2"})
    plugin = world.plugin(named(70))
    plugin.devices["dev-3"].healthy = False
    plugin.start()
    world.wait_for(lambda: "taints dropped" in world.log(), "the error")
    assert "DRADeviceTaints" in world.log()
    assert world.slices() == []

    world.put_node({RESOURCE: "0"})
    world.wait_for(lambda: len(world.devices()) == 69, "the devices without taints")
    assert "dev-3" not in world.devices()
    world.wait_ready()
    published = '"event": "published"'
    world.wait_for(lambda: published in world.log(), "the log")
    plugin.devices["dev-4"].healthy = False
    plugin.change()
    world.wait_for(lambda: len(world.devices()) == 68, "one device less")
    world.wait_for(lambda: world.log().count(published) > 1, "the log")
    assert world.log().count(published) == 2
    assert world.log().count("taints dropped") == 1


def drop_taints(server):
    """Let an API server store slices as one does without the feature gate DRADeviceTaints."""

    def dropping(store):
        def storing(target, wire, *options):
            for device in wire["spec"].get("devices", ()) if target.resource.kind == "ResourceSlice" else ():
                device.pop("taints", None)
            return store(target, wire, *options)

        return storing

    server.registry.create = dropping(server.registry.create)
    server.registry.update = dropping(server.registry.update)


def put_slice_of_vendor(world):
    """Put a slice of a driver with the name that the bridge would use."""
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": [{"name": "gpu"}]}
    body = manifest("ResourceSlice", "vendor")
    world.on_server(lambda server: server.put({**body, "spec": spec}))


def test_driver_of_the_same_name_that_comes_later(world):
    """Its slices are left alone, and the bridge has none and says why, until they are gone."""
    serve(world, named(2))

    put_slice_of_vendor(world)

    world.wait_for(lambda: [each["metadata"]["name"] for each in world.slices()] == ["vendor"], "its slices")
    world.wait_for(lambda: "another driver of the name" in world.log(), "the reason")
    assert not world.is_ready()
    world.on_server(lambda server: server.remove("ResourceSlice", "vendor"))
    world.wait_for(lambda: len(world.devices()) == 2, "the devices")
    world.wait_ready()


def test_name_of_a_driver_that_is_taken():
    """Where slices of a driver of this name are on the node, which are not the bridge's, the name gets a hash."""
    with BridgeWorld() as world:
        put_slice_of_vendor(world)
        world.start_agent()
        world.wait_ready()
        world.plugin(named(1)).start()

        world.wait_for(lambda: any(each.startswith("foo-") for each in world.kubelet.drivers), "the driver")
        assert len(world.slices()) == 1
        assert "driver name taken" in world.log()
