"""Devices of a plugin's answer that are folders or links become the nodes that the host has there."""

import os

from dra_bridge.cdi import Answer, DeviceNode
from dra_bridge.device_nodes import HostDevices


def expanded(root, *paths):
    """Return host path and container path of each node that devices of these host paths become."""
    devices = tuple(DeviceNode(host_path=path, container_path=inside) for path, inside in paths)
    found = HostDevices(root).expand(Answer(devices=devices)).devices
    assert all((each.uid, each.gid) == (os.getuid(), os.getgid()) for each in found)
    return [(each.host_path, each.container_path) for each in found]


def test_folders_and_links_become_nodes(tmp_path):
    """All nodes of a folder, but those that a runtime leaves out; what a link says is a path of the host."""
    for folder in ("snd/by-path", "snd/shm"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("snd/timer", "snd/console", "snd/shm/x", "snd/by-path/pci", "ttyUSB0"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "snd" / "text").write_text("")
    (tmp_path / "snd" / "link").symlink_to("timer")
    (tmp_path / "serial").symlink_to("/dev/modem")
    (tmp_path / "modem").symlink_to("ttyUSB0")

    assert expanded(tmp_path, ("/dev/snd", "/dev/sound/"), ("/dev/serial", "/dev/serial")) == [
        ("/dev/snd/by-path/pci", "/dev/sound/by-path/pci"),
        ("/dev/snd/timer", "/dev/sound/timer"),
        ("/dev/ttyUSB0", "/dev/serial"),
    ]


def test_what_is_not_seen_stays_as_it_is(tmp_path):
    """The runtime says what is wrong with it, and links that lead out of /dev or nowhere end."""
    (tmp_path / "loop").symlink_to("/dev/loop")
    (tmp_path / "out").symlink_to("/etc/passwd")
    paths = ["/dev/none", "/dev/../etc/passwd", "/run/device", "/dev/loop", "/dev/out", "/dev"]
    answer = Answer(devices=tuple(DeviceNode(host_path=each, container_path="/dev/x") for each in paths))

    assert HostDevices(tmp_path).expand(answer) == answer
