"""Many nodes and devices at once, for tests of races and crashes."""

from controlplane.client import Client
from controlplane.scene import RESOURCE

DRIVER = "fleet.example.com"


def create_fleet(client: Client, *, nodes: int, devices: int) -> None:
    """Create a class, `nodes` nodes and on each a slice with `devices` devices, all of the driver DRIVER."""
    client.create(
        f"{RESOURCE}/deviceclasses",
        {
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
    )
    for number in range(nodes):
        create_node(client, f"node-{number:03}")
        create_slice(client, f"node-{number:03}", devices=devices)


def create_node(client: Client, name: str) -> None:
    """Create a Node without conditions, which counts as usable."""
    client.create("/api/v1/nodes", {"metadata": {"name": name}})


def create_slice(client: Client, node: str, *, devices: int) -> None:
    """Create the slice of a node."""
    client.create(
        f"{RESOURCE}/resourceslices",
        {
            "metadata": {"name": f"{DRIVER}-{node}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"dev-{number}"} for number in range(devices)],
            },
        },
    )
