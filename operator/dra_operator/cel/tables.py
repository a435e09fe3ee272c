"""Tables: the parser's, computed ahead.

Lark computes the tables of a grammar anew in each process, which takes longer than compiling a hundred expressions. So
they are kept beside this module in `tables.json`, under a digest of what they follow from: the grammar, Lark's version
and the options. If anything of that is different the tables are computed as ever, and a test says that the file is old.

    python -c "from dra_operator.cel import grammar, tables; tables.write(grammar.grammar())"    # writes it anew
"""

import json
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import lark
import orjson
from lark import Lark

_FILE = "tables.json"
_OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": "contextual",
    "start": "expr",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


def make_parser(grammar: str, transformer: Any) -> Lark:
    """Return the parser of a grammar; it hands what it reads to the transformer."""
    kept = _read()
    if kept.get("digest") != digest(grammar):
        return Lark(grammar, transformer=transformer, **_OPTIONS)
    # What Lark's own generator of stand-alone parsers calls; that its version is the same is part of the digest.
    data, memo = _restore(kept)
    return Lark._load_from_dict(data, memo, transformer=transformer)  # type: ignore[no-any-return,no-untyped-call] # noqa: SLF001


def tables(grammar: str) -> bytes:
    """Return what the file has to hold for a grammar."""
    data, memo = Lark(grammar, **_OPTIONS).memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    kept = {"digest": digest(grammar), "data": data, "memo": memo}
    return json.dumps(kept, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def digest(grammar: str) -> str:
    """Return a digest of all that the tables follow from."""
    return sha256(repr((grammar, lark.__version__, sorted(_OPTIONS.items()))).encode()).hexdigest()


def stored() -> bytes:
    """Return what the file holds; nothing if there is none."""
    file = resources.files(__package__).joinpath(_FILE)
    return file.read_bytes() if file.is_file() else b""


def _read() -> dict[str, Any]:
    try:
        kept: dict[str, Any] = orjson.loads(stored())
    except orjson.JSONDecodeError:
        return {}
    return kept


def _restore(kept: dict[str, Any]) -> tuple[Any, Any]:
    """Return data and memo as Lark wants them: JSON has made texts of the numbers that are keys."""
    table = kept["data"]["parser"]["parser"]
    table["tokens"] = _numbered(table["tokens"])
    table["states"] = {int(state): _numbered(actions) for state, actions in table["states"].items()}
    return kept["data"], _numbered(kept["memo"])


def _numbered(table: dict[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in table.items()}


def write(grammar: str) -> None:
    """Write the file anew."""
    Path(str(resources.files(__package__).joinpath(_FILE))).write_bytes(tables(grammar))
