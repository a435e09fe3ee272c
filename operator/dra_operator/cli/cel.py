"""`dra-operator cel`: expressions checked, evaluated and compared with what Kubernetes answers.

`check` says what the API server would say before it is asked, `eval` which devices a selector takes and why
not the others, `cases` runs recorded expressions. None of them needs a cluster.
Source: docs/cli.md.
"""

import gc
import gzip
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast

import orjson
import typer

from dra_operator.cel import (
    CelError,
    Environment,
    Selector,
    compile_program,
    compile_selector,
    prepare_device,
)
from dra_operator.cel.cases import CaseError, differences, outcome
from dra_operator.cel.diagnostics import advice, caret
from dra_operator.cel.meter import COST_LIMIT
from dra_operator.cel.parser import MAX_BYTES
from dra_operator.cel.types import BOOL

if TYPE_CHECKING:
    from dra_operator.api.types import Device, ResourceSlice

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Check and evaluate CEL selectors.")

_OBJECTS_A_COLLECTION = 100_000


class Kubernetes(StrEnum):
    """The versions whose rules are known."""

    V1_36 = "1.36"
    V1_37 = "1.37"


@app.command()
def cases(
    file: Annotated[
        Path, typer.Argument(help="Cases, one JSON object a line, or one object with `cases`; - is stdin.")
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Write the JSON lines here; .gz is compressed.")] = None,
) -> None:
    """Evaluate recorded expressions and compare with the recorded answers."""
    counts: Counter[str] = Counter()
    # Expressions are trees, thousands of small objects each: the collector would take a fifth of the time.
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    try:
        with _opened(file, "rb") as source, _opened(out or Path("-"), "wb") as target:
            for number, row in enumerate(_rows(source.read()), 1):
                name, answer, verdict = _answered(row, number)
                counts[verdict] += 1
                target.write(orjson.dumps({"name": name, **answer}, option=orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        typer.echo(f"{file}: {error.strerror or error}", err=True)
        raise typer.Exit(2) from None
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "no cases"
    typer.echo(summary, err=True)
    if counts["unreadable"]:
        raise typer.Exit(2)
    if counts["different"]:
        raise typer.Exit(1)


def _rows(content: bytes) -> Iterator[Any]:
    """Yield the rows of a file; an error stands for a row that is no JSON."""
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
    name = row.get("name", number) if isinstance(row, Mapping) else number
    try:
        if isinstance(row, CaseError):
            raise row
        ours = outcome(row if isinstance(row, Mapping) else {})
    except CaseError as error:
        return name, {"error": str(error), "errorKind": "input"}, "unreadable"
    different = differences(row, ours)
    if different:
        typer.echo(f"{name}: {', '.join(different)} differ: {row['expression']}", err=True)
    carries = "expected" in row or any(key in row for key in ("compileError", "error", "value"))
    return name, ours, "different" if different else "equal" if carries else "answered"


@app.command()
def check(
    expression: Annotated[str | None, typer.Argument(help="The expression.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Read the expression here; - is stdin.")
    ] = None,
    kubernetes: Annotated[Kubernetes, typer.Option(help="Whose rules.")] = Kubernetes.V1_37,
    new: Annotated[
        bool, typer.Option("--new", help="The rules for new expressions, not for stored ones.")
    ] = False,
) -> None:
    """Say what an expression is: its type, what it can cost, or what is wrong with it and where."""
    text = _text(expression, file)
    environment = Environment(kubernetes.value, "new" if new else "stored")
    try:
        program = compile_program(text, environment)
    except CelError as error:
        _say_error(text, error, environment)
        raise typer.Exit(1) from None
    cost = program.estimate().high
    problems = []
    if len(text.encode()) > MAX_BYTES:
        problems.append(
            f"{len(text.encode())} bytes are more than the {MAX_BYTES} that the API server admits"
        )
    if cost > COST_LIMIT:
        problems.append(f"the API server admits no cost above {COST_LIMIT:,}: too complex")
    if program.type not in (BOOL, environment.attribute_type):
        problems.append("a selector must be of type bool, or of the type of an attribute")
    reads = program.reads()
    typer.echo(f"type   {program.type}")
    typer.echo(f"cost   {cost:,} at most")
    typer.echo(
        f"reads  {'any part of the device' if reads is None else ', '.join(sorted(reads)) or 'nothing'}"
    )
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)


@app.command("eval")
def evaluate(
    expression: Annotated[str | None, typer.Argument(help="The selector.")] = None,
    *,
    slices: Annotated[
        list[Path], typer.Option(help="Manifests with ResourceSlices; may be given several times.")
    ],
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Read the expression here; - is stdin.")
    ] = None,
) -> None:
    """Say which devices a selector takes, and on which it fails, and why."""
    text = _text(expression, file)
    try:
        selector = compile_selector(text)
    except CelError as error:
        _say_error(text, error, Environment())
        raise typer.Exit(1) from None
    counts: Counter[str] = Counter()
    for resource_slice in _slices(slices):
        spec = resource_slice.spec
        for device in spec.devices:
            verdict, why = _verdict(selector, spec.driver, device)
            counts[verdict] += 1
            typer.echo(f"{verdict:8} {spec.driver}/{spec.pool.name}/{device.name}{why}")
    typer.echo(", ".join(f"{counts[name]} {name}" for name in ("match", "no match", "error")), err=True)
    if counts["error"]:
        raise typer.Exit(1)


def _verdict(selector: Selector, driver: str, device: "Device") -> tuple[str, str]:
    prepared = prepare_device(driver, device)
    try:
        return ("match" if selector.match(prepared) else "no match"), ""
    except CelError as error:
        hint = advice(error, prepared)
        return "error", f"  {error.message}{'; ' + hint if hint else ''}"


def _slices(files: Iterable[Path]) -> "Iterator[ResourceSlice]":
    """Yield the ResourceSlices of manifests, lists of objects included; other kinds are passed over."""
    # Imported where manifests are read: `check` needs none, and pydantic takes longer to import than all of CEL.
    import yaml  # noqa: PLC0415

    from dra_operator.api.read import ObjectError, read_object  # noqa: PLC0415

    for file in files:
        try:
            with _opened(file, "rb") as source:
                documents = list(yaml.safe_load_all(source.read()))
            for document in documents:
                for body in (document or {}).get("items") or [document]:
                    if body and body.get("kind", "ResourceSlice") == "ResourceSlice":
                        yield read_object(body, "ResourceSlice")
        except (OSError, yaml.YAMLError, ObjectError, AttributeError) as error:
            typer.echo(f"{file}: {error}", err=True)
            raise typer.Exit(2) from None


def _text(expression: str | None, file: Path | None) -> str:
    if (expression is None) == (file is None):
        typer.echo("give an expression, or a file with -f", err=True)
        raise typer.Exit(2)
    if file is None:
        return expression or ""
    try:
        with _opened(file, "rb") as source:
            return source.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        typer.echo(f"{file}: {error}", err=True)
        raise typer.Exit(2) from None


def _say_error(text: str, error: CelError, environment: Environment) -> None:
    typer.echo(f"error  {caret(text, error)}")
    hint = advice(error, environment=environment)
    if hint:
        typer.echo(hint)


@contextmanager
def _opened(path: Path, mode: Literal["rb", "wb"]) -> Iterator[IO[bytes]]:
    """Open a file; `-` is stdin or stdout, .gz is compressed."""
    if str(path) == "-":
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    elif path.suffix == ".gz":
        with gzip.open(path, mode) as compressed:
            yield cast("IO[bytes]", compressed)
    else:
        with path.open(mode) as plain:
            yield plain
