"""Findings as SARIF, the format of code scanning: file, line, and what to do.

Source: Static Analysis Results Interchange Format 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import orjson
import yaml

from dra_operator._version import __version__
from dra_operator.pods.objects import Place
from dra_operator.questions.documents import UNREADABLE
from dra_operator.questions.manifests import BoundedLoader

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MESSAGE: Final = re.compile(
    r"(?P<file>.+?)(?:, document \d+(?: \(line (?P<line>\d+)\))?(?:, items\[(?P<item>\d+)\])?)?: "
    r'(?:line (?P<own>\d+): |(?:\w+ "[^"]*": )?(?P<field>\w+[.\[][^ :]*): )?'
)
"""What stands before a problem of a file: place and field. Source: `Place.__str__`."""
_STEP: Final = re.compile(r"\[(\d+)\]|[^.\[\]]+")
_SEPARATOR: Final = re.compile(r"---(?=\s|$)")


Location: TypeAlias = tuple[str, int]
"""A file, and a line of it from 1."""


def sarif_result(
    rule: str, level: str, message: str, location: Location | None, subject: str = ""
) -> dict[str, Any]:
    """Return one finding as an object of SARIF: `error`, `warning` or `note`, and where.

    `subject` is the name of an object, which may be in no file.
    """
    where: dict[str, Any] = {}
    if location is not None:
        path = Path(location[0])
        uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
        region = {"startLine": location[1]}
        where["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": region}
    if subject:
        where["logicalLocations"] = [{"fullyQualifiedName": subject, "kind": "object"}]
    found = {"ruleId": rule, "level": level, "message": {"text": message}}
    return {**found, "locations": [where]} if where else found


def sarif_text(results: Sequence[Mapping[str, Any]]) -> str:
    """Return some findings as a SARIF file."""
    rules = [{"id": rule} for rule in sorted({each["ruleId"] for each in results})]
    tool = {"driver": {"name": "kubectl-dra", "semanticVersion": __version__, "rules": rules}}
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}
    return orjson.dumps(log, option=orjson.OPT_INDENT_2).decode()


def find_location(place: Place, field: str = "") -> Location | None:
    """Return where a field of an object stands, or what of its path is there; None for what is in no file."""
    if not place.file:
        return None
    items = "" if place.item is None else f"items[{place.item}]."
    return place.file, _find_line(place.file, place.line, f"{items}{field}")


def find_message_location(message: str) -> Location | None:
    """Return where the line that says what cannot be read of a file has the problem."""
    found = _MESSAGE.match(message)
    if found is None:
        return None
    if found["own"] or not found["line"]:
        return found["file"], int(found["own"] or 1)
    item = None if found["item"] is None else int(found["item"])
    return find_location(Place(found["file"], 0, int(found["line"]), item), found["field"] or "")


def _find_line(file: str, first: int, path: str) -> int:
    """Return the line of a field in the document that begins at a line, or of the last step to it that is there."""
    if not path:
        return first
    try:
        node = yaml.compose(_read_document(file, first), Loader=BoundedLoader)
    except (*UNREADABLE, UnicodeDecodeError, RecursionError, yaml.YAMLError):
        return first
    line = 0
    for step in _STEP.finditer(path):
        match node:
            case yaml.SequenceNode(value=values) if step[1] and int(step[1]) < len(values):
                node = values[int(step[1])]
                line = node.start_mark.line
            case yaml.MappingNode(value=pairs):
                pair = next((each for each in pairs if each[0].value == step[0]), None)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line, pair[1]
            case _:
                break
    return first + line


def _read_document(file: str, first: int) -> str:
    """Return the document of a file that begins at a line. Raises OSError, UnicodeDecodeError."""
    begin, *others = _read_lines(file)[first - 1 :] or [""]
    rest = takewhile(lambda line: not _SEPARATOR.match(line), others)
    return begin.removeprefix("---") + "".join(rest)


@lru_cache(maxsize=1)
def _read_lines(file: str) -> list[str]:
    """Return the lines of a file: findings come file by file, and there may be many in one."""
    return Path(file).read_text(encoding="utf-8").splitlines(keepends=True)
