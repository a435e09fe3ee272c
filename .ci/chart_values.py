"""Writes the table of values into the README of the chart, from the comments of its values.yaml: `.ci/chart_values.py`.

With `--check` it writes nothing, and ends with 1 where the table is another.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[1] / "charts" / "dra-operator"
BEGIN: Final = "<!-- values, written by .ci/chart_values.py -->\n"
END: Final = "<!-- end of values -->\n"
_FIELD: Final = re.compile(r"( *)([A-Za-z][\w./-]*):")


def table() -> str:
    """Return one row for each value: its path, its default, what the comment above it says.

    A map with a comment is one row, one without stands for its fields. Raises KeyError for a value without a comment.
    """
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    rows = _rows(yaml.safe_load(text), _comments(text))
    return "\n".join(["| value | default | what it does |", "|---|---|---|", *rows, ""])


def _comments(text: str) -> dict[str, str]:
    """Return the comment right above each field, by its path."""
    found: dict[str, str] = {}
    comment: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip(" #"))
            continue
        if field := _FIELD.match(line):
            path[len(field[1]) // 2 :] = [field[2]]
            if comment:
                found[".".join(path)] = " ".join(comment)
        comment = []
    return found


def _rows(values: Mapping[str, Any], comments: Mapping[str, str], prefix: str = "") -> Iterator[str]:
    """Yield the rows of a map and of the maps in it."""
    for name, default in values.items():
        path = prefix + name
        if path not in comments and isinstance(default, dict) and default:
            yield from _rows(default, comments, f"{path}.")
        else:
            yield f"| `{path}` | `{json.dumps(default)}` | {comments[path]} |"


def main() -> int:
    """Write the table, or tell whether it is there."""
    readme = CHART / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        return int(text != wanted)
    readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
