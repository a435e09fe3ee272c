"""What tests of the allocator look at beside the cluster that `scene` has."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator.decision import Allocated, Decision
from dra_operator.allocator.search.chain import SearchChain
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch
from dra_operator.api.read import read_object
from dra_operator.inventory import Slice
from dra_operator.inventory.slices import Columns, read_slice
from scene import Scene, ask, scene, scene_with, ticking

__all__ = ["ask", "scene", "scene_with", "ticking"]


@pytest.fixture
def outcome() -> Callable[[Decision], Any]:
    """Return a decision without the ids of shares: `outcome(scene.decide(claim))`."""

    def build(decision: Decision) -> Any:
        if not isinstance(decision, Allocated):
            return decision
        return decision.node, [
            (item.request, item.pool, item.device, str(item.consumed_capacity))
            for result in decision.results
            for item in result.devices.results
        ]

    return build


@pytest.fixture
def counted_only(scene: Scene) -> Iterator[Scene]:
    """A cluster of one node in which the exhaustive search must not be asked."""
    scene.nodes("n")

    def unexpected(_: ExhaustiveSearch) -> bool:
        raise AssertionError("the exhaustive search was asked")

    with patch.object(ExhaustiveSearch, "run", unexpected):
        yield scene


@pytest.fixture
def slice_with() -> Callable[..., Slice]:
    """Make a slice of devices given as dicts; the slices of one test share their columns."""
    columns = Columns()

    def build(*devices: dict[str, Any], driver: str = "d.example") -> Slice:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        named = [{"name": f"d{number}", **device} for number, device in enumerate(devices)]
        spec = {"driver": driver, "pool": pool, "nodeName": "n", "devices": named}
        return read_slice(read_object({"metadata": {"name": "s"}, "spec": spec}, "ResourceSlice"), columns)

    return build


@pytest.fixture
def searches() -> Callable[[], AbstractContextManager[list[str]]]:
    """Record the nodes that are searched, while in its context."""
    search = SearchChain.search

    @contextmanager
    def record() -> Iterator[list[str]]:
        asked: list[str] = []

        def recorded(searches: SearchChain, plans: Any, node: str, *rest: Any) -> Any:
            asked.append(node)
            return search(searches, plans, node, *rest)

        with patch.object(SearchChain, "search", recorded):
            yield asked

    return record
