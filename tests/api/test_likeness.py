"""What was probably meant by a name that nothing has."""

import pytest

from dra_operator.api.text import near_name

DRIVER = "gpu.example.com"


@pytest.mark.parametrize(("others", "near"), [(254, f"{DRIVER}/model"), (255, "")])
def test_nothing_is_near_among_names_that_differ_from_device_to_device(others, near):
    """A driver may publish millions, and to compare each takes time that other claims wait for."""
    names = {f"{DRIVER}/model", *(f"{DRIVER}/{number}" for number in range(others + 1))}

    assert near_name(f"{DRIVER}/modle", names) == near
