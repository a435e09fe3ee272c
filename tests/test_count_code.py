"""What is a code line, and what a word of a page (.ci/count_code.py)."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / ".ci" / "count_code.py"
MODULE = '''"""A module,
described."""

# A comment.
import os  # Counts.


class Thing:
    """A class."""

    name: str = ""
    """An attribute."""

    def text(self) -> str:
        """Return it."""
        return """a

b"""
'''


def test_what_counts_is_neither_blank_nor_comment_nor_docstring(tmp_path):
    """Strings after attributes count, and every line of a string; the bridge by itself, pages from code not."""
    (tmp_path / "docs" / "tasks").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# A title\n\n| what | - |\n|---|---|\n")
    (tmp_path / "docs" / "tasks" / "ask.md").write_text("`kubectl dra top`.\n")
    (tmp_path / "docs" / "made.md").write_text("# Fields\n\nMade by `make reference` from `crds/`.\n")
    (tmp_path / "operator").mkdir()
    (tmp_path / "operator" / "module.py").write_text(MODULE)
    (tmp_path / "operator" / "dra_bridge").mkdir()
    for name in ("bridge.py", "generated_pb2.py", "generated_pb2_grpc.py"):
        (tmp_path / "operator" / "dra_bridge" / name).write_text(MODULE)

    answer = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=True)

    assert answer.stdout.splitlines() == [
        "operator/: 8 code lines, 1 modules, 1 classes",
        "tests/: 0 code lines, 0 modules, 0 classes",
        "operator/dra_bridge/: 8 code lines, 1 modules, 1 classes",
        "README.md, docs/: 6 words by hand",
    ]
