"""The demo: the main job in a few seconds, asked for nothing."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dra_operator.cli import demo


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


@pytest.mark.parametrize(
    ("on_path", "here", "called"),
    [
        (True, ".", "dra-operator"),
        (False, ".", ".venv/bin/dra-operator"),
        (False, "elsewhere", "{venv}/dra-operator"),
        (None, ".", "dra-operator"),
    ],
    ids=["on the PATH", "in the checkout", "elsewhere", "not installed"],
)
def test_what_to_try_next_can_be_typed(tmp_path, monkeypatch, on_path, here, called):
    """The program is named as the shell finds it from where the demo was called."""
    venv = tmp_path / ".venv" / "bin"
    venv.mkdir(parents=True)
    (tmp_path / here).mkdir(exist_ok=True)
    if on_path is not None:
        (venv / "dra-operator").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(venv) if on_path else str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(venv))
    monkeypatch.chdir(tmp_path / here)

    assert demo._program() == called.format(venv=venv)


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
