"""Tables: the parser's LALR tables, computed ahead and kept in `tables.json` with the grammar that they follow from.

Importing Lark takes longer than compiling fifty expressions. If the grammar is another, Lark computes the tables as
ever, and a test says that the file is old.

    python -c "from dra_operator.cel.syntax import grammar, tables; tables.write(grammar.grammar())"    # writes it anew
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from lark import Lark

_FILE: Final = Path(__file__).with_name("tables.json")
END: Final = "$END"
"""The terminal that stands for the end of the text."""
OPTIONS: Final[dict[str, Any]] = {
    "parser": "lalr",
    "lexer": "contextual",
    "start": "expr",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


class Tables(NamedTuple):
    """What a grammar comes to.

    `terminals` are names with regular expressions, in the order in which they are tried. `actions` are numbers, by
    state and by terminal (the end of the text last): 0 is an error, n > 0 goes on to state n - 1, n < 0 reduces by
    rule -n - 1. `gotos` say by state and by the name of what was reduced which state is next.
    """

    terminals: list[tuple[str, str]]
    ignored: list[str]
    rules: list[tuple[str, list[str]]]
    actions: list[list[int]]
    gotos: list[dict[str, int]]
    start: int
    end: int


def tables(grammar: str) -> Tables:
    """Return the tables of a grammar: those that are kept, or computed anew if it is another."""
    kept = _read()
    return Tables(**kept["tables"]) if kept.get("grammar") == grammar else computed(grammar)


def computed(grammar: str) -> Tables:
    """Return the tables of a grammar as Lark computes them."""
    from lark import Lark  # noqa: PLC0415 - hardly ever needed

    return _extracted(Lark(grammar, **OPTIONS))


def _extracted(lark: "Lark") -> Tables:
    from lark.parsers.lalr_analysis import Shift  # noqa: PLC0415

    frontend: Any = lark.parser
    table = frontend.parser._parse_table  # noqa: SLF001
    rules = list(lark.rules)
    numbers = {rule: number for number, rule in enumerate(rules)}
    order = [terminal.name for terminal in frontend.lexer.root_lexer.terminals]
    columns = {name: column for column, name in enumerate([*order, END])}
    # Lark numbers the states as it comes upon them in sets; ours are numbered from the start on, always alike.
    ((_, start),) = table.start_states.items()
    ((_, end),) = table.end_states.items()
    states = [start]
    seen = {start: 0}
    actions: list[list[int]] = []
    gotos: list[dict[str, int]] = []
    for state in states:
        row, goto = [0] * len(columns), {}
        for name, (action, argument) in sorted(table.states[state].items()):
            if action is not Shift:
                row[columns[name]] = -numbers[argument] - 1
                continue
            if argument not in seen:
                seen[argument] = len(states)
                states.append(argument)
            if name in columns:
                row[columns[name]] = seen[argument] + 1
            else:
                goto[name] = seen[argument]
        actions.append(row)
        gotos.append(goto)
    patterns = {terminal.name: terminal.pattern.to_regexp() for terminal in lark.terminals}
    return Tables(
        [(name, patterns[name]) for name in order],
        sorted(lark.ignore_tokens),
        [(rule.origin.name, [part.name for part in rule.expansion]) for rule in rules],
        actions,
        gotos,
        0,
        seen[end],
    )


def serialized(grammar: str) -> bytes:
    """Return what the file has to hold for a grammar."""
    kept = {"grammar": grammar, "tables": computed(grammar)._asdict()}
    return json.dumps(kept, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def stored() -> bytes:
    """Return what the file holds; nothing if there is none."""
    return _FILE.read_bytes() if _FILE.is_file() else b""


def _read() -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(stored())
    except json.JSONDecodeError:
        return {}
    return kept


def write(grammar: str) -> None:
    """Write the file anew."""
    _FILE.write_bytes(serialized(grammar))
