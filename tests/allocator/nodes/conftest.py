"""What is asked of nodes, recorded."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest


@pytest.fixture
def recorded() -> Callable[[type, str], AbstractContextManager[list[str]]]:
    """Record the nodes that a method of a shortcut is asked about."""

    @contextmanager
    def record(shortcut: type, name: str) -> Iterator[list[str]]:
        nodes: list[str] = []
        real = getattr(shortcut, name)

        def asked(self: Any, view: Any, budget: Any) -> Any:
            nodes.append(view.pools[0].key[1])
            return real(self, view, budget)

        with patch.object(shortcut, name, asked):
            yield nodes

    return record
