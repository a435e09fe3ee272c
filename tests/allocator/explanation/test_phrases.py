"""Explanations of large claims: what matters stands before an Event ends."""

from typing import Any

import pytest

NAMES = [f"request-with-a-long-name-number-{number}" for number in range(32)]


@pytest.fixture
def gpus(scene: Any) -> Any:
    """A node with four devices of one model."""
    scene.nodes("n1")
    attributes = {"model": {"string": "a100"}}
    scene.slice(
        "n1", *({"name": f"d{number}", "attributes": attributes} for number in range(4)), nodeName="n1"
    )
    return scene


def test_of_many_requests_the_first_are_named(gpus: Any, ask: Any) -> None:
    """And how many there are besides, so that what they lack is told."""
    found = gpus.explain(gpus.claim(*(ask(name) for name in NAMES)))

    assert len(found.message) < 1024
    assert f"{NAMES[2]} on n1, 29 more)" in found.message
    assert found.message.endswith(f"{NAMES[2]} and 2 more, which want 5")


def test_of_many_alternatives_the_last_are_only_named(gpus: Any) -> None:
    """Those before them are told whole, as what comes first is what is wanted most."""
    selector = [
        {"cel": {"expression": f'device.attributes["gpu.example.com"].?model.orValue("") == "{"x" * 90}"'}}
    ]
    items = [
        {"name": f"choice-{number}", "deviceClassName": "gpu", "selectors": selector} for number in range(8)
    ]
    found = gpus.explain(gpus.claim({"name": "r", "firstAvailable": items}))

    assert len(found.message) < 1024
    assert found.message.startswith("request r: choice-0: 4 devices published")
    assert "; nor do these fit: choice-" in found.message
    assert found.message.endswith(", choice-7")


def test_of_many_requests_that_do_not_fit_either_some_are_named(gpus: Any, ask: Any) -> None:
    """With their reasons; the others are counted."""
    tainted = [{"key": "k", "effect": "NoSchedule"}]
    gpus.slice("n1", {"name": "d", "taints": tainted}, nodeName="n1")
    wrong = ask("first", 1, "false")
    found = gpus.explain(gpus.claim(wrong, *(ask(name) for name in NAMES[:8])))

    assert found.message.count("does not fit either (DeviceTainted)") == 3
    assert found.message.endswith("; 5 more do not fit either")


def test_devices_of_other_drivers_are_told_last(gpus: Any, ask: Any) -> None:
    """Of a class of a driver and a model it is the model that is told, however many other drivers there are."""
    for driver in "abc":
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"d{number}"} for number in range(9)]
        spec = {"driver": driver, "pool": pool, "allNodes": True, "devices": devices}
        gpus.put("ResourceSlice", driver, spec=spec)
    model = 'device.attributes["gpu.example.com"].model == "h100"'
    gpus.device_class("gpu", f'device.driver == "gpu.example.com" && {model}')
    found = gpus.explain(gpus.claim(ask("r")))

    assert "(model a100 != h100 on 4, driver a !=" in found.message
