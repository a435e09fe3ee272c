"""Measures how long an allocation takes: with our allocator and with Kubernetes' own, side by side.

    python bench/allocator.py                                  # every workload, 3 rounds
    python bench/allocator.py cluster-01000 mig-00100          # these
    python bench/allocator.py cluster --ours-only              # all sizes of a shape; ours alone
    python bench/allocator.py cluster-00010 --cold             # including what a process does only once, at first
    python bench/allocator.py mig --rounds 9 --against ../old  # this tree and another checkout of it, without Go
    python bench/allocator.py --python /usr/bin/python3.11     # run ours with another interpreter of the same version

For each workload (`--list` names them; any other size can be named too) both decide the same claims, one after the
other, by turns and in a new process each round, so that other load on the machine affects both. The time of a claim
runs from the claim to the updated state, including the evaluation of its selectors; compiling them is reported
separately. The printed numbers are medians over the rounds. A side that takes longer than `--seconds` in total gets no
further round.

An operator and a scheduler run for weeks, so both sides are measured warm: at the start and right before its first
claim, each decides the cluster of the operator's rehearsal, the same number of times. `--cold` skips that on both
sides. In both cases, no garbage collection of the input is timed: Go collects before the first claim, ours freezes
the heap. A checkout without a rehearsal (`--against`) is always cold.

How an interpreter was built matters: one built with profile-guided optimization, as that of the operator's image, is
usually faster. The last line names the one that ran ours.

The answers are compared claim by claim: node, devices and the whole result except for the ids of shares. "By ours only"
are claims for which the other ran out of its 10 s, "undecided" those for which ours gave up. If one side gave up and
the other allocated devices, their clusters differ from there on: "first 16 equal" says how many claims were compared
until then. The exit code is 1 if any answer differs. Peak memory is that of the process, including the file it reads.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from workloads import SHAPES, check, names, write

from conformance.program import UnavailableError, find_or_build
from dra_operator.allocator.rehearsal import TIMES
from dra_operator.allocator.rehearsal_cluster import SCENARIO
from dra_operator.cli.compare import is_equal
from dra_operator.cli.sequential import percentile

SMALL_AIM, LARGE_AIM, LARGEST_AIM, OWN_SELECTOR_AIM = 4, 40, 100, 8
"""How many times faster than Go ours is meant to be, by the size of a cluster and what claims have in common."""
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


@dataclass(frozen=True, slots=True)
class Row:
    """A workload, measured; `other` is None if only ours was.

    `different` says where the answers are, `given_up` on how many claims the other gave up, `undecided` on how many
    ours did. `parted` claims were compared until one gave up where the other took devices; None if that was not so,
    or at the last claim.
    """

    name: str
    nodes: int
    ours: Side
    other: Side | None
    different: Sequence[str]
    given_up: int
    undecided: int
    parted: int | None = None

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is, by the means."""
        return None if self.other is None else self.other.median("mean") / self.ours.median("mean")

    @property
    def ratio_with_compiling(self) -> float | None:
        """The same with compiling counted in."""
        return None if self.other is None else self.other.median("total") / self.ours.median("total")

    @property
    def aim(self) -> int:
        """How many times faster ours is meant to be."""
        shape, _, size = self.name.rpartition("-")
        if shape in {"threshold", "selector", "scarce"}:
            return OWN_SELECTOR_AIM
        if shape == "cluster" and int(size) >= 5000:
            return LARGEST_AIM
        return LARGE_AIM if self.nodes >= 1000 else SMALL_AIM


# --- the two sides


def play_ours(file: Path, options: Sequence[str], tree: Path = ROOT, python: str = sys.executable) -> Round:
    """Let ours decide the claims of a file.

    `options` are those of `replay`, `tree` is the checkout that is run, `python` the interpreter that runs it, with the
    libraries of this one.
    """
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as out:
        command = [
            python,
            "-m",
            "dra_operator",
            "replay",
            str(file),
            "--sequential",
            "--out",
            out.name,
            *options,
        ]
        places = (str(tree / "operator"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
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


# --- measuring


def measure(name: str, file: Path, sides: Sequence[Side], *, rounds: int, seconds: float) -> Row:
    """Measure a workload, the sides by turns."""
    for number in range(rounds):
        # Who comes first finds the caches of the machine cold.
        for side in sides if number % 2 else reversed(sides):
            if not side.rounds or side.spent < seconds:
                side.again(file)
    with file.open() as lines:
        nodes = len(json.load(lines)["nodes"])
    ours, other = sides[0], sides[1] if len(sides) > 1 else None
    if other is None:
        return Row(name, nodes, ours, None, different=(), given_up=0, undecided=0)
    return _compared(name, nodes, ours, other)


def _compared(name: str, nodes: int, ours: Side, other: Side) -> Row:
    """Compare the answers of the two sides, claim by claim."""
    different: list[str] = []
    given_up = undecided = 0
    pairs = list(zip(ours.rounds[0].answers, other.rounds[0].answers, strict=True))
    for number, (mine, theirs) in enumerate(pairs, 1):
        if mine.get("errorKind") == "aborted":
            undecided += 1
        elif theirs.get("errorKind") == "aborted":
            given_up += 1
        elif not is_equal(_outcome(mine), _outcome(theirs)):
            different.append(f"{name}, {mine['claim']}: ours {_outcome(mine)}, the other {_outcome(theirs)}")
        gave_up = "aborted" in (mine.get("errorKind"), theirs.get("errorKind"))
        if gave_up and (mine["result"] or theirs["result"]) and number < len(pairs):
            return Row(name, nodes, ours, other, different, given_up, undecided, parted=number - 1)
    return Row(name, nodes, ours, other, different, given_up, undecided)


def _outcome(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        return {"error": answer["error"], "errorKind": answer["errorKind"]}
    if answer["result"] is None:
        return {"unsatisfiable": True}
    return {"node": answer["node"], "results": [answer["result"]]}


# --- the table

HEAD = (
    "workload", "claims", "{} p50", "p99", "mean ms", "ours p50", "p99", "mean ms", "ratio", "aim", "with CEL",
    "CEL ms {}", "ours", "MiB {}", "ours", "answers",
)  # fmt: skip
WIDTHS = (20, 6, 8, 9, 9, 8, 8, 8, 7, 4, 8, 9, 7, 6, 6, 14)


def cells(row: Row) -> list[str]:
    """Return a row of the table."""
    ours, other = row.ours, row.other
    answers = "not compared" if other is None else "equal"
    if row.given_up:
        answers = f"{row.given_up} by ours only"
    if row.undecided:
        answers = f"{row.undecided} undecided"
    if row.parted is not None:
        answers = f"first {row.parted} equal"
    if row.different:
        answers = f"{len(row.different)} DIFFER"
    return [
        row.name,
        str(len(ours.rounds[0].answers)),
        *(_number(other, name) for name in ("p50", "p99", "mean")),
        *(_number(ours, name) for name in ("p50", "p99", "mean")),
        _times(row.ratio),
        str(row.aim),
        _times(row.ratio_with_compiling),
        _number(other, "compiling"),
        _number(ours, "compiling"),
        _number(other, "peak"),
        _number(ours, "peak"),
        answers,
    ]


def line_of(values: Iterable[str]) -> str:
    """Return one line of a Markdown table."""
    padded = (
        f"{value:{'<' if number in (0, len(WIDTHS) - 1) else '>'}{width}}"
        for number, (value, width) in enumerate(zip(values, WIDTHS, strict=True))
    )
    return "| " + " | ".join(padded) + " |"


def growth(rows: Sequence[Row]) -> list[str]:
    """Return, for each shape measured in several sizes, how the mean grows from size to size."""
    lines: list[str] = []
    for shape in SHAPES:
        found = [row for row in rows if row.name.rpartition("-")[0] == shape]
        if len(found) < 2:
            continue
        sizes = " -> ".join(row.name.rpartition("-")[2].lstrip("0") for row in found)
        parts = [f"{shape} {sizes}: ours {_steps([row.ours for row in found])}"]
        if all(row.other is not None for row in found):
            parts.append(f"the other {_steps([row.other for row in found if row.other is not None])}")
        lines.append("; ".join(parts))
    return lines


def _steps(sides: Sequence[Side]) -> str:
    return " -> ".join(_number(side, "mean") for side in sides) + " ms"


def _number(side: Side | None, name: str) -> str:
    if side is None:
        return "-"
    value = side.median(name)
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = _parser()
    arguments = parser.parse_args()
    chosen = [name for item in arguments.names or SHAPES for name in (_sizes(item) or [item])]
    try:
        for name in chosen:
            check(name)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        # Who reads them may stop before the end, as `head` does.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        print("\n".join(chosen))
        return 0
    load = os.getloadavg()[0]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        options = _options(arguments)
        other = _other(arguments, Path(scratch))
        folder = arguments.folder or Path(scratch)
        print(line_of(title.format("Go" if arguments.against is None else "old") for title in HEAD))
        print(line_of(f"{'-' * (width - 1)}:" for width in WIDTHS), flush=True)
        for name in chosen:
            file = write(name, folder, seed=arguments.seed)
            sides = [Side(lambda path: play_ours(path, options, python=arguments.python))]
            if other is not None:
                sides.append(Side(other))
            row = measure(name, file, sides, rounds=arguments.rounds, seconds=arguments.seconds)
            print(line_of(cells(row)), flush=True)
            rows.append(row)
            if arguments.folder is None:
                file.unlink()
    if steps := growth(rows):
        print("\nGrowth of the mean a claim with the size:\n" + "\n".join(steps))
    print(
        f"\nLoad average at the start {load:.1f}, at the end {os.getloadavg()[0]:.1f}, of {os.cpu_count()} cores. "
        f"Ours was run by {arguments.python} ({_version_of(arguments.python)})."
    )
    different = [text for row in rows for text in row.different]
    for text in different[:10]:
        print(text, file=sys.stderr)
    return 1 if different else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="workloads, or shapes in all their sizes; default: all")
    parser.add_argument("--rounds", type=_count, default=3, help="how often each side is measured")
    parser.add_argument(
        "--seconds", type=float, default=10, help="a side that took longer in total gets no further round"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random workloads")
    parser.add_argument("--search", help="which of our searches, as in dra-operator replay")
    parser.add_argument(
        "--cold", action="store_true", help="no rehearsal before the first claim, on either side"
    )
    parser.add_argument("--ours-only", action="store_true", help="do not run Kubernetes' allocator")
    parser.add_argument(
        "--against", type=_checkout, metavar="TREE", help="measure against this checkout instead of Go"
    )
    parser.add_argument(
        "--python",
        type=_interpreter,
        default=sys.executable,
        metavar="FILE",
        help="run ours with this interpreter, which must have the same version as that of this program",
    )
    parser.add_argument("--folder", type=Path, help="keep the workloads here, and use them if they are there")
    parser.add_argument("--list", action="store_true", help="print the workloads and measure nothing")
    return parser


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least one is needed")
    return count


def _checkout(text: str) -> Path:
    tree = Path(text)
    # Without it Python would take what is installed, and this tree be measured against itself.
    if not (tree / "operator" / "dra_operator").is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no checkout of this repository")
    return tree


def _interpreter(text: str) -> str:
    # Compiled libraries are shared with it.
    ours, theirs = platform.python_version_tuple()[:2], _version_of(text).split(".")[:2]
    if list(ours) != theirs:
        raise argparse.ArgumentTypeError(f"{text} is not Python {'.'.join(ours)}")
    return text


def _version_of(python: str) -> str:
    try:
        said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise argparse.ArgumentTypeError(f"{python} is no interpreter that can be run: {error}") from None
    return said.removeprefix("Python ").strip()


def _sizes(shape: str) -> list[str]:
    """Return the workloads of a shape, or of several whose names begin alike."""
    return [name for name in names() if name.startswith(f"{shape}-")]


def _options(arguments: argparse.Namespace) -> list[str]:
    """Return the options of ours."""
    return [
        *(["--cold"] if arguments.cold else []),
        *([] if arguments.search is None else ["--search", arguments.search]),
    ]


def _other(arguments: argparse.Namespace, scratch: Path) -> Callable[[Path], Round] | None:
    """Return what ours is measured against."""
    if arguments.ours_only:
        return None
    if arguments.against is not None:
        return lambda file: play_ours(file, _options(arguments), arguments.against, arguments.python)
    try:
        program = find_or_build()
    except UnavailableError as reason:
        print(f"{reason}; ours is measured alone, and its answers are not compared", file=sys.stderr)
        return None
    options = [] if arguments.cold else ["-rehearsal", str(write_rehearsal(scratch))]
    return lambda file: play_go(file, program, options)


if __name__ == "__main__":
    sys.exit(main())
