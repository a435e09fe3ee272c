"""Measures how long an allocation takes: with our allocator and with Kubernetes' own, side by side.

    python bench/allocator.py                                  # every workload, 3 rounds
    python bench/allocator.py cluster-01000 mig-00100          # these
    python bench/allocator.py cluster --ours-only              # all sizes of a shape; ours alone
    python bench/allocator.py cluster-00010 --cold             # including what a process does only once, at first
    python bench/allocator.py mig --rounds 9 --against ../old  # this tree and another checkout of it, without Go
    python bench/allocator.py --python /usr/bin/python3.11     # run ours with another interpreter of the same version
    python bench/allocator.py mig --kubernetes 1.37 1.38       # a row for each version of Kubernetes, by its rules

For each workload (`--list` names them; any other size can be named too) both decide the same claims, one after the
other, by turns and in a new process each round, so that other load on the machine affects both. The time of a claim
runs from the claim to the updated state, including the evaluation of its selectors; compiling them is reported
separately. The printed numbers are medians over the rounds. A side that takes longer than `--seconds` in total gets no
further round.

An operator and a scheduler run for weeks, so both sides are measured warm: at the start and right before its first
claim, each decides the cluster of the operator's rehearsal, the same number of times. `--cold` skips that on both
sides. In both cases, no garbage collection of the input is timed: Go collects before the first claim, ours freezes
the heap. A checkout without a rehearsal (`--against`) is always cold.

If several versions of Kubernetes are named, the same Go builds the code of each.

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
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from versus.rows import Row, measure
from versus.sides import Round, Side, play_go, play_ours, write_rehearsal
from versus.table import HEAD, WIDTHS, cells, growth, line_of
from workloads import SHAPES, check, names, write

from conformance.program import TOOLCHAINS, VERSIONS, UnavailableError, find_or_build
from dra_operator.api.versions import RELEASED


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
        others = {version: _other(arguments, version, Path(scratch)) for version in arguments.kubernetes}
        folder = arguments.folder or Path(scratch)
        print(line_of(title.format("Go" if arguments.against is None else "old") for title in HEAD))
        print(line_of(f"{'-' * (width - 1)}:" for width in WIDTHS), flush=True)
        for name in chosen:
            file = write(name, folder, seed=arguments.seed)
            for version, other in others.items():
                asked = _asked_of(version, file, Path(scratch))
                sides = [Side(lambda path: play_ours(path, options, python=arguments.python))]
                if other is not None:
                    sides.append(Side(other))
                row = measure(name, asked, sides, rounds=arguments.rounds, seconds=arguments.seconds)
                if len(others) > 1:
                    row = replace(row, name=f"{name} {version}")
                print(line_of(cells(row)), flush=True)
                rows.append(row)
            if arguments.folder is None:
                file.unlink()
    if len(others) == 1 and (steps := growth(rows)):
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
    parser.add_argument(
        "--rounds",
        type=_count,
        default=3,
        help="how often each side is measured; up to five times as often until it took 50 ms in total",
    )
    parser.add_argument(
        "--seconds", type=float, default=10, help="a side that took longer in total gets no further round"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random workloads")
    parser.add_argument("--search", help="which of our searches, as in python -m conformance replay")
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
    parser.add_argument(
        "--kubernetes",
        nargs="+",
        choices=(*VERSIONS,),
        default=[RELEASED],
        help="whose code ours is measured against, and by whose rules it decides",
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


def _asked_of(version: str, file: Path, scratch: Path) -> Path:
    """Return the file with the claims of a workload that are decided by the rules of a version of Kubernetes."""
    if version == RELEASED:
        return file
    asked = scratch / f"{version}.jsonl"
    asked.write_text(f"{json.dumps({**json.loads(file.read_text()), 'kubernetes': version})}\n")
    return asked


def _other(arguments: argparse.Namespace, version: str, scratch: Path) -> Callable[[Path], Round] | None:
    """Return what ours is measured against."""
    if arguments.ours_only:
        return None
    if arguments.against is not None:
        return lambda file: play_ours(file, _options(arguments), arguments.against, arguments.python)
    try:
        # One Go for all of them: a newer one makes faster programs.
        toolchain = TOOLCHAINS["1.38"] if len(arguments.kubernetes) > 1 else ""
        program = find_or_build(kubernetes=version, toolchain=toolchain)
    except UnavailableError as reason:
        print(f"{reason}; ours is measured alone, and its answers are not compared", file=sys.stderr)
        return None
    options = [] if arguments.cold else ["-rehearsal", str(write_rehearsal(scratch))]
    return lambda file: play_go(file, program, options)


if __name__ == "__main__":
    sys.exit(main())
