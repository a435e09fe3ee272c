"""Writes the pages of reference that are made from the code: fields of our kinds, and options of `kubectl dra`.

`make reference` writes them into `docs/`; a test compares. Settings, versions and the chart's values have programs of
their own, which it runs too.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from dra_operator.cli.kubectl.commands import app

ROOT = Path(__file__).parents[1]
MADE = "Made by `make reference`"


def main() -> int:
    """Write the pages; return the exit code."""
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return the text of each page, by its name in `docs/`."""
    return {"kinds-fields.md": kinds(), "kubectl-options.md": verbs()}


def kinds() -> str:
    """Return the page of the fields of each kind, from their definitions."""
    lines = [
        "# Fields of our kinds",
        "",
        f"{MADE} from `crds/`. What they are for: [Kinds of our own](kinds.md).",
        "",
    ]
    for path in sorted((ROOT / "crds").glob("*/*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document.get("kind") != "CustomResourceDefinition":
                continue
            spec = document["spec"]
            lines += [f"## {spec['names']['kind']}", "", "| field | type | meaning |", "|---|---|---|"]
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]["properties"]
                lines += [
                    row for part in ("spec", "status") if part in schema for row in _rows(part, schema[part])
                ]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _rows(path: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each field of an object, those within it behind it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner = field.get("items", field)
        here = f"{path}.{name}{'[]' if 'items' in field else ''}"
        kind = (
            " or ".join(f"`{each}`" for each in field["enum"])
            if "enum" in field
            else inner.get("type", "any")
        )
        if "default" in field:
            kind += f", default `{field['default']}`"
        if name in required:
            kind += ", required"
        yield f"| `{here}` | {kind} | {_cell(field.get('description', ''))} |"
        yield from _rows(here, inner)


def verbs() -> str:
    """Return the page of the options of each verb of `kubectl dra`, those of all of them once."""
    commands = {
        name: app.get_command(click.Context(app), name) for name in app.list_commands(click.Context(app))
    }
    options = {
        name: {_option(param): _cell(getattr(param, "help", "") or "") for param in command.params}
        for name, command in commands.items()
        if command
    }
    seen = Counter(
        (key, text) for each in options.values() for key, text in each.items() if key.startswith("`-")
    )
    shared = [each for each, times in seen.items() if times > len(options) // 2]
    lines = [
        "# Options of kubectl dra",
        "",
        f"{MADE} from the commands. What they answer: [kubectl dra](kubectl.md).",
        "",
    ]
    lines += ["## Of most verbs", "", *_table(shared)]
    for name, each in options.items():
        command = commands[name]
        assert command is not None
        summary = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        lines += [f"## {name}", "", summary, ""]
        own = [pair for pair in each.items() if pair not in shared and pair[0] != "`--help`"]
        lines += _table(own) if own else []
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| option | meaning |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows), ""]


def _option(param: click.Parameter) -> str:
    """Return how a parameter is given."""
    if isinstance(param, click.Argument):
        return f"`{param.make_metavar(click.Context(click.Command('')))}`"
    return ", ".join(f"`{name}`" for name in param.opts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
