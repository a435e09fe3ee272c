"""Measures how long CEL takes: ours, cel-python's two runners and Kubernetes' own evaluator, side by side.

    python bench/cel.py                     # 50,000 devices, 5 rounds
    python bench/cel.py --devices 5000 --rounds 3 --ours-only
    python bench/cel.py --kubernetes 1.38

Seven typical selectors are evaluated for devices that all differ from each other. Each round measures all evaluators,
one after the other, and the least time over the rounds counts for each, so that other load on the machine affects all.
Ours and Kubernetes' evaluate every device; cel-python a sample, since it takes a thousand times as long. None of them
caches answers of whole selectors here.

Preparing a device is reported separately: we do it once, when its slice changes; Kubernetes' evaluator makes its maps
for each evaluation, which is included in its time. The answers are compared; the exit code is 1 if any count of matches
differs.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import orjson
from pydantic import TypeAdapter

from conformance.program import VERSIONS, UnavailableError, find_or_build
from dra_operator.api.types import Device
from dra_operator.api.versions import RELEASED
from dra_operator.cel.device import PreparedDevice, prepare_device
from dra_operator.cel.program import selector
from dra_operator.cel.types.environment import Environment

first = itemgetter(0)
DRIVER = "gpu.example.com"
ATTRIBUTE = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'
SELECTORS = {
    "driver equality": f'device.driver == "{DRIVER}"',
    "attribute string equality": f'{ATTRIBUTE}.productName == "NVIDIA H100 80GB"',
    "semver compareTo": f'{ATTRIBUTE}.driverVersion.compareTo(semver("550.54.15")) >= 0',
    "quantity compareTo": f'{CAPACITY}.memory.compareTo(quantity("40Gi")) >= 0',
    "in list && exists": f'{ATTRIBUTE}.architecture in ["Hopper", "Ampere", "Ada"]'
    f' && ["a", "b", "numa-1"].exists(name, name == {ATTRIBUTE}.location)',
    "regex matches": f'{ATTRIBUTE}.productName.matches("^NVIDIA (H100|A100)")',
    "four-term conjunction": f'device.driver == "{DRIVER}" && {ATTRIBUTE}.architecture == "Hopper"'
    f' && {CAPACITY}.memory.isGreaterThan(quantity("40Gi"))'
    f' && {ATTRIBUTE}.driverVersion.isGreaterThan(semver("535.0.0"))',
}  # fmt: skip
EACH_AIM, MEAN_AIM, COMPILE_AIM = 5, 15, 0.6
_PRODUCTS = (
    "NVIDIA H100 80GB",
    "NVIDIA A100 40GB",
    "NVIDIA L40S",
    "AMD MI300X",
    "Intel Max 1550",
    "NVIDIA H100 NVL",
)
_ARCHITECTURES = ("Hopper", "Ampere", "Ada", "CDNA3", "Xe")


def device(number: int) -> dict[str, Any]:
    """Return a device in wire form: 12 attributes, 2 capacities; no two numbers give the same one."""
    # Half of the products carry their serial number in the name, so that texts are distinct, too.
    product = _PRODUCTS[number % len(_PRODUCTS)] + (f" {number}" if number % 2 else "")
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "productName": {"string": product},
            "architecture": {"string": _ARCHITECTURES[number % len(_ARCHITECTURES)]},
            "driverVersion": {"version": f"{500 + number % 97}.{number % 211}.{number}"},
            "cudaVersion": {"version": f"12.{number % 9}.{number % 5}"},
            "uuid": {"string": f"GPU-{number:08x}-1c0c-4e3f-9b6a-{number * 7919:012x}"},
            "pciAddress": {"string": f"{number % 65536:04x}:{number % 251:02x}:00.0"},
            "location": {"string": f"numa-{number % 4}"},
            "index": {"int": number},
            "minor": {"int": number % 8},
            "healthy": {"bool": number % 50 != 0},
            "mig": {"bool": number % 3 == 0},
            "numa.example.com/node": {"int": number % 4},
        },
        "capacity": {
            "memory": {"value": f"{20_000 + number}Mi"},
            "multiprocessors": {"value": str(100 + number % 40)},
        },
    }


@dataclass(slots=True)
class Times:
    """What one engine took, in nanoseconds: per selector one number a round."""

    name: str
    evaluation: dict[str, list[float]] = field(default_factory=dict)
    compiling: dict[str, list[float]] = field(default_factory=dict)
    matches: dict[str, int] = field(default_factory=dict)

    def add(self, selector: str, *, evaluation: float, compiling: float, matches: int) -> None:
        """Add what a round measured."""
        self.evaluation.setdefault(selector, []).append(evaluation)
        self.compiling.setdefault(selector, []).append(compiling)
        self.matches[selector] = matches


def spent(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the nanoseconds that `run` takes, and what it returns.

    As with timeit, Python's collector of garbage waits meanwhile: it would go through all devices that are kept here.
    """
    gc.disable()
    started = time.perf_counter_ns()
    result = run()
    taken = time.perf_counter_ns() - started
    gc.enable()
    return taken, result


# --- the engines


def ours(times: Times, devices: Sequence[PreparedDevice], environment: Environment) -> None:
    """Measure our compiler and its selectors."""
    for name, expression in SELECTORS.items():
        compiling, made = min(
            (spent(partial(selector, expression, environment)) for _ in range(5)), key=first
        )
        match = made.match
        evaluation, matches = spent(lambda match=match: sum([match(each) for each in devices]))
        times.add(name, evaluation=evaluation / len(devices), compiling=compiling, matches=matches)


def other(times: Times, command: Sequence[str], lines: bytes) -> None:
    """Measure an engine in a process of its own, which times itself."""
    run = subprocess.run(command, input=lines, capture_output=True, check=True, cwd=ROOT / "bench")
    names = {expression: name for name, expression in SELECTORS.items()}
    for line in run.stdout.splitlines():
        answer = json.loads(line)
        times.add(
            names[answer["expression"]],
            evaluation=answer["evaluationNanoseconds"],
            compiling=answer["compileNanoseconds"],
            matches=answer["matches"],
        )


def questions(wires: Sequence[dict[str, Any]]) -> bytes:
    """Return selectors and devices as the other engines read them."""
    rows = [{"expression": text} for text in SELECTORS.values()]
    rows += [{"device": {"driver": DRIVER, **wire}} for wire in wires]
    return b"\n".join(map(orjson.dumps, rows)) + b"\n"


# --- the table


def table(all_times: Sequence[Times], pick: str) -> list[str]:
    """Return the times and how many times ours each of the others is, as a Markdown table."""
    own, *others = all_times
    head = ["selector", own.name, *(part for other in others for part in (other.name, "ratio"))]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    ratios: dict[str, list[float]] = {other.name: [] for other in others}
    for name in SELECTORS:
        mine = min(getattr(own, pick)[name])
        cells = [name, f"{mine:,.0f}"]
        for other in others:
            theirs = min(getattr(other, pick)[name])
            ratios[other.name].append(theirs / mine)
            cells += [f"{theirs:,.0f}", f"{theirs / mine:,.1f}"]
        lines.append(_line(cells))
    cells = ["geometric mean", ""]
    for values in ratios.values():
        cells += ["", f"{statistics.geometric_mean(values):,.1f}"]
    return [*lines, _line(cells)]


def _line(cells: Sequence[str]) -> str:
    widths = (26, *[12] * (len(cells) - 1))
    padded = [
        cell.rjust(width) if index else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def main() -> int:
    """Measure, print, and return 1 if answers differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=50_000)
    parser.add_argument("--sample", type=int, default=300, help="how many devices cel-python gets")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours-only", action="store_true", help="measure only ours")
    parser.add_argument(
        "--kubernetes",
        choices=(*VERSIONS,),
        default=RELEASED,
        help="whose evaluator ours is measured against, and by whose rules it evaluates",
    )
    options = parser.parse_args()
    wires = [device(number) for number in range(options.devices)]
    reader = TypeAdapter(Device)
    objects = [reader.validate_python(wire) for wire in wires]
    preparing, prepared = spent(lambda: [prepare_device(DRIVER, each) for each in objects])
    own = Times("ours")
    engines: list[tuple[Times, Sequence[str], bytes]] = []
    if not options.ours_only:
        try:
            engines.append(
                (
                    Times("Go"),
                    [str(find_or_build(kubernetes=options.kubernetes)), "-rounds", "1", "time-cel"],
                    questions(wires),
                )
            )
        except UnavailableError as reason:
            print(f"{reason}; Kubernetes' evaluator is not measured", file=sys.stderr)
        for runner in ("interpreted", "compiled"):
            script = f"import cel_python; cel_python.main('{runner}')"
            command = [sys.executable, "-c", script]
            engines.append((Times(f"celpy {runner[:6]}."), command, questions(wires[: options.sample])))
    for number in range(options.rounds):
        ours(own, prepared, Environment(options.kubernetes))
        for times, command, lines in engines:
            other(times, command, lines)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    everybody = [own, *(times for times, _, _ in engines)]
    print(
        f"Nanoseconds for one evaluation, the least of {options.rounds} rounds, {options.devices:,} distinct devices"
    )
    print(f"(cel-python: {options.sample}); a ratio says how many times ours it is.\n")
    print("\n".join(table(everybody, "evaluation")))
    print("\nNanoseconds for compiling a selector.\n")
    print("\n".join(table(everybody, "compiling")))
    medians = [
        f"{times.name} {statistics.median(map(min, times.compiling.values())) / 1e6:.3f}"
        for times in everybody
    ]
    print(
        f"\nCompiling, median over the selectors: {', '.join(medians)} ms (aim for ours: at most {COMPILE_AIM})."
    )
    print(
        f"Preparing a device, once for each change of its slice: {preparing / len(objects) / 1000:.1f} microseconds."
    )
    return verdict(own, [times for times, _, lines in engines if times.name == "Go"])


def verdict(own: Times, upstream: Sequence[Times]) -> int:
    """Say whether the aims are met; return 1 if answers differ from Kubernetes'."""
    for go in upstream:
        ratios = [min(go.evaluation[name]) / min(own.evaluation[name]) for name in SELECTORS]
        mean = statistics.geometric_mean(ratios)
        print(
            f"Against Go: at least {min(ratios):.1f} (aim {EACH_AIM}), geometric mean {mean:.1f} (aim {MEAN_AIM})."
        )
        different = {
            name: (count, go.matches[name])
            for name, count in own.matches.items()
            if go.matches[name] != count
        }
        print(f"Matches, ours and Go's: {different or 'the same for every selector'}.")
        if different:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
