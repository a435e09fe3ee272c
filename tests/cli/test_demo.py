"""The demo: the main job in a few seconds, asked for nothing."""

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from dra_operator.cli.commands import app


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
    assert "device: gpu-0" in shown.stdout
    assert "nodeSelector:" in shown.stdout
    assert "Event: Normal Allocated: " in shown.stdout


def test_the_demo_shows_a_claim_that_waits_and_why(shown):
    """The annotation and the Event carry the reason."""
    assert "dra-operator.io/pending: " in shown.stdout
    assert "request gpu: 4 devices published, 4 in class" in shown.stdout
    assert "Event: Warning SelectorMatchesNoDevice: " in shown.stdout


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


def no_folder(monkeypatch):
    """No folder for temporary files can be written to."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/absent"])
    return "error: temporary files: No usable temporary directory found in ['/absent']"


def no_such_folder(monkeypatch):
    """The folder for temporary files has gone since it was found."""
    monkeypatch.setattr(tempfile, "tempdir", "/absent")
    return "error: /absent/dra-operator-"


def no_room(monkeypatch):
    """The disk is full, which a write says without the name of the file."""

    def write_text(*_args, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_text)
    return "/kubeconfig: No space left on device"


@pytest.mark.parametrize("trouble", [no_folder, no_such_folder, no_room])
def test_a_disk_that_takes_nothing_is_named_with_what_to_do(monkeypatch, trouble):
    """One line and exit 2, as with a port that is taken, and no traceback."""
    said = trouble(monkeypatch)

    result = CliRunner().invoke(app, ["demo"])

    (line,) = result.stderr.splitlines()
    assert said in line
    assert line.endswith("; set TMPDIR to a folder that can be written to")
    assert result.exit_code == 2


def test_an_operator_that_ends_is_told_and_not_waited_for(monkeypatch):
    """Nobody would settle the claims any more."""

    async def ends(*_, **__):
        return 1

    monkeypatch.setattr("dra_operator.controller.kopf_app.serve", ends)
    ended = CliRunner().invoke(app, ["demo"])

    assert (ended.exit_code, ended.stderr) == (1, "error: the operator has ended\n")


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
        assert process.wait(timeout=90) == 0


def test_the_demo_says_what_to_try_next(shown):
    """Nobody is left alone after it."""
    assert "dra-operator demo --serve" in shown.stdout
