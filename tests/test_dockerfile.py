"""The Dockerfile, step by step, where no image can be built (.ci/replay_dockerfile.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REPLAY = ROOT / ".ci" / "replay_dockerfile.py"
EVERY_MODULE = """
import pkgutil
from importlib import import_module
import dra_operator
for module in pkgutil.walk_packages(dra_operator.__path__, "dra_operator."):
    # Whoever exports Parquet installs pyarrow; no pod of the image does.
    if not module.name.endswith(("__main__", "history.export")):
        import_module(module.name)
        print(module.name)
"""
SELF_CHECK = "from dra_operator.allocator.self_check import run_self_check; run_self_check()"
NO_NETWORK = ("NewConnectionError", "Temporary failure in name resolution", "ConnectTimeoutError")


def replay(scratch: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """Run the script and return what came of it."""
    return subprocess.run(
        [sys.executable, REPLAY, scratch, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    """Replay the Dockerfile and return the program that the image would start."""
    done = replay(tmp_path_factory.mktemp("image") / "stages")
    if done.returncode != 0 and any(text in done.stdout + done.stderr for text in NO_NETWORK):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return Path(done.stdout.rpartition("would start: ")[2].strip())


def test_image_starts_the_operator(image, tmp_path):
    """What the steps leave behind is the command, which tells its version without a home and without the repository."""
    answer = subprocess.run(
        [image, "version"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.split()[:1] == ["dra-operator"]


@pytest.mark.parametrize(
    ("code", "says"),
    [(EVERY_MODULE, "dra_operator.allocator.self_check"), (SELF_CHECK, "")],
    ids=["every module", "self-check"],
)
def test_image_has_what_the_operator_needs(image, tmp_path, code, says):
    """Without what only tests need, every module can be imported and the self-check finds the known answers."""
    answer = subprocess.run(
        [image.with_name("python"), "-W", "error", "-c", code],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.returncode, answer.stderr) == (0, "")
    assert says in answer.stdout


def test_image_holds_no_build_tools(image):
    """Nothing that only builds the wheel is in the image."""
    installed = {
        path.name.partition("-")[0] for path in image.parents[1].glob("lib/*/site-packages/*.dist-info")
    }

    assert "dra_operator" in installed
    assert installed & {"hatchling", "editables", "pytest"} == set()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FROM python:3.14\nADD https://example.com /x", "ADD: not known here"),
        ("FROM alpine:3", "only images of Python"),
        ("RUN true", "before the first FROM"),
        ("FROM python:3.14\nCOPY tests tests", ".dockerignore hides it"),
        ("FROM python:3.14\nCOPY absent ./", "there is no such file"),
        ("FROM python:3.14\nRUN echo a && \\\n  false", "ended with 1"),
        ('FROM python:3.14\nENTRYPOINT ["absent"]', "no such program in the image"),
    ],
    ids=[
        "unknown instruction",
        "other base",
        "no stage",
        "hidden file",
        "missing file",
        "failing step",
        "no program",
    ],
)
def test_replay_stops_at_what_docker_would_refuse(tmp_path, text, says):
    """The replay passes over nothing: what it does not know or what fails ends it with an error."""
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(text)

    done = replay(tmp_path / "stages", dockerfile)

    assert done.returncode == 1
    assert says in done.stderr
