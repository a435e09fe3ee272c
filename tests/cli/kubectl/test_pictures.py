"""The pictures of the README: what `kubectl dra` prints at a terminal, about the cluster of examples/questions.

UPDATE_DOCS=1 writes the pictures instead of comparing them.
"""

import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 100
COMMANDS = {
    "top": "top",
    "explain": "explain pod/train-1 -n team-a",
    "impact": "impact node/node-3",
}
"""Without ages, which change by the day."""


def run_at_terminal(command):
    """Return what a command prints at a terminal, with its colours."""
    code = "import sys; from dra_operator.cli.kubectl import main; main()"
    arguments = [*shlex.split(command), "--snapshot", "examples/questions/cluster.yaml"]
    environment = {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PATH": os.environ["PATH"]}
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as process:
        os.close(follower)
        printed = b""
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                # So a terminal says on Linux that nobody writes any more.
                break
            if not chunk:
                break
            printed += chunk
        os.close(leader)
        assert process.wait() in (0, 1), printed.decode()
    lines = printed.decode().replace("\r\n", "\n").splitlines(keepends=True)
    # Of a cluster it is not said.
    return "".join([line for line in lines if not line.startswith("note: as of ")])


def draw(name):
    """Return a terminal with a command and what it prints, as SVG."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    console.print(Text.assemble(("$ ", "dim"), (f"kubectl dra {COMMANDS[name]}", "bold")))
    console.print(Text.from_ansi(run_at_terminal(COMMANDS[name])), end="")
    return console.export_svg(title="kubectl dra", unique_id=name)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_picture_shows_what_is_printed(name):
    """Whoever tries what the README shows sees the same, in the same colours."""
    path = PICTURES / f"{name}.svg"
    drawn = draw(name)
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(drawn, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == drawn


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS.values(),
        *("headroom template/train -n team-a", "fit template/train -n team-a", "claims -A", "audit"),
    ],
)
def test_no_line_is_wider_than_the_terminal(command):
    """What does not fit is cut or wrapped by us, so that tables stay tables."""
    lines = Text.from_ansi(run_at_terminal(command)).plain.splitlines()

    assert lines
    assert max(map(len, lines)) <= COLUMNS


def test_the_pages_show_each_picture():
    """No picture lies there unseen, and none that is shown is missing."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/kubectl.md"))

    assert set(re.findall(r"\((?:docs/)?pictures/(\w+)\.svg\)", text)) == set(COMMANDS)
    assert {path.stem for path in PICTURES.glob("*.svg")} == set(COMMANDS)
