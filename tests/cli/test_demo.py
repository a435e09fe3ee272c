"""The demo: the main job in a few seconds, asked for nothing."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def shown():
    """What the demo prints."""
    return subprocess.run(
        [sys.executable, "-m", "dra_operator", "demo"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_demo_ends_by_itself_with_0_and_without_complaints(shown):
    """Logs are quiet, and nothing is left hanging."""
    assert (shown.returncode, shown.stderr) == (0, "")


def test_the_demo_shows_an_allocated_claim(shown):
    """Devices, node and the Event that names them."""
    assert "Device:   gpu-0" in shown.stdout
    assert "Node Selector:" in shown.stdout
    assert "Normal  Allocated" in shown.stdout


def test_the_demo_shows_a_claim_that_waits_and_why(shown):
    """The annotation and the Event carry the reason."""
    assert "dra-operator.io/pending: request gpu: 4 devices published, 4 in class" in shown.stdout
    assert "Warning  SelectorMatchesNoDevice" in shown.stdout


def test_the_demo_shows_the_second_choice_of_a_prioritized_list(shown):
    """There is no H100, so two A100 it is."""
    assert "best-gpu: allocated node-2/gpu-0, node-2/gpu-1 for gpu/a100" in shown.stdout


def test_the_demo_says_what_to_try_next(shown):
    """Nobody is left alone after it."""
    assert "dra-operator demo --serve" in shown.stdout
