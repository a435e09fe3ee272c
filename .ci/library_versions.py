"""Installs the wheel beside the oldest and the newest pydantic that it admits, each in an environment of its own.

In each, the examples of docs/library.md must print what the page says. Needs a network. `PYDANTIC="2.7.4 2.11.0"`
chooses other versions.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "library.md"
RUN = """
import doctest, pydantic, sys
found = doctest.testfile(sys.argv[1], module_relative=False)
print(f"pydantic {pydantic.VERSION}: {found.attempted} examples, {found.failed} failed")
sys.exit(found.failed > 0 or found.attempted == 0)
"""


def main() -> int:
    """Return 0 if the examples are right beside each version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (oldest,) = [
        match[1] for item in project["dependencies"] if (match := re.fullmatch(r"pydantic>=(.+)", item))
    ]
    versions = os.environ.get("PYDANTIC", f"{oldest}.* newest").split()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
        (wheel,) = folder.glob("*.whl")
        page = folder / "library.md"
        # Only what is in blocks of code is an example.
        blocks = re.findall(
            r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        page.write_text("\n".join(blocks), encoding="utf-8")
        return max(check(folder, wheel, page, version) for version in versions)


def check(folder: Path, wheel: Path, page: Path, version: str) -> int:
    """Return 0 if the examples are right beside a version of pydantic."""
    environment = folder / f"pydantic-{version.removesuffix('.*')}"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    wanted = "pydantic" if version == "newest" else f"pydantic=={version}"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, wanted)
    # In the folder of the repository, as the page names files, and with nothing of it in the path.
    return subprocess.run([python, "-P", "-c", RUN, page], cwd=ROOT, check=False).returncode


def run(*command: object) -> None:
    """Run a command that must succeed."""
    subprocess.run([*map(str, command)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
