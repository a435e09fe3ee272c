"""What is asked of nodes, recorded, and claims that come and go on them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator.nodes import iteration


@pytest.fixture(autouse=True)
def _few_nodes_are_many() -> Iterator[None]:
    """Have filters looked for in clusters of a few nodes."""
    with patch.object(iteration, "_FEW_NODES", 0):
        yield


@pytest.fixture
def recorded() -> Callable[[type, str], AbstractContextManager[list[str]]]:
    """Record the nodes that a method of a filter is asked about."""

    @contextmanager
    def record(node_filter: type, name: str) -> Iterator[list[str]]:
        nodes: list[str] = []
        real = getattr(node_filter, name)

        def asked(self: Any, view: Any, budget: Any) -> Any:
            nodes.append(view.pools[0].key[1])
            return real(self, view, budget)

        with patch.object(node_filter, name, asked):
            yield nodes

    return record


@pytest.fixture
def live(scene: Any, take_as_plainly: Any) -> Callable[..., None]:
    """Have claims come and go in ten nodes, and decide each as plainly: `live(random, publish, asked)`.

    `publish(node)` publishes the slices of a node, now and then again. `asked(turn)` returns what a claim asks for: the
    requests, each with its alternatives.
    """

    def request(name: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        if len(parts) == 1:
            return {"name": name, "exactly": parts[0]}
        return {"name": name, "firstAvailable": [{"name": f"s{n}", **part} for n, part in enumerate(parts)]}

    def run(random: Random, publish: Callable[[str], None], asked: Callable[[int], Any]) -> None:
        names = [f"n{number}" for number in range(10)]
        scene.nodes(*names)
        for name in names:
            publish(name)
        for turn in range(50):
            if random.random() < 0.3:
                scene.ledger.withdraw("team", f"c{random.randrange(turn + 1)}")
            if random.random() < 0.05:
                publish(random.choice(names))
            requests = [request(f"r{number}", parts) for number, parts in enumerate(asked(turn))]
            take_as_plainly(scene.claim(*requests, name=f"c{turn}"))

    return run
