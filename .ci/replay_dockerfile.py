"""Replay each RUN step of the Dockerfile in empty folders, where no image can be built.

Each stage gets a folder that stands for its root file system, and a fresh virtual environment that stands for
the Python of its base image: of the same version where the machine has one, else of the version that runs this.
COPY copies into that folder what .dockerignore lets through; RUN runs in the stage's working directory with
nothing of this machine's environment but the network settings. So a missing file, a missing dependency or a path
that only exists on the developer's machine shows as it would in `docker build`.

    python .ci/replay_dockerfile.py FOLDER [DOCKERFILE]

leaves the stages in FOLDER and prints where the last one's command is. An instruction that is not known is an
error: the script must not pass over what it does not understand.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# What a build may take from the machine: how to reach the package index.
_NETWORK = re.compile(
    r"(PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|CERT|PROXY)|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|\w+_(proxy|PROXY))"
)
_IGNORED = {"USER", "EXPOSE", "LABEL", "STOPSIGNAL"}


class ReplayError(Exception):
    """The Dockerfile cannot be replayed, or a step of it ended with an error."""


@dataclass(slots=True)
class Stage:
    """One stage: its root, who makes its Python, its working directory inside, its environment, what it would start."""

    root: Path
    interpreter: str = sys.executable
    directory: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)

    @property
    def python(self) -> Path:
        """The virtual environment that stands for the base image's Python."""
        return self.root.with_name(self.root.name + "-python")

    def inside(self, path: str) -> Path:
        """Return where a path of the image lies on this machine."""
        return self.root / (Path(self.directory) / path).relative_to("/")

    def variables(self) -> dict[str, str]:
        """Return the environment of a step."""
        network = {name: value for name, value in os.environ.items() if _NETWORK.fullmatch(name)}
        path = f"{self.python / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        return (
            network
            | {"PATH": path, "HOME": str(self.root), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            | self.environment
        )


def instructions(text: str) -> list[tuple[str, str]]:
    """Return (INSTRUCTION, rest) of each instruction, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [
        (word.upper(), rest.strip())
        for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines())
        if word
    ]


class Context:
    """The files of the repository that a build may see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignore = folder / ".dockerignore"
        text = ignore.read_text(encoding="utf-8") if ignore.exists() else ""
        self._patterns = [
            line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")
        ]

    def sees(self, path: Path) -> bool:
        """Tell whether .dockerignore lets a file through: the last pattern that matches it or a parent decides."""
        relative = path.relative_to(self.folder)
        names = [str(relative), *(str(parent) for parent in relative.parents if parent.name)]
        seen = True
        for pattern in self._patterns:
            plain = pattern.removeprefix("!").removeprefix("**/")
            found = any(fnmatch.fnmatch(name, plain) for name in names)
            if pattern.startswith("**/"):
                found = found or any(fnmatch.fnmatch(name, f"*/{plain}") for name in names)
            if found:
                seen = pattern.startswith("!")
        return seen


class Replay:
    """The state of a replay: the stages so far."""

    def __init__(self, context: Path, scratch: Path) -> None:
        self._context = Context(context)
        self._scratch = scratch
        self._stages: dict[str, Stage] = {}
        self._stage: Stage | None = None

    def run(self, text: str) -> Stage:
        """Carry out the instructions and return the last stage."""
        for word, rest in instructions(text):
            print(f"{word} {rest}", flush=True)
            if word == "FROM":
                self._from(rest)
            elif word not in _IGNORED:
                self._step(self._current(), word, rest)
        return self._current()

    def _current(self) -> Stage:
        if self._stage is None:
            raise ReplayError("an instruction stands before the first FROM")
        return self._stage

    def _from(self, rest: str) -> None:
        image, _, name = rest.partition(" AS ")
        version = re.fullmatch(r"python:(3\.\d+)[\w.-]*", image)
        if version is None:
            raise ReplayError(f"FROM {image}: only images of Python can be stood in for")
        name = name.strip() or str(len(self._stages))
        root = self._scratch / f"stage-{name}"
        root.mkdir(parents=True)
        self._stage = self._stages[name] = Stage(root, _interpreter(version[1]))

    def _step(self, stage: Stage, word: str, rest: str) -> None:
        match word:
            case "WORKDIR":
                stage.directory = str(Path(stage.directory) / rest)
                stage.inside(".").mkdir(parents=True, exist_ok=True)
            case "ENV":
                stage.environment.update(pair.split("=", 1) for pair in shlex.split(rest))
            case "COPY":
                self._copy(stage, rest)
            case "RUN":
                self._shell(stage, rest)
            case "ENTRYPOINT":
                stage.command = json.loads(rest)
            case "CMD":
                json.loads(rest)
            case _:
                raise ReplayError(f"{word}: not known here")

    def _copy(self, stage: Stage, rest: str) -> None:
        *sources, target = shlex.split(rest)
        into = stage.inside(target)
        if sources[0].startswith("--from="):
            other = self._stages[sources.pop(0).removeprefix("--from=")]
            found = [path for source in sources for path in sorted(other.root.glob(source.removeprefix("/")))]
            ignore = None
        else:
            folder = self._context.folder
            found = [
                path for source in sources for path in sorted(folder.glob(source)) if self._context.sees(path)
            ]
            ignore = self._hidden
        if not found:
            raise ReplayError(f"COPY {rest}: there is no such file, or .dockerignore hides it")
        for path in found:
            if path.is_dir():
                shutil.copytree(path, into, dirs_exist_ok=True, ignore=ignore)
                continue
            is_folder = target.endswith("/") or len(found) > 1 or into.is_dir()
            destination = into / path.name if is_folder else into
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, destination)

    def _hidden(self, folder: str, names: list[str]) -> list[str]:
        return [name for name in names if not self._context.sees(Path(folder) / name)]

    def _shell(self, stage: Stage, script: str) -> None:
        if not stage.python.exists():
            # Like the image's: pip and nothing else.
            subprocess.run([stage.interpreter, "-m", "venv", stage.python], check=True)
        result = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=stage.inside("."),
            env=stage.variables(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if result.returncode != 0:
            raise ReplayError(f"RUN {script}: ended with {result.returncode}")


def _interpreter(version: str) -> str:
    """Return the machine's Python of this version if it can make virtual environments, else the one that runs this."""
    name = f"python{version}"
    try:
        # A name on the path may be a version manager's, which only says that it has none such.
        subprocess.run([name, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        print(f"no {name} here: {sys.executable} stands for it", flush=True)
        return sys.executable
    return name


def main() -> int:
    """Replay; return the exit code."""
    if len(sys.argv) not in {2, 3}:
        print(__doc__, file=sys.stderr)
        return 2
    repository = Path(__file__).resolve().parents[1]
    dockerfile = Path(sys.argv[2]) if len(sys.argv) == 3 else repository / "Dockerfile"
    scratch = Path(sys.argv[1]).resolve()
    try:
        stage = Replay(repository, scratch).run(dockerfile.read_text(encoding="utf-8"))
    except ReplayError as error:
        print(error, file=sys.stderr)
        return 1
    program = shutil.which(stage.command[0], path=stage.variables()["PATH"])
    if program is None:
        print(f"ENTRYPOINT {stage.command}: there is no such program in the image", file=sys.stderr)
        return 1
    print(f"would start: {program}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
