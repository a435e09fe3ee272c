"""Page: a report as one page for a browser, with plots as SVG, without scripts, that asks nothing from anywhere."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from html import escape
from typing import Final

from dra_operator.history.report import HistoryReport, Period, ReportRow
from dra_operator.history.room import NONE, ROOM, UNKNOWN, PastHeadroom
from dra_operator.history.sweep import STATES

_WIDTH: Final = 880
_HEIGHT: Final = 220
_BAR: Final = 22
_MOST_BARS: Final = 20
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2530; --soft: #5c6876; --line: #d9dee5; --page: #fff; --tile: #f4f6f9;
  --used: #2563c9; --shared: #7fa8ec; --free: #55a868; --tainted: #dd9a2b; --blocked: #9aa3ad; --unknown: #d3d8de;
  --busy: #2563c9; --idle: #e07b54; --wait: #8a63c9 }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaf0; --soft: #9aa5b4; --line: #343c48; --page: #14181e;
  --tile: #1e242d; --used: #5b93ee; --shared: #35568f; --free: #4f9460; --blocked: #5d6672; --unknown: #3a424d;
  --busy: #5b93ee } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 880px;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p, figcaption, .tile span { color: var(--soft) } figure { margin: 0 } svg { width: 100%; height: auto }
svg text { font: 12px system-ui, sans-serif; fill: var(--text) } svg .soft { fill: var(--soft) }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem }
.tile { background: var(--tile); border-radius: 6px; padding: .6rem 1rem }
.tile b { display: block; font-size: 1.35rem } .key { display: inline-block; margin-right: 1rem }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border-radius: 2px }
table { border-collapse: collapse; width: 100%; font-size: 13px }
td, th { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
td:first-child, th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere }
"""
"""Colours are those of the states; light or dark is what the reader has chosen."""
_ROOMS: Final = {ROOM: "wait", NONE: "tainted", UNKNOWN: "unknown"}
_ROOM_NAMES: Final = {"tainted": "no room to the end", "unknown": "not recorded"}
"""What colours of states stand for where it is about room."""
_USES: Final = ("busy", "idle")
_SUMS: Final = ("held", "idle", "unpublished", "cost", "waited")
_OF_WAITS: Final = ("waits", "median", "p90")
"""What does not add up over periods."""


def render_page(report: HistoryReport) -> str:
    """Return the page of a report, as HTML."""
    rows = _join_periods(report.rows)
    reasons: dict[str, Fraction] = defaultdict(Fraction)
    for row in report.rows:
        for each in row.reasons:
            reasons[each.reason] += each.hours
    waits = [(name, (each,)) for name, each in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))]
    held = [(row.name, (row.held - row.idle, row.idle)) for row in rows]
    by = escape(report.by)
    parts = [
        f"<h1>Devices by {by}</h1><p>{report.since} to {report.until}, in card-hours</p>",
        f'<div class="tiles">{"".join(_tiles(report, rows))}</div>',
        f"<h2>All cards by state</h2>{_figure(_states(report.periods), STATES)}",
        f"<h2>Held by {by}</h2>{_figure(_bars(held, _USES), _USES)}",
        f"<h2>Hours waited, by reason</h2>{_figure(_bars(waits, ('wait',)), ())}" if waits else "",
        f"<h2>In numbers</h2>{_table(report, rows)}",
        f"<p>{_share(report.unknown)} of the published time is unknown, as it lies in gaps.",
        f"{escape(report.note[:1].upper() + report.note[1:])}.</p>",
    ]
    return _page(f"Devices by {by}", parts)


def _page(title: str, parts: Iterable[str]) -> str:
    head = f"<title>{title}</title><style>{_STYLE}</style>"
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{meta}{head}</head>\n<body>\n{body}\n</body></html>\n'


def render_room(answer: PastHeadroom) -> str:
    """Return the page of how long it was until there was room, from each hour."""
    most = max(answer.longest / 3600, 1)
    step, shapes = _WIDTH / len(answer.hours), list[str]()
    for number, hour in enumerate(answer.hours):
        wait = (hour.wait or 0) / 3600
        told = f"{wait:.1f} hours" if hour.room == ROOM else _ROOM_NAMES[_ROOMS[hour.room]]
        height = _HEIGHT * (wait / most if hour.room == ROOM else 1)
        place = f'x="{step * number:.1f}" y="{_HEIGHT - height:.1f}" width="{step:.1f}" height="{height:.1f}"'
        shapes.append(
            f'<rect {place} style="fill: var(--{_ROOMS[hour.room]})"><title>{hour.at}: {told}</title></rect>'
        )
    for number in range(0, len(answer.hours), len(answer.hours) // 6 + 1):
        day = answer.hours[number].at[:10]
        shapes.append(f'<text class="soft" x="{step * number:.1f}" y="{_HEIGHT + 16}">{day}</text>')
    shapes.append(f'<text class="soft" x="0" y="12">{most:,.1f} hours</text>')
    plot = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 22}" role="img">{"".join(shapes)}</svg>'
    subject, hours = escape(answer.subject), len(answer.hours)
    counts = (
        f"at once in {answer.at_once:,} of {hours:,} hours, not to the end in {answer.count(NONE):,}, "
        f"not recorded in {answer.count(UNKNOWN):,}"
    )
    title = f"Room for one more of {subject}"
    head = f"<h1>{title}</h1><p>{answer.since} to {answer.until}: {counts}</p>"
    figure = _figure(plot, _ROOMS.values(), _ROOM_NAMES)
    return _page(title, [head, "<h2>Hours until there was room</h2>", figure])


def _join_periods(rows: Iterable[ReportRow]) -> list[ReportRow]:
    """Return a row for each name with what it held in all periods, the largest first."""
    found: dict[str, ReportRow] = {}
    for row in rows:
        if (known := found.get(row.name)) is None:
            found[row.name] = row
        else:
            sums = {name: getattr(known, name) + getattr(row, name) for name in _SUMS if getattr(row, name)}
            found[row.name] = replace(known, **sums)
    return sorted(found.values(), key=lambda row: (-row.held, row.name))


def _tiles(report: HistoryReport, rows: Sequence[ReportRow]) -> Iterable[str]:
    published = sum((each.published for each in report.periods), Fraction(0))
    used = sum((each.used + each.shared for each in report.periods), Fraction(0))
    idle = sum((each.idle for each in report.periods), Fraction(0))
    waited = sum((row.waited for row in rows), Fraction(0))
    costs = [row.cost for row in rows if row.cost is not None]
    tiles = {
        "published": _hours(published),
        "used": _share(used / published if published else Fraction(0)),
        "of it idle": _share(idle / used if used else Fraction(0)),
        "hours waited": _hours(waited),
        **({"cost": _hours(sum(costs, Fraction(0)))} if costs else {}),
        "unknown": _share(report.unknown),
    }
    return [f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles.items()]


def _figure(plot: str, keys: Iterable[str], names: Mapping[str, str] | None = None) -> str:
    shown = "".join(
        f'<span class="key"><i style="background: var(--{key})"></i>{(names or {}).get(key, key)}</span>'
        for key in keys
    )
    return f"<figure>{plot}<figcaption>{shown}</figcaption></figure>"


def _states(periods: Sequence[Period]) -> str:
    """Return columns, one a period, of how much of the cards was in which state."""
    most = max((float(each.published) for each in periods), default=0) or 1
    step, shapes = _WIDTH / max(len(periods), 1), list[str]()
    for number, period in enumerate(periods):
        top, begin = float(_HEIGHT), step * number
        for state in STATES:
            height = float(getattr(period, state)) / most * _HEIGHT
            top -= height
            told = f"<title>{state}: {_hours(getattr(period, state))} from {period.since}</title>"
            place = (
                f'x="{begin + 1:.1f}" y="{top:.1f}" width="{max(step - 2, 0.5):.1f}" height="{height:.1f}"'
            )
            shapes.append(f'<rect {place} style="fill: var(--{state})">{told}</rect>')
        if number % max(len(periods) // 6, 1) == 0:
            shapes.append(
                f'<text class="soft" x="{begin + 1:.1f}" y="{_HEIGHT + 16}">{period.since[:10]}</text>'
            )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 22}" role="img">{"".join(shapes)}</svg>'


def _bars(rows: Sequence[tuple[str, tuple[Fraction, ...]]], keys: tuple[str, ...]) -> str:
    """Return bars with their names, of which the first are shown and the sum of the others told."""
    rows, rest = rows[:_MOST_BARS], rows[_MOST_BARS:]
    most = max((float(sum(each)) for _, each in rows), default=0) or 1
    shapes = list[str]()
    for number, (name, amounts) in enumerate(rows):
        top, begin = number * _BAR, 230.0
        shapes.append(f'<text x="222" y="{top + 15}" text-anchor="end">{escape(name[-34:])}</text>')
        for key, amount in zip(keys, amounts, strict=True):
            width = float(amount) / most * (_WIDTH - 330)
            place = f'x="{begin:.1f}" y="{top + 3}" width="{width:.1f}" height="{_BAR - 6}"'
            shapes.append(f'<rect {place} style="fill: var(--{key})"/>')
            begin += width
        told = _hours(sum(amounts, Fraction(0)))
        shapes.append(f'<text class="soft" x="{begin + 6:.1f}" y="{top + 15}">{told}</text>')
    height = len(rows) * _BAR + 4
    if rest:
        told = _hours(sum((sum(each, Fraction(0)) for _, each in rest), Fraction(0)))
        shapes.append(f'<text class="soft" x="230" y="{height + 15}">{len(rest):,} more: {told}</text>')
        height += _BAR
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(shapes)}</svg>'


def _table(report: HistoryReport, rows: Sequence[ReportRow]) -> str:
    names = [name for name in _SUMS if any(getattr(row, name) for row in rows)]
    names += _OF_WAITS if len(report.periods) == 1 else ()
    lines = [f"<tr><th>{escape(report.by)}</th>{''.join(f'<th>{name}</th>' for name in names)}</tr>"]
    for row in rows:
        cells = [str(row.waits) if name == "waits" else _hours(getattr(row, name)) for name in names]
        lines.append(f"<tr><td>{escape(row.name)}</td>{''.join(f'<td>{each}</td>' for each in cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _hours(value: Fraction | None) -> str:
    return "" if value is None else f"{float(value):,.0f}" if value >= 1000 else f"{float(value):,.2f}"


def _share(value: Fraction) -> str:
    return f"{float(value):.1%}"
