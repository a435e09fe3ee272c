"""The table that `bench/allocator.py` prints, in Markdown."""

from collections.abc import Iterable, Sequence

from workloads import SHAPES

from versus.rows import Row
from versus.sides import Side

HEAD = (
    "workload", "claims", "{} p50", "p99", "mean ms", "ours p50", "p99", "mean ms", "ratio", "floor", "with CEL",
    "CEL ms {}", "ours", "MiB {}", "ours", "answers",
)  # fmt: skip
WIDTHS = (20, 6, 8, 9, 9, 8, 8, 8, 7, 5, 8, 9, 7, 6, 6, 14)


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
        "" if row.floor is None else str(row.floor),
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
