"""What a plugin lists becomes devices that an API server takes, by names that never change."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_bridge.devices import (
    device_class,
    device_name,
    driver_name,
    problem_of_resource,
    read_devices,
    slice_device,
)
from dra_bridge.resources import Resource
from factories import manifest

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
IDS = st.one_of(
    st.text(max_size=80), st.text(st.sampled_from("abcAB-_.:/0 "), max_size=80), st.just("x" * 1000)
)
RESOURCES = st.from_regex(
    r"[a-zA-Z0-9]{1,40}(\.[a-z0-9]{1,30}){0,4}/[a-zA-Z0-9]([-\w.]{0,60}[a-zA-Z0-9])?", fullmatch=True
)


def listed(name, *, health="Healthy", nodes=()):
    """Return a device of a message of ListAndWatch."""
    topology = SimpleNamespace(nodes=[SimpleNamespace(ID=node) for node in nodes])
    return SimpleNamespace(ID=name, health=health, topology=topology)


@given(st.lists(st.tuples(IDS, st.sampled_from(["Healthy", "Unhealthy", "?"]), st.lists(st.integers(-2, 3)))))
def test_whatever_a_plugin_lists_can_be_written(devices):
    """Names are labels, none twice; attributes are short; each device keeps its ID, and each loss is told."""
    found, problems = read_devices(
        listed(name, health=health, nodes=nodes) for name, health, nodes in devices
    )

    assert len({device.name for device in found}) == len(found)
    assert {device.id for device in found} <= {name for name, _, _ in devices} - {""}
    assert len(found) + len(problems) == len(devices)
    last = {name: (health, nodes) for name, health, nodes in devices}
    for device in found:
        written = slice_device(device, [])
        health, nodes = last[device.id]
        assert LABEL.fullmatch(written["name"])
        assert len(written["name"]) <= 63
        attributes = written.get("attributes", {})
        assert ("id" in attributes) == (len(device.id.encode()) <= 64)
        assert device.is_healthy == (health == "Healthy")
        assert device.numa == (nodes[0] if len(set(nodes)) == 1 and nodes[0] >= 0 else None)


@given(IDS, IDS)
def test_names_tell_devices_apart(one, other):
    """Two IDs have two names, and a name depends on its ID alone."""
    assert (device_name(one) == device_name(other)) == (one == other)


@given(RESOURCES, RESOURCES)
def test_drivers_tell_resources_apart(one, other):
    """Two resources have two drivers, each a DNS subdomain of 63 characters; the hashed name is another one."""
    names = [driver_name(one), driver_name(other)]

    assert (names[0] == names[1]) == (one == other)
    assert all(len(name) <= 63 and all(LABEL.fullmatch(part) for part in name.split(".")) for name in names)
    plain = driver_name(one)
    assert driver_name(one, {plain}) != plain or "-" in plain


@pytest.mark.parametrize(
    ("resource", "driver"),
    [
        ("vendor.com/foo", "foo.vendor.com"),
        ("devices.kubevirt.io/kvm", "kvm.devices.kubevirt.io"),
        ("vendor.com/Foo", "foo-60bd5061.vendor.com"),
        ("vendor.com/a.b", "a-b-c03f6953.vendor.com"),
    ],
)
def test_name_of_a_driver(resource, driver):
    """It is the resource's the other way round; what would be ambiguous has a hash."""
    assert driver_name(resource) == driver


def test_class_of_a_resource():
    """Pods ask for it by claims and by `limits`."""
    assert device_class("vendor.com/foo") == manifest(
        "DeviceClass",
        "foo.vendor.com",
        {
            "selectors": [{"cel": {"expression": 'device.driver == "foo.vendor.com"'}}],
            "extendedResourceName": "vendor.com/foo",
        },
    )


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        ("foo", "no domain"),
        ("kubernetes.io/foo", "Kubernetes' own"),
        ("vendor.com/", "name part must be non-empty"),
        ("vendor.com/" + "x" * 1000, "must be no more than 63"),
        ("a/b/c", "DNS subdomain prefix"),
        ("vendor.com/foo", ""),
    ],
)
def test_resource_names_that_are_none(resource, says):
    """Who registers one is told why it is refused."""
    problem = problem_of_resource(resource)

    assert says in problem
    assert bool(says) == bool(problem)


def test_plugin_that_may_come_back():
    """After the agent's start the devices are as they were for half a minute, then their plugin counts as gone."""
    (device,), _ = read_devices([listed("dev-0")])
    resource = Resource("vendor.com/foo", "foo.vendor.com", (device,), 100.0)

    early, late = (resource.slice_devices(frozenset(), now, is_offered=False) for now in (129.0, 131.0))

    assert "taints" not in early[0]
    assert [taint["value"] for taint in late[0]["taints"]] == ["plugin-gone"]
    assert resource.is_abandoned(401.0)
    assert not Resource("vendor.com/foo", "foo.vendor.com", None, 100.0).is_publishable(129.0)
