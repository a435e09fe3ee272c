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
_TIME: Final = pa.timestamp("us", tz="UTC")
_TEXT: Final = pa.string()
_HOLDING: Final = pa.schema(
    [
        *[
            (name, _TEXT)
            for name in ("namespace", "claim", "uid", "pod_uid", "class", "driver", "pool", "device")
        ],
        *(
            ("since", _TIME),
            ("until", _TIME),
            ("seconds", pa.float64()),
            ("idle_seconds", pa.float64()),
        ),
    ]
)
_WAIT: Final = pa.schema(
    [
        *[(name, _TEXT) for name in ("namespace", "kind", "name", "uid", "reason", "message")],
        *(("since", _TIME), ("until", _TIME), ("seconds", pa.float64())),
    ]
)
_OF_WHOM: Final = ("namespace", "class", "kind", "reason")
"""By what rows of other namespaces are summed up; nothing else of them is told."""


def export(reader: Reader, span: Span, folder: Path, namespace: str = "") -> int:
    """Write the days of a span and return how many; of other namespaces than one, if it is given, only sums.

    Raises StoreError, OSError.
    """
    days = [*_days(span)]
    for day in days:
        name = datetime.fromtimestamp(day.since // MICRO, UTC).date().isoformat()
        for table, schema, rows in (
            ("holdings", _HOLDING, _holdings(reader, day)),
            ("waits", _WAIT, _waits(reader, day)),
        ):
            path = folder / table / f"day={name}" / "part-0.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = [*_sum_up(rows, namespace)] if namespace else [*rows]
            parquet.write_table(pa.Table.from_pylist(kept, schema), path)
    return len(days)


def _days(span: Span) -> Iterator[Span]:
    at = span.since
    while at < span.until:
        end = min(at // _DAY * _DAY + _DAY, span.until)
        yield Span(at, end)
        at = end


def _holdings(reader: Reader, span: Span) -> Iterator[dict[str, Any]]:
    for (driver, pool), devices in read_holdings(reader, span).items():
        for each in [each for holdings in devices.values() for each in holdings]:
            claim, idle = each.claim, find_idle([each.claim], each.since, each.until)
            for gap in reader.gaps:
                # As in a report, nothing is idle there.
                since, until = max(gap.since, each.since), min(gap.until, each.until)
                idle -= find_idle([claim], since, until) if since < until else 0
            yield {
                "namespace": claim.namespace,
                "claim": claim.name,
                "uid": claim.uid,
                "pod_uid": claim.pod,
                "class": each.device_class,
                "driver": driver,
                "pool": pool,
                "device": each.device,
                "idle_seconds": idle / MICRO,
                **_times(each.since, each.until),
            }


def _waits(reader: Reader, span: Span) -> Iterator[dict[str, Any]]:
    for row in reader.read_waits(span):
        told = {
            name: getattr(row, name) for name in ("namespace", "kind", "name", "uid", "reason", "message")
        }
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
        for name in ("seconds", "idle_seconds"):
            sums[tuple([of_whom.get(each) for each in _OF_WHOM])][name] += row.get(name, 0)
    for key, found in sums.items():
        yield {**dict(zip(_OF_WHOM, key, strict=True)), **found}
