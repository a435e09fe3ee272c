"""The commands, as a person calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra_operator import __version__
from dra_operator.allocator import self_check
from dra_operator.cli.commands import app
from dra_operator.controller.settings import Settings, markdown


@pytest.fixture
def call():
    """Call a command and return its result."""
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, arguments)


@pytest.mark.parametrize("asked", ["version", "--version"])
def test_version_prints_the_version(call, asked):
    """One line, with the name, however it is asked for."""
    assert call(asked).output == f"dra-operator {__version__}\n"


def test_config_prints_a_configuration_file(call):
    """What `config` prints, `--config` reads: the same settings."""
    printed = call("config", "--handback-seconds", "3").output

    assert yaml.safe_load(printed) == {**Settings().model_dump(), "handback_seconds": 3}
    assert "handback_seconds: 3.0  # flag --handback-seconds" in printed


def test_config_markdown_is_the_page(call):
    """docs/settings.md is made by this command."""
    assert call("config", "--markdown").output == markdown()


@pytest.mark.parametrize("command", ["run", "config"])
def test_a_setting_that_is_not_allowed_ends_the_start_with_2(call, command):
    """Name, value and what is allowed are on stderr."""
    result = call(command, "--claims", "some")

    assert result.exit_code == 2
    assert (
        'setting "claims" (flag --claims): "some" is not allowed; allowed: none, standalone' in result.stderr
    )


@pytest.mark.parametrize("arguments", [["run", "--colour"], ["nonsense"]], ids=["flag", "command"])
def test_an_unknown_flag_or_command_is_wrong_usage(call, arguments):
    """What is not known is not ignored."""
    assert call(*arguments).exit_code == 2


NODES = Path(__file__).parents[2] / "examples" / "nodes.yaml"
READERS = {
    "cel check": ["cel", "check", "-f", "FILE"],
    "cel eval": ["cel", "eval", "true", "--slices", "FILE"],
    "simulate": ["simulate", "-f", "FILE"],
    "config": ["config", "--config", "FILE"],
    "run": ["run", "--config", "FILE"],
    "snapshot": ["snapshot", "--kubeconfig", "FILE"],
    "simulate --out": ["simulate", "-f", str(NODES), "--out", "FILE"],
}
"""Commands that read or write a file."""


@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS)
def test_a_file_that_is_not_there_is_an_error_everywhere(call, tmp_path, monkeypatch, arguments):
    """One word at the start of the line, the name of the file, and 2: a script can tell it from other lines."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    absent = str(tmp_path / "absent" / "file")
    result = call(*[absent if argument == "FILE" else argument for argument in arguments])

    first = result.stderr.splitlines()[0]
    assert (result.exit_code, result.stdout) == (2, "")
    assert first.startswith("error: ")
    assert first.count(absent) == 1


def test_run_without_a_cluster_says_what_it_tried(call, tmp_path, monkeypatch):
    """A kubeconfig that is not there is wrong usage, and named."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = call("run", "--kubeconfig", str(tmp_path / "absent"))

    assert result.exit_code == 2
    assert str(tmp_path / "absent") in result.stderr


def test_run_does_not_start_where_the_self_check_is_not_passed(tmp_path):
    """Exit 1 before anything is asked; the one line of the log has claim, both answers and what to do."""
    cluster, context = {"server": "http://127.0.0.1:1"}, {"cluster": "c", "user": "u"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    code = (
        "import sys\n"
        f"sys.argv = ['dra-operator', 'run', '--log-format', 'json', '--kubeconfig', {str(file)!r}]\n"
        "from functools import partial\n"
        "from dra_operator.allocator import self_check\n"
        "answers = {**self_check.ANSWERS, 'pair': 'amber: card-0'}\n"
        "self_check.run_self_check = partial(self_check.run_self_check, answers)\n"
        "from dra_operator.cli import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    (line,) = map(json.loads, result.stderr.splitlines())
    assert (result.returncode, line["event"]) == (1, "self-check not passed")
    assert 'claim "pair"' in line["why"]
    assert f'expected "amber: card-0", found "{self_check.ANSWERS["pair"]}"' in line["why"]
    assert "install dra-operator anew" in line["why"]


def test_the_module_is_the_command():
    """`python -m dra_operator` does what `dra-operator` does."""
    result = subprocess.run(
        [sys.executable, "-m", "dra_operator", "version"], capture_output=True, text=True, check=True
    )

    assert result.stdout == f"dra-operator {__version__}\n"


def run_without(stream, *arguments):
    """Run the program with stdin (0), stdout or stderr closed."""
    program = (
        f"import os, sys; os.close({stream}); os.execv(sys.executable, [sys.executable, '-m', *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", program, "dra_operator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", [1, 2], ids=["stdout", "stderr"])
def test_a_closed_stream_is_no_reason_to_end(closed):
    """A supervisor may start the operator without one: what nobody reads is lost, and the exit code stays."""
    assert run_without(closed, "run", "--kubeconfig", "/nowhere").returncode == 2


FULL = "/dev/full"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"


@pytest.mark.skipif(not os.path.exists(FULL), reason=f"needs {FULL}")  # noqa: PTH110 - no path of ours
class TestAFullDisk:
    """What nobody can write is told in one line, with an exit code that is no answer."""

    @pytest.fixture
    def written(self, tmp_path):
        """Run a command on a scenario file, its stdout on a full disk, and return the exit code and stderr."""
        (tmp_path / "node.yaml").write_text(NODE)

        def run(*arguments):
            with open(FULL, "wb") as full:  # noqa: PTH123
                done = subprocess.run(
                    [sys.executable, "-m", "dra_operator", *arguments],
                    cwd=tmp_path,
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    check=False,
                )
            return done.returncode, done.stderr

        return run

    @pytest.mark.parametrize(
        "arguments",
        [("cel", "check", "true"), ("config",), ("simulate", "-f", "node.yaml", "-o", "yaml")],
        ids=["cel check", "config", "simulate"],
    )
    def test_stdout_is_named(self, written, arguments):
        """There is no file that could be."""
        assert written(*arguments) == (2, "error: stdout: No space left on device\n")
