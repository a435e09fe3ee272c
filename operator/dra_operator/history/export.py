"""Export: what claims held and why was waited, by day, as Parquet for Spark, Trino and DuckDB (the extra of its name).

`DIR/holdings/day=…/` and `DIR/waits/day=…/`: what goes over midnight is cut there. Source: docs/history.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from dra_operator.history.holdings import find_idle, read_holdings
from dra_operator.history.reader import Reader, Span
from dra_operator.history.report import OTHERS
from dra_operator.history.schema import MICRO

_DAY: Final = 86400 * MICRO
_HOLDING: Final = ("namespace", "claim", "uid", "pod_uid", "class", "driver", "pool", "device")
_WAIT: Final = ("namespace", "kind", "name", "uid", "reason", "message")
_SECONDS: Final = ("seconds", "idle_seconds")
_OF_WHOM: Final = ("namespace", "class", "kind", "reason")
"""By what rows of other namespaces are summed up; nothing else of them is told."""


def export(reader: Reader, span: Span, folder: Path, namespace: str = "") -> int:
    """Write the days of a span and return how many; of other namespaces than one, if it is given, only sums.

    Raises StoreError, OSError.
    """
    # What an earlier export wrote of the morning of the first day is written anew.
    days = [*_days(Span(max(span.since // _DAY * _DAY, reader.span.since), span.until))]
    for day in days:
        name = datetime.fromtimestamp(day.since // MICRO, UTC).date().isoformat()
        for table, columns, rows in (
            ("holdings", _schema(_HOLDING, _SECONDS), _holdings(reader, day)),
            ("waits", _schema(_WAIT, _SECONDS[:1]), _waits(reader, day)),
        ):
            path = folder / table / f"day={name}" / "part-0.parquet"
            if path.exists() and _begins_before(path, day.since):
                # The record has lost its beginning since (`--keep`).
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = [*_sum_up(rows, namespace)] if namespace else [*rows]
            parquet.write_table(pa.Table.from_pylist(kept, columns), path)
    return len(days)


def _begins_before(path: Path, at: int) -> bool:
    """Return whether an export that was written before has rows from before a time."""
    found = parquet.read_table(path, columns=["since"])["since"].to_pylist()
    return any(each < datetime.fromtimestamp(at / MICRO, UTC) for each in found)


def _schema(texts: Iterable[str], seconds: Iterable[str]) -> pa.Schema:
    types = dict.fromkeys(texts, pa.string()) | dict.fromkeys(
        ("since", "until"), pa.timestamp("us", tz="UTC")
    )
    return pa.schema(types | dict.fromkeys(seconds, pa.float64()))


def _days(span: Span) -> Iterator[Span]:
    at = span.since
    while at < span.until:
        end = min(at // _DAY * _DAY + _DAY, span.until)
        yield Span(at, end)
        at = end


def _holdings(reader: Reader, span: Span) -> Iterator[dict[str, Any]]:
    gaps = [gap for gap in reader.gaps if gap.since < span.until and gap.until > span.since]
    for (driver, pool), holdings in read_holdings(reader, span).items():
        for each in holdings:
            claim = each.claim
            # As in a report, nothing is idle in a gap.
            idle = find_idle([claim], each.since, each.until) - sum(
                find_idle([claim], max(gap.since, each.since), min(gap.until, each.until))
                for gap in gaps
                if gap.since < each.until and gap.until > each.since
            )
            told = (claim.namespace, claim.name, claim.uid, claim.pod, each.device_class, driver, pool)
            times = {**_times(each.since, each.until), "idle_seconds": idle / MICRO}
            for device in each.devices:
                yield {**dict(zip(_HOLDING, (*told, device), strict=True)), **times}


def _waits(reader: Reader, span: Span) -> Iterator[dict[str, Any]]:
    for row in reader.read_waits(span):
        told = {name: getattr(row, name) for name in _WAIT}
        yield {**told, **_times(max(row.since, span.since), min(row.until, span.until))}


def _times(since: int, until: int) -> dict[str, Any]:
    return {"since": since, "until": until, "seconds": (until - since) / MICRO}


def _sum_up(rows: Iterable[dict[str, Any]], namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a namespace, without texts that may name others, and sums of all others."""
    sums: dict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        if row["namespace"] == namespace:
            yield {**row, "message": ""} if "message" in row else row
            continue
        of_whom = {**row, "namespace": OTHERS}
        for name in _SECONDS:
            sums[tuple([of_whom.get(each) for each in _OF_WHOM])][name] += row.get(name, 0)
    for key, found in sums.items():
        yield {**dict(zip(_OF_WHOM, key, strict=True)), **found}
