"""Reading manifests as kubectl reads them."""

import errno
import gzip
import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from dra_operator.pods.objects import Manifest
from dra_operator.questions.manifests import Unreadable, read, to_yaml, write_yaml


@pytest.fixture
def found(tmp_path):
    """Return a function that writes a file and returns what is read of it."""

    def of(content, name="file.yaml"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return list(read([str(path)]))

    return of


def names(found):
    """Return the names of the objects, and what could not be read as None."""
    return [item.body["metadata"]["name"] if isinstance(item, Manifest) else None for item in found]


OBJECT = "kind: Node\nmetadata: {name: %s}\n"
LIST = {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": name}} for name in "ab"]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"---\n{OBJECT % 'a'}---\n{OBJECT % 'b'}", ["a", "b"]),
        (f"# a comment\n---\n---\n{OBJECT % 'a'}--- # done\n", ["a"]),
        (f"--- {{kind: Node, metadata: {{name: a}}}}\n---\n{OBJECT % 'b'}", ["a", "b"]),
        (json.dumps(LIST), ["a", "b"]),
        (yaml.safe_dump(LIST), ["a", "b"]),
        (json.dumps(LIST["items"][0]) + "\n" + json.dumps(LIST["items"][1]), ["a", "b"]),
        ("{kind: Node, metadata: {name: a}}", ["a"]),
        (gzip.compress(OBJECT.encode() % b"a"), ["a"]),
        ("\ufeff" + OBJECT % "a", ["a"]),
        ((OBJECT % "ä").encode("utf-16"), ["ä"]),
        (b"\xfe\xff" + (OBJECT % "a").encode("utf-16-be"), ["a"]),
        ("", []),
    ],
    ids=[
        "documents",
        "empty documents",
        "document on the line of its separator",
        "JSON list",
        "YAML list",
        "JSON objects one after the other",
        "YAML in flow style",
        "packed",
        "byte order mark",
        "UTF-16 as PowerShell writes it",
        "UTF-16 the other way round",
        "nothing",
    ],
)
def test_objects_of_a_file(found, content, expected):
    """Every object is found, however they are put together."""
    assert names(found(content)) == expected


def test_a_broken_document_leaves_the_others_alone(found):
    """A mistake is told with document and line, and what follows it is still read."""
    first, second, third = found(f"{OBJECT % 'a'}---\nkind: [Node\n---\n{OBJECT % 'b'}", "my.yaml")

    assert names([first, third]) == ["a", "b"]
    assert isinstance(second, Unreadable)
    assert "my.yaml, document 2: line 5: no YAML: " in second.message


@pytest.mark.parametrize(
    "text", ["{{- if .Values.on }}\nkind: Node\n{{- end }}\n", "metadata:\n  name: {{ $name }}\nkind: Node\n"]
)
def test_a_template_is_told_as_one(found, text):
    """What a chart is made of stands beside its manifests, and is no YAML before it is rendered."""
    (item,) = found(text)

    assert isinstance(item, Unreadable)
    assert item.message.endswith("; a template must be rendered first, as by helm template")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n- b\n", 'document 1 (line 1): ["a", "b"] is not an object'),
        ("just text", 'document 1 (line 1): "just text" is not an object'),
        ("kind: List\nitems: {a: b}\n", 'document 1 (line 1): List: items: {"a": "b"} is not a list'),
        ("kind: List\nitems: [1]\n", "document 1 (line 1), items[0]: 1 is not an object"),
        (b"kind: \xff", "byte 6 is not UTF-8"),
        (b"\xff\xfek\0\0\xd8", "byte 4 is not UTF-16"),
    ],
    ids=["sequence", "text", "items no list", "item no object", "not UTF-8", "not UTF-16"],
)
def test_what_is_no_object(found, content, message):
    """It is told where it stands and what it is."""
    (item,) = found(content)

    assert message in item.message


class TestAliases:
    """Documents that repeat parts of themselves."""

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("kind: Node\nmetadata: &m {name: a, labels: *m}\n", "has no end"),
            ("a: &a [*a]\n", "has no end"),
            (
                "".join(
                    f"{name}: &{name} [{', '.join(9 * ['*' + of])}]\n" for of, name in pairwise("xabcdefg")
                ).join(["x: &x [1]\n", "kind: Node\n"]),
                "its aliases stand for ",
            ),
        ],
        ids=["a map in itself", "a list in itself", "a list of lists of lists"],
    )
    def test_a_part_without_end_is_told(self, found, content, message):
        """Nothing walks through what is not all there, or more than there is memory for."""
        (item,) = found(content)

        assert message in item.message

    def test_the_documents_beside_it_are_read(self, found):
        """Only the document itself is refused."""
        first, second = found(f"metadata: &m {{labels: *m}}\n---\n{OBJECT % 'b'}")

        assert "has no end" in first.message
        assert names([second]) == ["b"]


class TestDepth:
    """Documents of many levels."""

    @pytest.mark.parametrize(
        "levels",
        [200, 900, 5000, 50_000],
        ids=["just too many", "many", "more than are read", "more than libyaml has stack for"],
    )
    @pytest.mark.parametrize("start", ["", "---\n"], ids=["JSON", "YAML"])
    def test_a_document_of_too_many_levels_is_told(self, found, start, levels):
        """Neither reading nor showing nor writing it runs out of stack."""
        (item,) = found(start + '{"a":' * levels + "[1]" + "}" * levels)

        assert "the document is nested too deeply: 200 levels are allowed" in item.message


def test_place_names_file_document_and_line(found):
    """Lines are those of the file, and comments above an object do not count."""
    _, second = found(f"{OBJECT % 'a'}---\n# about b\n{OBJECT % 'b'}", "my.yaml")

    assert str(second.place).endswith("my.yaml, document 2 (line 5)")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("1:30.5", "1:30.5"),
        ("=", "="),
        ("0x10", 16),
        ("0777", 511),
        ("0o17", 15),
        ("08", 8),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("1.", 1),
        ("yes", True),
        ("n", False),
        ("Y", True),
    ],
)
def test_values_are_kubectls(found, text, value):
    """Sexagesimal numbers, of which kubectl knows nothing, are text; what it knows is what it is for kubectl."""
    (item,) = found(f"value: {text}\n")

    assert (item.body["value"], type(item.body["value"])) == (value, type(value))


def test_folders_are_read_with_all_below(tmp_path):
    """Only files of manifests count, in the order of their names."""
    (tmp_path / "b").mkdir()
    for name in ("b/one.json", "a.yml", "c.yaml", "notes.md", "script.py"):
        (tmp_path / name).write_text(json.dumps({"metadata": {"name": name}}))

    assert names(read([str(tmp_path)])) == ["a.yml", "b/one.json", "c.yaml"]


@pytest.mark.parametrize(
    "value",
    [
        "1e3",
        "true",
        "2026-01-02T03:04:05Z",
        "12:30",
        "0x10",
        "two\nlines\n",
        "two\nlines",
        "",
        "null",
        "é",
        "1E2",
    ],
)
def test_what_is_written_is_read_again(found, value):
    """Texts stay texts, whatever they look like."""
    body = {"kind": "Node", "metadata": {"name": value}}

    (item,) = found(b"".join(write_yaml([body])))

    assert item.body == body


def test_parameters_that_were_carried_unread_are_written_as_others():
    """As far as they can be read."""
    carried = {"read": rb'{"a":"\u003c"}', "unread": rb'{"a":"\ud800"}'}

    assert to_yaml(carried) == "read:\n  a: <\nunread: {}\n"


def test_a_folder_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path, monkeypatch):
    """Who gets an answer about a part of the files must know that; root may read all, so the folder is only said to."""
    for name in ("a", "closed", "z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node.yaml").write_text(OBJECT % name)
    closed = tmp_path / "closed"
    scan = os.scandir

    def scandir(path):
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    told, *others = read([str(tmp_path)])

    assert told == Unreadable(f"{closed}: Permission denied")
    assert names(others) == ["a", "z"]
    assert list(read([str(closed)])) == [told]
