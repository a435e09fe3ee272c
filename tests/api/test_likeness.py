"""What was probably meant by a name that nothing has."""

import pytest

from dra_operator.api.likeness import near_name, near_object

DRIVER = "gpu.example.com"


@pytest.mark.parametrize(("others", "near"), [(254, f"{DRIVER}/model"), (255, "")])
def test_nothing_is_near_among_names_that_differ_from_device_to_device(others, near):
    """A driver may publish millions, and to compare each takes time that other claims wait for."""
    names = {f"{DRIVER}/model", *(f"{DRIVER}/{number}" for number in range(others + 1))}

    assert near_name(f"{DRIVER}/modle", names) == near


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpus.example.com", "gpu.example.com"),
        ("GPU.example.com", "gpu.example.com"),
        ("nic.example.com", ""),
        ("storage", ""),
    ],
)
def test_a_domain_that_names_share_makes_them_no_more_alike(name, near):
    """Of two names of one domain, what stands before it counts."""
    assert near_object(name, ["gpu.example.com", "disk.example.com"]) == near
