"""Objects for inventories, written as briefly as a test can read them."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory

Make = Callable[..., Any]


@pytest.fixture(scope="session")
def make() -> Make:
    """Make an object of a kind: `make("Node", "node-1", labels={...}, spec={...})`."""

    def build(kind: str, name: str, **fields: Any) -> Any:
        labels = fields.pop("labels", {})
        return read_object({"kind": kind, "metadata": {"name": name, "labels": labels}, **fields}, kind)

    return build


@pytest.fixture(scope="session")
def make_slice(make: Make) -> Make:
    """Make a slice of the pool `pool` of driver `gpu`; devices are names or objects; more fields go into the spec."""

    def build(name: str, devices: list[Any], **spec: Any) -> Any:
        pool = {
            "name": spec.pop("pool", "pool"),
            "generation": spec.pop("generation", 1),
            "resourceSliceCount": spec.pop("count", 1),
        }
        listed = [{"name": item} if isinstance(item, str) else item for item in devices]
        return make("ResourceSlice", name, spec={"driver": "gpu", "pool": pool, "devices": listed, **spec})

    return build


@pytest.fixture
def inventory() -> Inventory:
    """An empty inventory."""
    return Inventory()
