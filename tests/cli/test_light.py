"""The commands that need no cluster load nothing that only a cluster needs."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "features" / "match-attribute.yaml"
HEAVY = {"aiohttp", "kopf", "kubernetes", "prometheus_client"}
CODE = """
import sys
into, *sys.argv = sys.argv[1:]
from dra_operator.cli import main
try:
    main()
except SystemExit as done:
    assert done.code in (None, 0, 1), done.code
with open(into, "w") as file:
    print(*sys.modules, file=file)
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a command in a process of its own: what it prints, and the modules it loads."""

    def run(*arguments):
        into = tmp_path / "modules"
        command = [sys.executable, "-c", CODE, into, "dra-operator", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout, set(into.read_text().split())

    return run


@pytest.fixture
def arguments():
    """Arguments for real work, by command."""
    return {
        "simulate": ["simulate", "-f", str(EXAMPLE)],
        "cel check": ["cel", "check", 'device.driver == "a"'],
        "cel eval": ["cel", "eval", 'device.driver == "a"', "--slices", str(EXAMPLE)],
        "snapshot --help": ["snapshot", "--help"],
        "version": ["version"],
        "cel --help": ["cel", "--help"],
    }


@pytest.mark.parametrize(
    "command",
    [
        "simulate",
        "cel check",
        "cel eval",
        "snapshot --help",
        "version",
        "cel --help",
    ],
)
def test_a_command_without_a_cluster_imports_no_client(run, arguments, command):
    """Kopf and the kubernetes package alone take longer than such a command may take to start."""
    printed, modules = run(*arguments[command])

    assert printed
    assert not modules & HEAVY


def test_a_pipe_waits_neither_for_rich_nor_for_pydantic(run):
    """Checking an expression loads nothing that takes longer than checking it."""
    printed, modules = run("cel", "check", 'device.driver == "a"')

    assert printed.startswith("type   bool\n")
    assert not modules & {"celpy", "rich", "pydantic", "orjson"}
