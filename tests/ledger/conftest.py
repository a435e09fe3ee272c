"""Claims that hold devices, written briefly."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.api.read import read_object
from dra_operator.ledger import Ledger

MakeClaim = Callable[..., Any]


@pytest.fixture(scope="session")
def holding() -> MakeClaim:
    """Make a claim that holds devices of pool `gpu/pool`: names, or results with more fields."""

    def build(name: str, *devices: Any) -> Any:
        results = [
            {
                "request": "r",
                "driver": "gpu",
                "pool": "pool",
                **({"device": item} if isinstance(item, str) else item),
            }
            for item in devices
        ]
        status = {"allocation": {"devices": {"results": results}}} if devices else {}
        body = {"metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": status}
        return read_object(body, "ResourceClaim")

    return build


@pytest.fixture
def ledger() -> Ledger:
    """An empty ledger."""
    return Ledger()
