"""What follows from what is published is found once, and again when that changes."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator.explanation import hints
from dra_operator.allocator.explanation.published import Published
from dra_operator.inventory import Slice

GUARDED = 'device.attributes["gpu.example.com"].?{}.orValue("") == "x"'


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The slices that were gone through."""
    names: list[str] = []
    slices = Published.slices

    def looking(self: Published) -> list[Slice]:
        found = list(slices(self))
        names.extend(content.name for content in found)
        return found

    monkeypatch.setattr(Published, "slices", looking)
    return names


@pytest.fixture
def told(scene: Any, ask: Any, looked: list[str]) -> Callable[..., list[str]]:
    """Explain a claim whose selector reads some name, and whose constraint another; return the slices looked at."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "attributes": {"model": {"string": "x"}}})

    def explain(read: str, constrained: str = "typo") -> list[str]:
        looked.clear()
        request = ask("r", 1, GUARDED.format(read)) if read else ask("r", 2)
        constraints = [{"matchAttribute": f"gpu.example.com/{constrained}"}]
        scene.explain(scene.claim(request, constraints=constraints))
        return list(looked)

    return explain


@pytest.mark.parametrize("read", ["modle", ""], ids=["a name of a selector", "an attribute of a constraint"])
def test_slices_are_gone_through_once_while_nothing_else_is_published(
    scene: Any, told: Callable[..., list[str]], read: str
) -> None:
    """A use changes nothing of it; another slice does."""
    assert told(read)
    scene.hold("holder", "b", "pool")
    assert told(read) == []
    scene.slice("t", "c", pool="other")
    assert set(told(read)) == {"s", "t"}


def test_what_is_remembered_has_an_end(
    scene: Any, told: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many names claims have."""
    monkeypatch.setattr(hints, "_MAX_KNOWN", 3)
    for number in range(9):
        told("", f"typo{number}")
    known = scene.allocator._explainer._hints
    scene.hold("holder", "b", "pool")

    assert 0 < len(known._absent) <= 3
    assert told("", "typo8") == []
    assert told("", "typo0")
