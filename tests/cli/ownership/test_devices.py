"""Devices as they are published, and who holds them."""

import sys
from pathlib import Path

from cluster import allocation, claim, resource_slice
from dra_operator.questions.raw_devices import DeviceKey, gather_devices

# The objects of the controller's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))


def key(name, pool="pool-1"):
    """The key of a device."""
    return DeviceKey("gpu.example.com", pool, name)


def test_newest_generation_of_a_pool_counts():
    """What was published before is no device any more."""
    found = gather_devices(
        [
            resource_slice("old"),
            resource_slice("new", name="slice-2", generation=2),
            resource_slice("other", name="slice-3", pool="pool-2"),
        ]
    )

    assert list(found.devices) == [key("new"), key("other", "pool-2")]


def test_object_that_cannot_be_read_is_named_and_left_out():
    """The others are read all the same."""
    broken = resource_slice("x", name="broken", pool="broken")
    broken["spec"]["pool"]["generation"] = "many"
    found = gather_devices([broken, resource_slice("gpu-0")])

    assert list(found.devices) == [key("gpu-0")]
    (note,) = found.notes
    assert note.startswith('ResourceSlice "broken": spec.pool.generation: "many"')
    assert note.endswith(": left out")


def test_admin_access_holds_nothing():
    """Only results that take a device away from others count."""
    held, monitor = ({**claim(name), "status": {"allocation": allocation()}} for name in ("held", "monitor"))
    monitor["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    found = gather_devices([resource_slice("gpu-0"), held, monitor])

    assert [each.metadata.name for each in found.holders()[key("gpu-0")]] == ["held"]
