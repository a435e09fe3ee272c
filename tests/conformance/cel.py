"""`python -m conformance cel FILE`: recorded expressions evaluated again, compared with their answers."""

import codecs
import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from conformance.cases import CaseError, differences, outcome
from conformance.files import end
from dra_operator.cel.advice import printable
from dra_operator.cli.output import FILE, opened, refusing

_OBJECTS_A_COLLECTION = 100_000


@click.command("cel")
@click.argument("file", type=FILE)
@click.option(
    "--out", type=FILE, metavar="FILE", help="Write the JSON lines to this file; .gz is compressed."
)
def app(file: Path, out: Path | None) -> None:
    """Evaluate recorded expressions and compare with the recorded answers.

    FILE has cases, one JSON object a line, or one object with `cases`; - is stdin.
    """
    counts: Counter[str] = Counter()
    # Expressions are trees, thousands of small objects each: the collector would take a fifth of the time.
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    with refusing(file, out), opened(file, "rb") as source, opened(out or Path("-"), "wb") as target:
        for number, row in enumerate(_rows(source.read()), 1):
            name, answer, verdict = _answered(row, number)
            try:
                line = orjson.dumps({"name": name, **answer}, option=orjson.OPT_APPEND_NEWLINE)
            except TypeError:
                # JSON of a value that nests deeper than its reader would read is not written either.
                name, answer, verdict = _unreadable(name, "the value nests too deep to be written")
                line = orjson.dumps({"name": name, **answer}, option=orjson.OPT_APPEND_NEWLINE)
            counts[verdict] += 1
            target.write(line)
    end(counts, "no cases")


def _rows(content: bytes) -> Iterator[Any]:
    """Yield the rows of a file; an error stands for a row that is no JSON."""
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        whole = orjson.loads(content)
    except orjson.JSONDecodeError:
        whole = None
    if isinstance(whole, Mapping) and isinstance(whole.get("cases"), list):
        yield from whole["cases"]
        return
    for line in content.splitlines():
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                yield CaseError(str(error))


def _answered(row: Any, number: int) -> tuple[Any, dict[str, Any], str]:
    """Return a row's name, our outcome, and what came of the comparison."""
    if isinstance(row, CaseError):
        return _unreadable(number, str(row))
    if not isinstance(row, Mapping):
        return _unreadable(number, "a case is an object")
    name = row.get("name", number)
    if not isinstance(name, str | int | float):
        return _unreadable(number, '"name" is a text or a number')
    try:
        ours = outcome(row)
    except CaseError as error:
        return _unreadable(name, str(error))
    different = differences(row, ours)
    if different:
        text = f"{name}: {', '.join(different)} differ: {row['expression']}"
        click.echo(printable(text), err=True)
    carries = "expected" in row or any(key in row for key in ("compileError", "error", "value"))
    return name, ours, "different" if different else "equal" if carries else "answered"


def _unreadable(name: Any, message: str) -> tuple[Any, dict[str, Any], str]:
    return name, {"error": message, "errorKind": "input"}, "unreadable"
