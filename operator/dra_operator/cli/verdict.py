"""What `dra-operator cel check` says of an expression: as plain lines, or in colour at a terminal.

Plain lines are for pipes and scripts and stay as they are. At a terminal there is more for the eye: the share of the
limit that an expression can cost, the part of the line that is wrong. Only then is Rich imported; it knows NO_COLOR.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dra_operator.cel import CelError, Environment, Program
from dra_operator.cel.costs.meter import COST_LIMIT
from dra_operator.cel.syntax.parser import MAX_BYTES
from dra_operator.cel.types import BOOL
from dra_operator.cli.lines import NARROWEST, terminal

if TYPE_CHECKING:
    from rich.text import Text

_CHEAP: Final = COST_LIMIT // 10
"""Up to this cost nobody has to think about it."""
_MARGIN: Final = " | "


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of an expression that compiles."""

    type: str
    cost: int
    reads: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What there is to say of one that does not: what is wrong at which offset, and advice or nothing."""

    text: str
    position: int | None
    message: str
    hint: str
    problems: tuple[str, ...]


def verdict(text: str, program: Program, environment: Environment | None) -> Verdict:
    """Return what there is to say of an expression that compiles, as selector of an environment if one is given."""
    cost, reads = program.estimate().high, program.reads()
    problems = _length_problem(text)
    if cost > COST_LIMIT:
        problems.append(f"the API server admits no cost above {COST_LIMIT:,}: too complex")
    if environment is not None and program.type not in (BOOL, environment.attribute_type):
        problems.append("a selector must be of type bool, or of the type of an attribute")
    if "quantity(" in text or "semver(" in text:
        from dra_operator.cel.advice.diagnostics import mistaken_texts  # noqa: PLC0415

        problems += [f"it fails wherever this is evaluated: {told}" for _, told in mistaken_texts(text)]
    parts = "any part of the device" if reads is None else ", ".join(sorted(reads)) or "nothing"
    if not parts.isprintable():
        # The keys of attributes are any texts.
        from dra_operator.cel.advice.diagnostics import printable  # noqa: PLC0415 - nearly never needed

        parts = printable(parts)
    return Verdict(str(program.type), cost, parts, tuple(problems))


def refusal(text: str, error: CelError, environment: Environment) -> Refusal:
    """Return what there is to say of an expression that does not compile."""
    from dra_operator.cel.advice.wording import advise  # noqa: PLC0415 - needed for errors only

    message, hint = advise(error, text, environment)
    return Refusal(text, error.position, message, hint, tuple(_length_problem(text)))


def _length_problem(text: str) -> list[str]:
    length = len(text.encode(errors="surrogatepass"))
    if length <= MAX_BYTES:
        return []
    return [f"{length:,} bytes are more than the {MAX_BYTES:,} that the API server admits"]


def plain(found: Verdict | Refusal) -> list[str]:
    """Return it as lines without colour."""
    if isinstance(found, Verdict):
        lines = [f"type   {found.type}", f"cost   {found.cost:,} at most", f"reads  {found.reads}"]
        return [*lines, *found.problems]
    from dra_operator.cel.advice.diagnostics import caret  # noqa: PLC0415

    error = caret(found.text, found.position, found.message)
    return [f"error  {error}", *([found.hint] if found.hint else ()), *found.problems]


def show(found: Verdict | Refusal) -> None:
    """Print it on a terminal."""
    console = terminal()
    lines = _described(found) if isinstance(found, Verdict) else _refused(found, console.width)
    for line in lines:
        console.print(line, overflow="fold")


def _described(found: Verdict) -> "list[Text]":
    from rich.text import Text  # noqa: PLC0415

    share = found.cost / COST_LIMIT
    colour = "green" if found.cost <= _CHEAP else "yellow" if found.cost <= COST_LIMIT else "red"
    told = f"{share:.1%}" if share < 10 else f"{share:,.0f} times"
    return [
        Text.assemble(("type   ", "dim"), (found.type, "bold cyan")),
        Text.assemble(
            ("cost   ", "dim"), (f"{found.cost:,}", f"bold {colour}"), f" at most, {told} of {COST_LIMIT:,}"
        ),
        Text.assemble(("reads  ", "dim"), found.reads),
        *(Text(problem, "red") for problem in found.problems),
    ]


def _refused(found: Refusal, width: int) -> "list[Text]":
    from rich.text import Text  # noqa: PLC0415

    from dra_operator.cel.advice.diagnostics import columns, place_of, printable  # noqa: PLC0415

    rest = [Text(found.hint, "yellow")] if found.hint else []
    rest += [Text(problem, "red") for problem in found.problems]
    message = printable(found.message)
    if found.position is None:
        return [Text.assemble(("error  ", "bold red"), message), *rest]
    at = place_of(found.text, found.position, max(width - len(_MARGIN) - 1, NARROWEST))
    line = Text(at.line)
    line.stylize("bold red underline", len(at.before), len(at.before) + 1)
    return [
        Text.assemble(("error  ", "bold red"), f"{at.row}:{at.column}: {message}"),
        Text.assemble((_MARGIN, "dim"), line),
        Text.assemble((_MARGIN, "dim"), " " * columns(at.before), ("^", "bold red")),
        *rest,
    ]
