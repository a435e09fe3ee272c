"""The two sides: each decides the claims of a file in a process of its own, and says how long each took."""

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from conformance.replay import percentile
from dra_operator.allocator.self_check import SCENARIO, TIMES

TREE = Path(__file__).parents[2]
"""This checkout."""
_BETWEEN_LOOKS = 0.01
"""Seconds between two looks at the memory of a process."""


@dataclass(frozen=True, slots=True)
class Round:
    """One side's round over a workload: times in milliseconds, peak memory in MiB, and an answer a claim."""

    mean: float
    p50: float
    p99: float
    compiling: float
    peak: float
    answers: Sequence[dict[str, Any]]

    @property
    def total(self) -> float:
        """All claims and compiling together."""
        return self.mean * len(self.answers) + self.compiling


@dataclass(slots=True)
class Side:
    """All rounds of one side over a workload."""

    play: Callable[[Path], Round]
    rounds: list[Round] = field(default_factory=list)
    spent: float = 0.0

    def again(self, file: Path) -> None:
        """Play another round."""
        played = self.play(file)
        self.rounds.append(played)
        self.spent += played.total / 1000

    def median(self, name: str) -> float:
        """Return the median of a number over the rounds."""
        values: list[float] = [getattr(played, name) for played in self.rounds]
        return statistics.median(values)


def play_ours(file: Path, options: Sequence[str], tree: Path = TREE, python: str = sys.executable) -> Round:
    """Let ours decide the claims of a file.

    `options` are those of `replay`, `tree` is the checkout that is run, `python` the interpreter that runs it, with the
    libraries of this one.
    """
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as out:
        command = [
            python,
            "-m",
            _program(tree),
            "replay",
            str(file),
            "--sequential",
            "--out",
            out.name,
            *options,
        ]
        places = (
            str(tree / "operator"),
            str(tree / "tests"),
            sysconfig.get_path("purelib"),
            sysconfig.get_path("platlib"),
        )
        text, peak = _run(command, None, {"PYTHONPATH": os.pathsep.join(dict.fromkeys(places))})
        answers = [json.loads(line) for line in out]
    summary = json.loads(text)
    return Round(
        mean=summary["mean_ms"],
        p50=summary["p50_ms"],
        p99=summary["p99_ms"],
        compiling=summary["compile_ms"],
        peak=peak,
        answers=answers,
    )


def _program(tree: Path) -> str:
    """Return the module of a checkout that replays scenarios: in older ones it is the product itself."""
    return "conformance" if (tree / "tests" / "conformance" / "replay.py").is_file() else "dra_operator"


def play_go(file: Path, program: Path, options: Sequence[str]) -> Round:
    """Let Kubernetes' allocator decide the claims of a file; `options` are those of bench/upstream."""
    with file.open() as lines:
        text, peak = _run([str(program), "-deadline", "10s", *options, "sequential"], lines, {})
    answer = json.loads(text)
    if "claims" not in answer:
        raise RuntimeError(f"{file.name}: {answer}")
    times = [claim["milliseconds"] for claim in answer["claims"]]
    return Round(
        mean=statistics.fmean(times),
        p50=percentile(times, 50),
        p99=percentile(times, 99),
        compiling=answer["compileMilliseconds"],
        peak=peak,
        answers=answer["claims"],
    )


def write_rehearsal(folder: Path) -> Path:
    """Write what ours decides before its first claim, as often as it does that, and return the file."""
    file = folder / "rehearsal.jsonl"
    file.write_text(TIMES * f"{json.dumps(SCENARIO)}\n")
    return file


def _run(command: Sequence[str], lines: TextIO | None, variables: dict[str, str]) -> tuple[str, float]:
    """Run a command; return what it prints and its peak memory in MiB."""
    peak = 0
    environment = os.environ | variables
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdin=lines, stdout=output, stderr=errors, env=environment) as process:
            # The usage that the system reports of a child counts the memory of whoever started it, too.
            while process.poll() is None:
                peak = max(peak, _peak_of(process.pid))
                time.sleep(_BETWEEN_LOOKS)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {errors.read()}")
        output.seek(0)
        return output.read(), peak / 1024


def _peak_of(process: int) -> int:
    """Return the most memory that a process has had so far, in KiB; 0 if it has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
