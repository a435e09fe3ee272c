"""The demo: the main job in a few seconds, asked for nothing."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

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
    assert "dra-operator.io/pending:\n" in shown.stdout
    assert "request gpu: 4 devices published, 4 in class" in shown.stdout
    assert "Warning  SelectorMatchesNoDevice" in shown.stdout


def test_the_demo_shows_the_second_choice_of_a_prioritized_list(shown):
    """There is no H100, so two A100 it is."""
    assert "best-gpu: allocated node-2/gpu-0, node-2/gpu-1 for gpu/a100" in shown.stdout


def test_a_port_that_is_taken_is_wrong_usage():
    """The demo says which, and does not hang."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = subprocess.run(
            [sys.executable, "-m", "dra_operator", "demo", "--port", port],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert result.returncode == 2
    assert f"error: --port {port}" in result.stderr


def test_the_demo_can_stay_up_until_ctrl_c():
    """`--serve` prints the KUBECONFIG line, and Ctrl-C ends it with 0."""
    with subprocess.Popen(
        [sys.executable, "-m", "dra_operator", "demo", "--serve"], stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if "Ctrl-C ends it" in line:
                break
            if "export KUBECONFIG=" in line:
                assert Path(line.partition("=")[2].strip()).is_file()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_the_demo_says_what_to_try_next(shown):
    """Nobody is left alone after it."""
    assert "dra-operator demo --serve" in shown.stdout


def test_a_port_that_cannot_be_is_wrong_usage():
    """It is refused before anything starts."""
    result = subprocess.run(
        [sys.executable, "-m", "dra_operator", "demo", "--port", "99999"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 2
    assert "65535" in result.stderr
