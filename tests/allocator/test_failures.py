"""How what fails on every node is told: selectors, and names of classes."""

from typing import Any

import pytest

from dra_operator.allocator import Reason

DRIVER = "gpu.example.com"


@pytest.mark.parametrize(
    ("expression", "types"),
    [
        (f'device.attributes["{DRIVER}"].model > 3', 'model is string "x"'),
        (
            f'device.attributes["{DRIVER}"].index > device.attributes["{DRIVER}"].model',
            'index is int 1 and model is string "x"',
        ),
    ],
)
def test_types_that_do_not_fit_are_told(scene: Any, ask: Any, expression: str, types: str) -> None:
    """CEL only says that there is no such overload."""
    scene.nodes("n1")
    scene.slice("s", {"name": "a", "attributes": {"model": {"string": "x"}, "index": {"int": 1}}})
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
    ],
)
def test_a_class_that_does_not_exist_is_told_with_a_close_one(
    scene: Any, ask: Any, name: str, hint: str
) -> None:
    """Most often the name is written wrongly; where no class is like it, none is offered."""
    request = ask("r")
    request["exactly"]["deviceClassName"] = name
    found = scene.explain(scene.claim(request))

    assert found.reason is Reason.CLASS_NOT_FOUND
    assert found.message == f"request r: device class {name} does not exist{hint}"
