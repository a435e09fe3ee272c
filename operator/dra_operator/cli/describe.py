"""`kubectl describe` for people who have no kubectl: an object and its Events as text.

kubectl describes a kind that it has no special page for field by field, with the fields' names spelled out
and sorted, and lines of values aligned. The same is done here, so that what the demo shows is what a cluster
will show. Source: k8s.io/kubectl/pkg/describe, `GenericDescriber` and `DescribeEvents`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from dra_operator.api.durations import age

_ACRONYMS = {"api": "API", "url": "URL", "uid": "UID", "osb": "OSB", "guid": "GUID"}
_SHOWN_ABOVE = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})
_HIDDEN_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_LONGEST_ANNOTATION = 140
_PADDING = 2


def describe(body: Mapping[str, Any], events: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """Return the text for an object and its Events, both as on the wire; `now` is the time of day in UTC."""
    metadata = body["metadata"]
    lines = [
        f"Name:\t{metadata['name']}",
        f"Namespace:\t{metadata.get('namespace', '')}",
        *_labels(metadata.get("labels") or {}),
        *_annotations(metadata.get("annotations") or {}),
        f"API Version:\t{body['apiVersion']}",
        f"Kind:\t{body['kind']}",
    ]
    rest = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
    rest["metadata"] = {name: value for name, value in metadata.items() if name not in _SHOWN_ABOVE}
    lines += _fields(rest, 0)
    if not events:
        return align([*lines, "Events:\t<none>"])
    return align([*lines, "Events:", *_events(events, now)])


def label(name: str) -> str:
    """Return a field's name as words: `allocationTimestamp` is `Allocation Timestamp`, `uid` is `UID`."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d]+", name)
    return " ".join(_ACRONYMS.get(word.lower(), word[:1].upper() + word[1:]) for word in words)


def align(lines: Sequence[str]) -> str:
    """Return lines with tabs as columns, as wide as the widest cell in lines that follow each other."""
    # A line break within a value ends the line for the columns, too.
    rows = [part.split("\t") for line in lines for part in line.split("\n")]
    widths = [[0] * (len(row) - 1) for row in rows]
    _set_widths(rows, widths, 0, len(rows), 0)
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(row, [*wide, 0], strict=True)).rstrip() + "\n"
        for row, wide in zip(rows, widths, strict=True)
    )


def _set_widths(rows: list[list[str]], widths: list[list[int]], start: int, end: int, column: int) -> None:
    """Give the cells of a column in lines without a gap one width. Source: Go's text/tabwriter."""
    first = start
    while first < end:
        if len(rows[first]) <= column + 1:
            first += 1
            continue
        last = first
        while last < end and len(rows[last]) > column + 1:
            last += 1
        width = max(len(row[column]) for row in rows[first:last]) + _PADDING
        for wide in widths[first:last]:
            wide[column] = width
        _set_widths(rows, widths, first, last, column + 1)
        first = last


def _labels(labels: Mapping[str, str]) -> Iterator[str]:
    rows = [f"{name}={labels[name]}" for name in sorted(labels)] or ["<none>"]
    return _titled("Labels", rows)


def _annotations(annotations: Mapping[str, str]) -> Iterator[str]:
    rows: list[str] = []
    for name in sorted(annotations.keys() - _HIDDEN_ANNOTATIONS):
        value = annotations[name].removesuffix("\n")
        if "\n" in value or len(value.encode()) + len(name.encode()) + 2 > _LONGEST_ANNOTATION:
            rows.append(f"{name}:")
            rows += [f"  {_cut(line)}" for line in value.split("\n")]
        else:
            rows.append(f"{name}: {value}")
    return _titled("Annotations", rows or ["<none>"])


def _titled(title: str, rows: Sequence[str]) -> Iterator[str]:
    for index, row in enumerate(rows):
        yield f"{f'{title}:' if index == 0 else ''}\t{row}"


def _cut(line: str) -> str:
    text, room = line.encode(), _LONGEST_ANNOTATION - 2
    return line if len(text) <= room else text[:room].decode(errors="ignore") + "..."


def _fields(value: Mapping[str, Any], level: int) -> Iterator[str]:
    indent = "  " * level
    for name in sorted(value):
        content = value[name]
        if isinstance(content, Mapping):
            yield f"{indent}{label(name)}:"
            yield from _fields(content, level + 1)
        elif isinstance(content, list):
            yield f"{indent}{label(name)}:"
            for item in content:
                if isinstance(item, Mapping):
                    yield from _fields(item, level + 1)
                else:
                    yield f"{indent}  {_text(item)}"
        else:
            yield f"{indent}{label(name)}:\t{_text(content)}"


def _text(value: Any) -> str:
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _events(events: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[str]:
    yield "  Type\tReason\tAge\tFrom\tMessage"
    yield "  ----\t------\t----\t----\t-------"
    for event in sorted(events, key=lambda event: str(event.get("lastTimestamp", ""))):
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
        yield (
            f"  {event.get('type')}\t{event.get('reason')}\t{_age(event, now)}\t{source}\t"
            f"{str(event.get('message', '')).strip()}"
        )


def _age(event: Mapping[str, Any], now: datetime) -> str:
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or first
    if event.get("count", 1) > 1:
        return f"{age(last, now)} (x{event['count']} over {age(first, now)})"
    return age(first, now)
