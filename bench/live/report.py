"""What was measured, and how it is printed."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from conformance.replay import percentile
from live.deciders import Decider, Load

Phase: TypeAlias = tuple[Decider, Load]

HEADINGS = ("decider", "claims", "claims/s", "p50 ms", "p99 ms", "left s", "own CPU s", "servers' CPU s")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many claims were not allocated, and how many devices were given twice."""

    missing: int
    doubled: int

    @property
    def is_right(self) -> bool:
        """True if every claim has a device of its own."""
        return not self.missing and not self.doubled


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase, in seconds. `latencies` and `left` are unknown where the claims were there before."""

    rate: float
    latencies: Sequence[float]
    left: float | None
    own_seconds: float
    server_seconds: float
    verdict: Verdict


@dataclass(slots=True)
class Row:
    """What the rounds of one decider under one load came to; every number is the median."""

    phase: Phase
    rounds: list[Measured] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Claims a second."""
        return statistics.median(one.rate for one in self.rounds)

    def latency(self, percent: int) -> float | None:
        """Return a percentile in milliseconds, None if no latency is known."""
        found = [
            percentile([1000 * seconds for seconds in one.latencies], percent)
            for one in self.rounds
            if one.latencies
        ]
        return statistics.median(found) if found else None

    @property
    def left(self) -> float | None:
        """Seconds from the answer to the last create call to the last allocation."""
        found = [one.left for one in self.rounds if one.left is not None]
        return statistics.median(found) if found else None

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        decider, load = self.phase
        return (
            decider.value,
            load.value,
            f"{self.rate:.0f}",
            _cell(self.latency(50), ".0f"),
            _cell(self.latency(99), ".0f"),
            _cell(self.left, ".2f"),
            f"{statistics.median(one.own_seconds for one in self.rounds):.1f}",
            f"{statistics.median(one.server_seconds for one in self.rounds):.1f}",
        )


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    # The first two are words.
    printed = [
        " | ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    rule = " | ".join(
        "-" * width if column < 2 else "-" * (width - 1) + ":" for column, width in enumerate(widths)
    )
    return "\n".join(f"| {line} |" for line in (printed[0], rule, *printed[1:]))


def ratios(rows: Mapping[Phase, Row]) -> list[str]:
    """Return what the operator comes to beside the others, as far as they were measured in this run."""
    lines = []
    for load in Load:
        lines += _ratio(rows, (Decider.OPERATOR, load), (Decider.BARE, load), "at least 0.7, claims standing")
        lines += _ratio(rows, (Decider.OPERATOR, load), (Decider.OTHER_OPERATOR, load), "more than 1")
        lines += _ratio(rows, (Decider.CONFINED_OPERATOR, load), (Decider.OPERATOR, load), "at least 0.9")
    burst = (Decider.OPERATOR, Load.BURST)
    lines += _ratio(rows, burst, (Decider.SCHEDULER, Load.BURST), "at least 5")
    lines += _ratio(rows, burst, (Decider.FAST_SCHEDULER, Load.BURST), "more than 1")
    if burst in rows and (left := rows[burst].left) is not None:
        lines.append(
            f"operator, burst: the last allocation {left:.2f} s after the last claim (aim: at most 5)"
        )
    return lines


def _ratio(rows: Mapping[Phase, Row], ours: Phase, other: Phase, aim: str) -> list[str]:
    if ours not in rows or other not in rows:
        return []
    ratio = rows[ours].rate / rows[other].rate
    return [f"{ours[0].value} / {other[0].value}, {other[1].value}: {ratio:.2f} (aim: {aim})"]


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
