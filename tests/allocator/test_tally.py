"""How many devices there would be if nobody used any."""

from typing import Any

import pytest

from dra_operator.allocator import Reason


@pytest.fixture
def pair(scene: Any) -> Any:
    """Two nodes with two devices each, which four claims use."""
    scene.nodes("n1", "n2")
    for node in ("n1", "n2"):
        scene.slice(node, "a", "b", nodeName=node)
        for name in "ab":
            scene.hold(f"{node}-{name}", name, node)
    return scene


def test_a_claim_that_waits_in_vain_is_told_so(pair: Any, ask: Any) -> None:
    """No node has as many devices: those in use are not what it waits for."""
    found = pair.explain(pair.claim(ask("r", 3)))

    assert found.reason is Reason.NOT_ENOUGH_DEVICES
    assert found.message == (
        "request r: 4 devices published, 4 in class gpu, 4 in use by 4 claims (n1-a, n1-b, n2-a, 1 more), 3 requested, "
        "at most 2 on one node if none were in use"
    )


def test_so_is_one_that_has_some_left(pair: Any, ask: Any) -> None:
    """Beside what is left."""
    pair.ledger.remove("team", "n2-b")
    found = pair.explain(pair.claim(ask("r", 3)))

    assert found.message.endswith(
        "1 left, at most 1 on one node (n2), 3 requested, at most 2 on one node if none were in use"
    )


def test_a_claim_that_would_fit_then_waits_for_devices_in_use(pair: Any, ask: Any) -> None:
    """And nothing is said of what a node has."""
    found = pair.explain(pair.claim(ask("r", 2)))

    assert found.reason is Reason.DEVICE_IN_USE
    assert found.message.endswith("4 in use by 4 claims (n1-a, n1-b, n2-a, 1 more)")
