"""The commands that need no cluster load nothing that only a cluster needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "features" / "match-attribute.yaml"
HEAVY = ("aiohttp", "kopf", "kubernetes", "prometheus_client")


@pytest.fixture
def arguments(tmp_path):
    """Arguments for real work, by command."""
    scenario = {"name": "empty", "nodes": [{"metadata": {"name": "n"}}], "claims": []}
    (tmp_path / "scenarios.jsonl").write_text(json.dumps(scenario))
    return {
        "simulate": ["simulate", "-f", str(EXAMPLE)],
        "replay": ["replay", str(tmp_path / "scenarios.jsonl")],
        "cel check": ["cel", "check", 'device.driver == "a"'],
        "cel eval": ["cel", "eval", 'device.driver == "a"', "--slices", str(EXAMPLE)],
        "snapshot --help": ["snapshot", "--help"],
    }


@pytest.mark.parametrize("command", ["simulate", "replay", "cel check", "cel eval", "snapshot --help"])
def test_a_command_without_a_cluster_imports_no_client(arguments, command):
    """Kopf and the kubernetes package alone take longer than such a command may take to start."""
    code = (
        "import sys\n"
        f"sys.argv = ['dra-operator', *{arguments[command]!r}]\n"
        "from dra_operator.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as done:\n"
        "    assert done.code in (None, 0, 1), done.code\n"
        f"loaded = sorted(set({HEAVY!r}) & set(sys.modules))\n"
        "assert not loaded, loaded\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    assert result.stdout
