"""How many devices there are and would be if nobody used any, and what each of the others is out by."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.reasons import Reason

COMPUTED = 'device.attributes[device.driver].m == "x"'
PARTS = (
    COMPUTED,
    f"has(device.attributes[device.driver].m) && {COMPUTED}",
    'device.driver == "other"',
    f'device.driver == "gpu.example.com" && {COMPUTED}',
    f'{COMPUTED} || device.driver == "other"',
    'device.attributes["gpu.example.com"].?m.orValue("") == "x"',
    "device.attributes.size() > 1",
    "false",
    "true",
)
"""Selectors, some of which read an attribute by a name that is computed, so that no value can be told."""


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
        "request r: 4 devices published, 4 in class gpu, 4 in use by 4 claims (n1-a, n1-b, n2-a, 1 more), 3 requested"
        "; it would not fit even if no device were in use or tainted"
    )


def test_the_numbers_of_the_details_add_up(scene: Any, ask: Any) -> None:
    """Of more than three the rest are told together: on how many devices they are, not how many they are."""
    scene.nodes("n1")
    devices = [{"name": f"d{at}", "attributes": {"m": {"int": min(at, 4)}}} for at in range(7)]
    scene.slice("s", *devices, nodeName="n1")
    found = scene.explain(scene.claim(ask("r", 1, 'device.attributes["gpu.example.com"].m > 5')))

    assert found.message.endswith(
        "0 match selector #0 (m 4 <= 5 on 3, m 0 <= 5 on 1, m 1 <= 5 on 1, others on 2)"
    )


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param(COMPUTED, "selector #0 is false on 2", id="all of it"),
        pytest.param(
            f'device.driver == "gpu.example.com" && {COMPUTED}',
            "selector #0 is false on 2",
            id="a part of it",
        ),
        pytest.param(
            f'device.attributes["gpu.example.com"].n == 1 && {COMPUTED}',
            "n 2 != 1 on 1, selector #0 is false on 1",
            id="a part of it, for some",
        ),
        pytest.param("false", "selector #0 is false on 2", id="it reads nothing"),
    ],
)
def test_a_device_of_which_no_value_can_be_told_is_out_by_the_selector(
    scene: Any, ask: Any, expression: str, why: str
) -> None:
    """Of its class as of its request: the selector is false."""
    scene.nodes("n1")
    scene.slice(
        "s", *({"name": f"d{n}", "attributes": {"m": {"string": "y"}, "n": {"int": n}}} for n in (1, 2))
    )
    of_request = scene.explain(scene.claim(ask("r", 1, expression)))
    scene.device_class("gpu", expression)
    of_class = scene.explain(scene.claim(ask()))

    assert of_class.message == f"request r: 2 devices published, 0 in class gpu ({why})"
    assert of_request.message.endswith(f"2 in class gpu, 0 match selector #0 ({why})")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([None, "x", "y"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
)
def test_each_device_out_of_the_class_is_told_by_one_cause(
    scene: Any, ask: Any, values: list[str | None], expressions: list[str]
) -> None:
    """The numbers behind the causes add up to the devices that are published."""
    scene.nodes("n1")
    attributes = [{} if value is None else {"m": {"string": value}} for value in values]
    scene.slice("s", *({"name": f"d{n}", "attributes": each} for n, each in enumerate(attributes)))
    scene.device_class("gpu", *expressions)
    found = scene.explain(scene.claim(ask("r", 4)))
    if found.reason is not Reason.CLASS_MATCHES_NO_DEVICE:
        return

    assert sum(map(int, re.findall(r" on (\d+)(?=[,)])", found.message))) == len(values)
