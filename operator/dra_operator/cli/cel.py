"""`dra-operator cel`: checks and evaluates expressions; in plain lines, or in colour at a terminal.

Plain lines are for pipes and scripts and stay as they are. At a terminal there is more: the share of the limit that an
expression can cost, the part of the line that is wrong.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from dra_operator.api.versions import RELEASED, VERSIONS, Version
from dra_operator.cel.device import prepare_device
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import (
    Program,
    Selector,
    compile_derived_attribute,
    compile_program,
    compile_selector,
)
from dra_operator.cel.run.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES
from dra_operator.cel.types.environment import Environment
from dra_operator.cel.types.types import BOOL
from dra_operator.cli.kubectl.options import use_colours
from dra_operator.cli.output import FILE, NARROWEST, opened, refuse, refusing

_CHEAP: Final = COST_LIMIT // 10
"""Up to this cost nobody has to think about it."""
_MARGIN: Final = " | "


def verdict(
    text: str, program: Program, environment: Environment | None, width: int | None = None
) -> tuple[list[str], list[str]]:
    """Return the lines about an expression that compiles, in colour, and what is wrong with it.

    It is to be a selector of the environment if one is given; `width` is that of the terminal, if they are for one.
    """
    cost, reads = program.estimate().high, program.reads()
    problems = _length_problem(text)
    if cost > COST_LIMIT:
        problems.append(f"the API server admits no cost above {COST_LIMIT:,}: too complex")
    if environment is not None and program.type not in (BOOL, environment.attribute_type):
        problems.append("a selector must be of type bool, or of the type of an attribute")
    if "quantity(" in text or "semver(" in text:
        from dra_operator.cel.advice import mistaken_texts

        problems += [f"it fails wherever this is evaluated: {told}" for _, told in mistaken_texts(text)]
    parts = "any part of the device" if reads is None else ", ".join(sorted(reads)) or "nothing"
    if not parts.isprintable():
        # The keys of attributes are any texts.
        parts = _printable(parts)
    colour = "green" if cost <= _CHEAP else "yellow" if cost <= COST_LIMIT else "red"
    share = cost / COST_LIMIT
    told = f"{share:.1%}" if share < 10 else f"{share:,.0f} times"
    lines = [
        f"type   {click.style(str(program.type), fg='cyan')}",
        f"cost   {click.style(f'{cost:,}', fg=colour)} at most{f', {told} of {COST_LIMIT:,}' if width else ''}",
        f"reads  {parts}",
    ]
    return [*lines, *_in_red(problems)], problems


def refusal(text: str, error: CelError, environment: Environment, width: int | None = None) -> list[str]:
    """Return the lines about an expression that does not compile: what is wrong at which place, and advice."""
    from dra_operator.cel.advice import advise, caret

    message, hint = advise(error, text, environment)
    at = error.position
    place = caret(text, at, message) if width is None or at is None else _marked(text, at, message, width)
    advice = [click.style(hint, fg="yellow")] if hint else []
    return [f"{click.style('error', fg='red')}  {place}", *advice, *_in_red(_length_problem(text))]


def _in_red(problems: Iterable[str]) -> list[str]:
    return [click.style(problem, fg="red") for problem in problems]


def _length_problem(text: str) -> list[str]:
    length = len(text.encode(errors="surrogatepass"))
    if length <= MAX_BYTES:
        return []
    return [f"{length:,} bytes are more than the {MAX_BYTES:,} that the API server admits"]


def _marked(text: str, position: int, message: str, width: int) -> str:
    """Return what is wrong, the line with the wrong part underlined, and a caret under it."""
    from dra_operator.cel.advice import columns, place_of

    at = place_of(text, position, max(width - len(_MARGIN) - 1, NARROWEST))
    first, wrong, rest = at.before, at.line[len(at.before) :][:1], at.line[len(at.before) + 1 :]
    marked = click.style(wrong, fg="red", underline=True) if wrong else ""
    lines = (
        f"{at.row}:{at.column}: {_printable(message)}",
        f"{_MARGIN}{first}{marked}{rest}",
        f"{_MARGIN}{' ' * columns(first)}{click.style('^', fg='red')}",
    )
    return "\n".join(lines)


if TYPE_CHECKING:
    from dra_operator.api.types import Device, ResourceSlice

_FROM_FILE: Final = click.option(
    "-f", "--file", type=FILE, metavar="FILE", help="Read the expression from this file; - is stdin."
)


@click.group(no_args_is_help=True)
def app() -> None:
    """Check and evaluate CEL selectors."""


class _OfExpression(click.Command):
    """A command whose argument may begin with a minus; the shell's user is told how to say so."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name.startswith("--"):
                raise
            advice = "Put an expression that begins with - after --, as in: -- '-1 == 1'"
            raise click.UsageError(f"{error.format_message()} {advice}", ctx) from None


def _printable(text: str) -> str:
    from dra_operator.cel.advice import printable

    return printable(text)


@app.command(
    cls=_OfExpression, short_help="Print the type and cost of an expression, or what is wrong with it."
)
@click.argument("expression", required=False)
@_FROM_FILE
@click.option(
    "--kubernetes",
    type=click.Choice(VERSIONS),
    default=RELEASED,
    show_default=True,
    help="Kubernetes version whose rules apply.",
)
@click.option("--new", is_flag=True, help="Apply the rules for new expressions, not those for stored ones.")
@click.option("--derived", is_flag=True, help="Check a derived attribute, not a selector.")
def check(
    expression: str | None, file: Path | None, kubernetes: Version, *, new: bool, derived: bool
) -> None:
    """Print the type of an expression and what it can cost, or what is wrong with it and where."""
    text = _text(expression, file)
    environment = Environment(kubernetes, "new" if new else "stored")
    try:
        if derived:
            found = verdict(text, compile_derived_attribute(text, environment).program, None, _width())
        else:
            found = verdict(text, compile_program(text, environment), environment, _width())
    except CelError as error:
        _not_compiled(text, error, environment)
    lines, problems = found
    _say(lines)
    if problems:
        raise click.exceptions.Exit(1)


@app.command("eval", cls=_OfExpression)
@click.argument("expression", required=False)
@click.option(
    "--slices",
    type=FILE,
    metavar="FILE",
    multiple=True,
    required=True,
    help="Manifests with ResourceSlices; may be repeated.",
)
@_FROM_FILE
def evaluate(expression: str | None, slices: tuple[Path, ...], file: Path | None) -> None:
    """Print which devices a selector matches, and why it fails on others."""
    text = _text(expression, file)
    try:
        selector = compile_selector(text)
    except CelError as error:
        _not_compiled(text, error, Environment())
    counts: Counter[str] = Counter()
    # What fails on one device of a driver fails on most, and is long.
    told: dict[str, str] = {}
    for resource_slice in _slices(slices):
        spec = resource_slice.spec
        for device in spec.devices:
            verdict, why = _verdict(selector, spec.driver, device)
            counts[verdict] += 1
            path = f"{spec.driver}/{spec.pool.name}/{device.name}"
            first = told.setdefault(why, path) if why else path
            told_why = why if first == path else f"as on {first}"
            click.echo(_printable(f"{verdict:8} {path}  {told_why}".rstrip()))
    click.echo(", ".join(f"{counts[name]} {name}" for name in ("match", "no match", "error")), err=True)
    if counts["error"]:
        raise click.exceptions.Exit(1)


def _verdict(selector: Selector, driver: str, device: "Device") -> tuple[str, str]:
    try:
        return ("match" if selector.match(prepare_device(driver, device)) else "no match"), ""
    except CelError as error:
        # Needed for errors only.
        from dra_operator.allocator.matching.selectors import described

        return "error", described(selector.expression, error, selector.reads, driver, device)


def _slices(files: Iterable[Path]) -> "Iterator[ResourceSlice]":
    """Yield the ResourceSlices of manifests, lists of objects included; other kinds are passed over."""
    # Imported where manifests are read: `check` needs none, and pydantic takes longer to import than all of CEL.
    from dra_operator.api.read import ObjectError, read_object
    from dra_operator.questions import manifests

    for file in files:
        count = 0
        for found in manifests.read([str(file)]):
            if isinstance(found, manifests.Unreadable):
                _unusable(found.message)
            # What names no kind is taken for a slice if it has a spec, for a list of slices if it has items.
            body = found.body
            if "kind" not in body and "items" in body:
                body = {"kind": "ResourceSliceList", **body}
            for item in manifests.find_objects(found.place, body):
                if isinstance(item, manifests.Unreadable):
                    _unusable(item.message)
                if item.body.get("kind", "ResourceSlice" if "spec" in item.body else "") != "ResourceSlice":
                    continue
                count += 1
                try:
                    yield read_object(item.body, "ResourceSlice")
                except ObjectError as error:
                    _unusable(f"{item.place}: {error}")
        if not count:
            click.echo(f"note: {file}: no ResourceSlice in it", err=True)


def _text(expression: str | None, file: Path | None) -> str:
    if (expression is None) == (file is None):
        _unusable("give an expression, or a file with -f")
    if file is None:
        return _argument(expression or "")
    with refusing(file, None), opened(file, "rb") as source:
        content = source.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _unusable(f"{file}: byte {error.start} is not UTF-8")


def _argument(expression: str) -> str:
    """Return an expression from the command line, where halves of surrogate pairs stand for what is no text."""
    try:
        expression.encode()
    except UnicodeEncodeError as error:
        _unusable(f"the expression: byte {len(expression[: error.start].encode())} is not UTF-8")
    return expression


def _unusable(message: str) -> NoReturn:
    """End with what is wrong with what was given."""
    refuse(_printable(message))


def _not_compiled(text: str, error: CelError, environment: Environment) -> NoReturn:
    _say(refusal(text, error, environment, _width()))
    raise click.exceptions.Exit(1) from None


def _width() -> int | None:
    """Return the width of the terminal; None where nobody looks at one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line if use_colours() else click.unstyle(line))
