"""How what fails on every node is told: selectors, and names of classes."""

from typing import Any

import pytest

from dra_operator.allocator.reasons import Reason

DRIVER = "gpu.example.com"


@pytest.mark.parametrize(
    ("expression", "types"),
    [
        (f'device.attributes["{DRIVER}"].model > 3', 'model is string "x"'),
        (
            f'device.attributes["{DRIVER}"].index > device.attributes["{DRIVER}"].model',
            'index is int 1 and model is string "x"',
        ),
        (
            f'"x" in device.attributes["{DRIVER}"].model',
            'model is string "x"',
        ),
        (f'1 in device.attributes["{DRIVER}"]["index"]', "index is int 1"),
        (f'device.attributes["{DRIVER}"].kinds > "a"', "kinds is list of strings [a, b]"),
        (
            f'"a" in device.attributes["{DRIVER}"].kinds && device.attributes["{DRIVER}"].index > "a"',
            "index is int 1 and kinds is list of strings [a, b]",
        ),
        (
            f'device.attributes["{DRIVER}"].version >= "2.0"',
            "version is version 2.1.0",
        ),
        (
            f'device.attributes["{DRIVER}"].version.compareTo(semver("2.0.0")) > device.attributes["{DRIVER}"].model',
            'model is string "x" and version is version 2.1.0',
        ),
    ],
)
def test_types_that_do_not_fit_are_told(scene: Any, ask: Any, expression: str, types: str) -> None:
    """CEL only says that there is no such overload."""
    scene.nodes("n1")
    attributes = {
        "model": {"string": "x"},
        "index": {"int": 1},
        "version": {"version": "2.1.0"},
        "kinds": {"strings": ["a", "b"]},
    }
    scene.slice("s", {"name": "a", "attributes": attributes})
    found = scene.explain(scene.claim(ask("r", 1, expression)))

    assert found.reason is Reason.SELECTOR_FAILED
    assert found.message.endswith(f"no such overload; here {types}")


def test_a_selector_that_is_no_condition_tells_what_it_is(scene: Any, ask: Any) -> None:
    """It names an attribute, and compares it with nothing."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "attributes": {"model": {"string": "x"}}})
    found = scene.explain(scene.claim(ask("r", 1, f'device.attributes["{DRIVER}"].model')))

    assert found.message.endswith('type string could not be converted to bool; here model is string "x"')


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("GPU", '; did you mean "gpu"?', id="another case"),
        pytest.param("gpus", '; did you mean "gpu"?', id="a letter more"),
        pytest.param("tpu-slice", "", id="nothing like it"),
        pytest.param("crad.example.com", '; did you mean "card.example.com"?', id="letters changed"),
        pytest.param("card.exmaple.com", '; did you mean "card.example.com"?', id="in the domain"),
        pytest.param("disk.example.com", "", id="only the domain is like it"),
    ],
)
def test_a_class_that_does_not_exist_is_told_with_a_close_one(
    scene: Any, ask: Any, name: str, hint: str
) -> None:
    """Most often the name is written wrongly; where no class is like it, none is offered."""
    scene.device_class("card.example.com", "true")
    request = ask("r")
    request["exactly"]["deviceClassName"] = name
    found = scene.explain(scene.claim(request))

    assert found.reason is Reason.CLASS_NOT_FOUND
    assert found.message == f"request r: device class {name} does not exist{hint}"


def test_a_value_that_does_not_print_is_written_as_in_a_literal(scene: Any, ask: Any) -> None:
    """A driver may publish what a terminal obeys, or a blank that nobody sees; the line stays one line."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "attributes": {"model": {"string": "x\u200b\n\x1b[31m"}}})
    found = scene.explain(scene.claim(ask("r", 1, f'device.attributes["{DRIVER}"].model == "x"')))

    assert found.message.endswith(r"0 match selector #0 (model x\u200b\n\x1b[31m != x on 1)")


def test_a_class_that_comes_to_devices_of_another_driver(scene: Any) -> None:
    """It had better ask for the driver first, which keeps all others away."""
    scene.nodes("n")
    scene.slice("n", {"name": "d", "attributes": {"size": {"int": 1}}})
    scene.device_class("h100", 'device.attributes["gpu.acme.com"].model == "H100"')
    found = scene.explain(scene.claim({"name": "r", "exactly": {"deviceClassName": "h100"}}))

    assert found.reason is Reason.SELECTOR_FAILED
    assert found.message.endswith(
        'if only devices of that driver are meant, begin with device.driver == "gpu.acme.com" &&'
    )


def test_a_class_whose_attribute_another_driver_has_as_well(scene: Any) -> None:
    """Of attributes with a name like `type` each driver has its own: the domain need not be wrong."""
    scene.nodes("n")
    scene.slice("n", {"name": "d", "attributes": {"type": {"string": "nic"}}})
    scene.device_class("gpus", 'device.attributes["gpu.acme.com"].type == "gpu"')
    found = scene.explain(scene.claim({"name": "r", "exactly": {"deviceClassName": "gpus"}}))

    assert found.message.endswith(
        f'has nothing in domain gpu.acme.com, but attributes["{DRIVER}"].type; correct the domain, or guard it by '
        'has(); if only devices of that driver are meant, begin with device.driver == "gpu.acme.com" &&'
    )
