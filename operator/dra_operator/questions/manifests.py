"""Manifests: files in, objects as plain data out, each with the place it stands at; and the way back.

Read as kubectl reads them, so that a file means the same to both: documents are cut at `---` first, so that a
broken one leaves the others alone; lists are taken apart; times and sexagesimals are text, `n` is false and 08 a
number. JSON goes the quick way, since states of whole clusters come as JSON as well.
"""

import codecs
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from dra_operator.api.kinds import KINDS
from dra_operator.api.read import readable
from dra_operator.api.text import seconds_of, shown
from dra_operator.pods.objects import Manifest, Place
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.documents import (
    MOST_LEVELS,
    TOO_DEEP,
    UNREADABLE,
    find_problem,
    stdin,
    why,
)

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML built without libyaml is slower and otherwise the same
    from yaml import SafeLoader  # type: ignore[assignment]


class BoundedLoader(SafeLoader):
    """Reads YAML of so many levels. Raises RecursionError for more."""

    _levels = 0

    def descend_resolver(self, *_: object) -> None:
        """Go into a value, before it is read."""
        self._levels += 1
        # The innermost level may hold a value.
        if self._levels > MOST_LEVELS + 1:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Leave a value."""
        self._levels -= 1


try:
    from yaml import CSafeDumper as SafeDumper
except ImportError:  # PyYAML built without libyaml is slower and otherwise the same
    from yaml import SafeDumper  # type: ignore[assignment]

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz", ".json.gz")
"""What is read of a folder. A file that is named is read whatever it is called."""

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{-?\s*[.$\w]")
"""What a chart of Helm has in it before it is rendered, and YAML seldom."""
_VARIABLE = re.compile(r"\$\{\w")
"""What is filled in by a shell, envsubst or Flux."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_STRINGS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
# What kubectl's reader takes for more than a text, and PyYAML does not.
_LETTER = re.compile(r"[yYnN]$")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_OCTAL = re.compile(r"[-+]?0o[0-7]+$")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file or a document that cannot be read, and why, in one line."""

    message: str


Found: TypeAlias = Manifest | Unreadable
Source: TypeAlias = str | Path | Mapping[str, Any] | Iterable[str | Path | Mapping[str, Any] | Manifest]
"""Files and folders, or objects as mappings, or several of these; `-` is stdin."""


class _Loader(BoundedLoader):
    """Reads YAML as kubectl does: what looks like a time is text, one letter may be a bool."""

    bool_values = BoundedLoader.bool_values | {"y": True, "n": False}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's own
        """Return a map whose keys are text, as in JSON: {10: a} is {"10": a}, {yes: a} is {"true": a}."""
        read: dict[Any, Any] = super().construct_mapping(node, deep)
        if all(type(key) is str for key in read):
            return read
        return {json.dumps(key) if isinstance(key, bool | int) else key: each for key, each in read.items()}

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _STRINGS]
        for first, resolvers in BoundedLoader.yaml_implicit_resolvers.items()
    }


class _Dumper(SafeDumper):
    """Writes YAML as kubectl does: texts of several lines as blocks."""


def _int(loader: Any, node: Any) -> Any:
    if _SEXAGESIMAL.fullmatch(node.value):
        return node.value
    return int(node.value, 8) if _OCTAL.fullmatch(node.value) else loader.construct_yaml_int(node)


def _float(loader: Any, node: Any) -> Any:
    if _SEXAGESIMAL.fullmatch(node.value):
        return node.value
    number = loader.construct_yaml_float(node)
    # It becomes JSON, which knows one sort of numbers: 1e3 may stand where a whole number is wanted.
    return int(number) if number.is_integer() else number


_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)
_Dumper.add_representer(bytes, lambda dumper, value: dumper.represent_data(readable(value)))
# For both: kubectl takes 1e3 for a number and a request named n for false, so one writes them in quotes.
for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:bool", _LETTER, list("yYnN"))
    _side.add_implicit_resolver("tag:yaml.org,2002:int", _OCTAL, list("-+0"))
    _side.add_implicit_resolver("tag:yaml.org,2002:float", _DECIMAL, list("-+.0123456789"))


def read(paths: Iterable[str]) -> Iterator[Found]:
    """Yield every object of some files and folders, and what cannot be read; `-` is stdin, .gz is unpacked.

    Folders are read with all folders below, in the order of their names.
    """
    for path in paths:
        closed: list[OSError] = []
        files = _files(path, closed)
        for error in closed:
            yield Unreadable(f"{error.filename}: {why(error)}")
        if not files and not closed:
            yield Unreadable(f"{path}: no file in it ends in {', '.join(SUFFIXES[:3])}")
        for file in files:
            yield from _read_file(file)


def sort_found(found: Iterable[Found]) -> tuple[list[Manifest], list[str]]:
    """Return the objects among what was found, and lines about what cannot be read."""
    both = [*found]
    objects = [each for each in both if isinstance(each, Manifest)]
    return objects, [each.message for each in both if isinstance(each, Unreadable)]


def write_yaml(bodies: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield YAML documents, one for each object, keys sorted."""
    for body in bodies:
        yield b"---\n" + to_yaml(body).encode()


def to_yaml(value: Any) -> str:
    """Return a value as YAML, keys sorted, nothing wrapped."""
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, width=10**6, default_flow_style=False)
    return text


def _files(path: str, closed: list[OSError]) -> Sequence[str]:
    """Return the files of a path in the order of their names; folders that cannot be read go into `closed`."""
    try:
        if path == STDIN or not Path(path).is_dir():
            return [path]
    except OSError as error:
        closed.append(error)
        return []
    walked = os.walk(path, onerror=closed.append)
    files = sorted(Path(folder, name) for folder, _, names in walked for name in names)
    return [str(file) for file in files if file.name.endswith(SUFFIXES) and file.is_file()]


def _read_file(file: str) -> Iterator[Found]:
    name = "stdin" if file == STDIN else file
    try:
        content = _content(file)
        # PowerShell writes UTF-16, with a mark that says so, and kubectl reads it.
        encoding = "UTF-16" if content.startswith(_UTF16) else "UTF-8"
        text = content.decode(encoding).removeprefix("\ufeff")
    except UNREADABLE as error:
        yield Unreadable(f"{name}: {why(error)}")
        return
    except UnicodeDecodeError as error:
        yield Unreadable(f"{name}: byte {error.start} is not {encoding}")
        return
    try:
        values = _json_values(text)
    except RecursionError:
        yield Unreadable(f"{name}: {TOO_DEEP}")
        return
    if values is None:
        yield from _yaml_objects(name, text)
        return
    for number, (line, value) in enumerate(values, 1):
        # JSON has no aliases, and texts with stars.
        yield from _within_bounds(Place(name, number, line), value, "")


def _content(file: str) -> bytes:
    content = stdin().read() if file == STDIN else Path(file).read_bytes()
    # By what it is, not by its name: a pipe has none.
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _json_values(text: str) -> list[tuple[int, Any]] | None:
    """Return the JSON values that a text is made of, with the lines they begin at; None if it is something else.

    Raises RecursionError if one is nested too deeply.
    """
    if not text.lstrip().startswith("{"):
        return None
    values: list[tuple[int, Any]] = []
    decoder, position, line, counted = json.JSONDecoder(), 0, 1, 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            return values
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            # It may still be YAML, whose flow style begins alike.
            return None
        values.append((line, value))


def _yaml_objects(name: str, text: str) -> Iterator[Found]:
    number, offset = 0, 0
    for document in _SEPARATOR.split(text):
        try:
            value = yaml.load(document, Loader=_Loader)  # noqa: S506 - derived from the safe one
        except yaml.YAMLError as error:
            number += 1
            yield Unreadable(f"{name}, document {number}: {_problem(error, offset)}{template_hint(document)}")
        except (RecursionError, ValueError, OverflowError) as error:
            number += 1
            problem = TOO_DEEP if isinstance(error, RecursionError) else f"not understood: {error}"
            yield Unreadable(f"{name}, document {number}: {problem}")
        else:
            if value is not None:
                number += 1
                place = Place(name, number, offset + _first_line(document))
                yield from _within_bounds(place, value, document)
        offset += document.count("\n")


def template_hint(text: object) -> str:
    """Return what to do about a text that is still to be filled in, or nothing."""
    if isinstance(text, str) and _TEMPLATE.search(text):
        return "; a template must be rendered first, as by helm template"
    if isinstance(text, str) and _VARIABLE.search(text):
        return "; variables must be filled in first, as by envsubst"
    return ""


def _within_bounds(place: Place, value: Any, text: str) -> Iterator[Found]:
    problem = find_problem(value, text)
    if problem is None:
        yield from find_objects(place, value)
    else:
        yield Unreadable(f"{place}: {problem}")


def _first_line(document: str) -> int:
    """Return the number of the first line that says something, from 1."""
    for number, line in enumerate(document.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return number
    return 1


def _problem(error: yaml.YAMLError, offset: int) -> str:
    mark = getattr(error, "problem_mark", None)
    text = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"no YAML: {text}" if mark is None else f"line {mark.line + 1 + offset}: no YAML: {text}"


def read_source(source: Source) -> Iterable[Found]:
    """Yield the objects of files and folders, and those that are given as mappings. Raises QuestionError."""
    items = (
        [source] if isinstance(source, str | Path | Mapping) or not isinstance(source, Iterable) else source
    )
    for number, item in enumerate(items, 1):
        if isinstance(item, Manifest):
            yield item
        elif isinstance(item, Mapping):
            yield from find_objects(Place("", number, 0), item)
        elif isinstance(item, str | Path):
            yield from read([str(item)])
        else:
            raise QuestionError(f"object {number}: {shown(item)} is neither a mapping nor the path of a file")


def find_objects(place: Place, value: Any) -> Iterator[Found]:
    """Yield the object a document holds, or the items of the list that it is."""
    if not isinstance(value, Mapping):
        yield Unreadable(f"{place}: {shown(value)} is not an object")
        return
    kind, items = value.get("kind"), value.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in value:
        yield Manifest(place, value)
        return
    if not isinstance(items, list | None):
        yield Unreadable(f"{place}: {kind}: items: {shown(items)} is not a list")
        return
    # The items of a typed list, as the API server sends it, do not repeat what they are.
    given = {"kind": kind[:-4], "apiVersion": value.get("apiVersion")} if kind[:-4] in KINDS else {}
    for number, item in enumerate(items or ()):
        if isinstance(item, Mapping):
            yield from find_objects(replace(place, item=number), {**given, **item})
        else:
            yield Unreadable(f"{replace(place, item=number)}: {shown(item)} is not an object")


TITLE: Final = "# dra-operator snapshot"
"""The first line."""
_TAKEN: Final = "# taken: "
_KUBERNETES: Final = "# kubernetes: "
_UNREAD: Final = "# not read: "
_MOST_LINE: Final = 1000


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """When a snapshot was taken, in seconds since 1970, and why kinds could not be read, by kind.

    `kubernetes` is the version of the API server, as `v1.38.0`; empty if it is not known.
    """

    taken: float
    unread: Mapping[str, str] = field(default_factory=dict)
    kubernetes: str = ""

    @property
    def time(self) -> str:
        """When it was taken, as Kubernetes writes times."""
        return datetime.fromtimestamp(int(self.taken), UTC).isoformat().replace("+00:00", "Z")


def write_header(header: SnapshotHeader) -> bytes:
    """Return the first lines of a snapshot."""
    unread = [f"{_UNREAD}{kind}: {' '.join(why.split())}" for kind, why in header.unread.items()]
    version = [f"{_KUBERNETES}{header.kubernetes}"] if header.kubernetes else []
    return "".join(f"{line}\n" for line in [TITLE, f"{_TAKEN}{header.time}", *version, *unread]).encode()


def read_header(path: str | Path) -> SnapshotHeader | None:
    """Return the header of a file; None if it has none, or cannot be read."""
    taken, unread, kubernetes = None, {}, ""
    try:
        for line in _first_lines(path):
            if line.startswith(_TAKEN):
                taken = seconds_of(line.removeprefix(_TAKEN).strip())
            elif line.startswith(_KUBERNETES):
                kubernetes = line.removeprefix(_KUBERNETES).strip()
            elif line.startswith(_UNREAD):
                kind, _, why = line.removeprefix(_UNREAD).partition(": ")
                unread[kind] = why.strip()
    except (OSError, EOFError, zlib.error):
        return None
    return None if taken is None else SnapshotHeader(taken, unread, kubernetes)


def _first_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines before the first object, if they are those of a snapshot."""
    with Path(path).open("rb") as packed:
        is_packed = packed.read(2) == b"\x1f\x8b"
        packed.seek(0)
        with gzip.open(packed) if is_packed else packed as file:
            line = file.readline(_MOST_LINE)
            if line.decode(errors="replace").rstrip() != TITLE:
                return
            while (line := file.readline(_MOST_LINE)).startswith(b"#"):
                yield line.decode(errors="replace")


def find_header(source: object) -> SnapshotHeader | None:
    """Return the header of a file, or of the first among several sources that has one; None if none has."""
    if isinstance(source, str | Path):
        return None if source == "-" else read_header(source)
    items = source if isinstance(source, list | tuple) else ()
    return next((found for each in items if (found := find_header(each)) is not None), None)
