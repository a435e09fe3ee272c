"""`dra-operator cel`: what it prints and returns."""

import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program
from dra_operator.cel.types.environment import Environment
from dra_operator.cli.cel import app, refusal, verdict

SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d
  nodeName: node-1
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: a, attributes: {model: {string: h100}}}
  - {name: b, attributes: {model: {string: a100}}}
  - {name: c}
---
apiVersion: v1
kind: ConfigMap
"""


@pytest.fixture
def run():
    """Return a function that runs `cel` with arguments."""
    runner = CliRunner()
    return lambda *arguments, **more: runner.invoke(app, list(map(str, arguments)), **more)


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMED = ("ConsumableCapacity", "match", "value", "valueType", "error", "a", "d/a", "int", "string", "strings")
FIELDS = st.dictionaries(st.sampled_from(NAMED), ANY_JSON, max_size=2)
DEVICE = st.fixed_dictionaries(
    {},
    optional={
        name: ANY_JSON | st.dictionaries(st.sampled_from(NAMED), ANY_JSON | FIELDS, max_size=2)
        for name in (
            "name",
            "driver",
            "attributes",
            "capacity",
            "allowMultipleAllocations",
            "taints",
            "basic",
        )
    },
)


def test_check_says_type_and_cost(run):
    """An expression that compiles is described."""
    result = run("check", "device.attributes['d'].a == 1")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["type   bool", "cost   5 at most", "reads  attributes/d/a"]


def test_check_shows_the_place_of_an_error(run):
    """An expression that does not compile is shown with a caret and a suggestion."""
    result = run("check", "device.drivr == 'a'")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        'error  1:7: device has no field "drivr"',
        " | device.drivr == 'a'",
        " | ......^",
        'did you mean "driver"?',
    ]


def test_check_asks_the_rules_of_another_version(run):
    """`--kubernetes` and `--new` choose whose rules."""
    expression = "device.attributes['d'].`a` == 1"

    assert run("check", expression).exit_code == 0
    assert run("check", "--kubernetes", "1.36", expression).exit_code == 1


def test_check_refuses_what_the_api_server_would(run):
    """Too costly, or of the wrong type, is exit 1 with the reason."""
    costly = run("check", "lists.range(2000000) == []")
    wrong = run("check", "1 + 1")

    assert (costly.exit_code, wrong.exit_code) == (1, 1)
    assert "too complex" in costly.stdout
    assert "must be of type bool" in wrong.stdout


@pytest.mark.parametrize(
    ("expression", "code"),
    [("['a']", 0), ("device.driver", 0), ("1.5", 1), ("quantity('1')", 1), ("lists.range(2000000)[0]", 1)],
)
def test_check_knows_what_a_derived_attribute_may_be(run, expression, code):
    """Any value of an attribute, within the same cost."""
    assert run("check", "--derived", expression).exit_code == code
    assert run("check", expression).exit_code == 1


def test_check_reads_a_file(run, tmp_path):
    """With -f the expression is read from a file; both or neither is wrong usage."""
    file = tmp_path / "selector.cel"
    file.write_text("true")

    assert run("check", "-f", file).exit_code == 0
    assert run("check").exit_code == 2
    assert run("check", "true", "-f", file).exit_code == 2


def test_eval_says_which_devices_match(run, tmp_path):
    """Each device is named with match, no match or the error and what to do about it."""
    file = tmp_path / "slices.yaml"
    file.write_text(SLICE)

    result = run("eval", "--slices", file, "device.attributes['d'].model == 'h100'")

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[:2] == ["match    d/p/a", "no match d/p/b"]
    assert lines[2].startswith("error    d/p/c  no such key: model; this device has no attributes; guard")
    assert result.stderr == "1 match, 1 no match, 1 error\n"


def test_eval_says_each_error_once(run, tmp_path):
    """Slices of other drivers have thousands of devices on which a selector fails alike."""
    file = tmp_path / "slices.yaml"
    file.write_text(SLICE + "---\n" + SLICE.replace("driver: d", "driver: e"))

    result = run("eval", "--slices", file, "device.attributes['d'].model == 'h100'")

    third, fourth, fifth, sixth = result.stdout.splitlines()[2:]
    assert third.startswith("error    d/p/c  no such key: model; this device has no attributes; guard")
    assert fourth.startswith("error    e/p/a  no such key: model; this device has nothing in domain d")
    assert (fifth, sixth) == ("error    e/p/b  as on e/p/a", "error    e/p/c  as on d/p/c")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("items: 5", "slices.yaml, document 1 (line 1): ResourceSliceList: items: 5 is not a list"),
        ("items: [5]", "slices.yaml, document 1 (line 1), items[0]: 5 is not an object"),
        ("[1, 2]", "slices.yaml, document 1 (line 1): [1, 2] is not an object"),
        ("---\n---\nhello", 'slices.yaml, document 1 (line 3): "hello" is not an object'),
        ("kind: ResourceSlice\nspec: 5", "slices.yaml, document 1 (line 1): ResourceSlice: spec: 5 is"),
        (
            "kind: ResourceSlice\nmetadata: 5",
            "slices.yaml, document 1 (line 1): ResourceSlice: metadata: 5 is",
        ),
        ("a: [", "slices.yaml, document 1: line 2: no YAML"),
    ],
)
def test_eval_says_what_is_wrong_with_a_file(run, tmp_path, content, message):
    """With the file and the document; the exit is 2."""
    file = tmp_path / "slices.yaml"
    file.write_text(content)

    result = run("eval", "--slices", file, "true")

    assert result.exit_code == 2
    assert message in result.stderr


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    ANY_JSON
    | st.fixed_dictionaries(
        {"metadata": ANY_JSON, "spec": ANY_JSON | DEVICE},
        optional=dict.fromkeys(("kind", "apiVersion", "items"), ANY_JSON | st.just("ResourceSlice")),
    )
    | DEVICE.map(
        lambda device: {
            "metadata": {},
            "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "a", **device}]},
        }
    )
)
def test_eval_reads_any_json(run, document):
    """Or says why it cannot."""
    result = run("eval", "--slices", "-", "device.attributes['d'].a == 1", input=json.dumps(document))

    assert isinstance(result.exception, SystemExit | None), result.exception
    assert result.stderr


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
ANY_CODE = re.compile(r"\x1b\[[0-9;]*m")


def lines_about(text, width=None):
    """Return what there is to say of an expression."""
    try:
        return verdict(text, compile_program(text), Environment(), width)[0]
    except CelError as error:
        return refusal(text, error, Environment(), width)


@pytest.fixture
def shown():
    """Return a function from an expression to what a terminal of 100 columns gets, escape codes included."""
    return lambda text: "\n".join(lines_about(text, 100))


def test_a_terminal_gets_colours_and_the_share_of_the_limit(shown):
    """Cheap is green, what it reads is named."""
    text = shown("device.driver == 'a'")

    assert COLOUR.search(text)
    assert ANY_CODE.sub("", text).splitlines() == [
        "type   bool",
        "cost   3 at most, 0.0% of 1,000,000",
        "reads  driver",
    ]


def test_an_error_is_marked_in_its_line(shown):
    """With a caret under it, and advice."""
    text = shown("true &&\n device.drivr == 'a'")

    assert re.search(r"\x1b\[[0-9;]*4[0-9;]*m\.", text), "the wrong part is underlined"
    assert ANY_CODE.sub("", text).splitlines() == [
        'error  2:8: device has no field "drivr"',
        " |  device.drivr == 'a'",
        " |        ^",
        'did you mean "driver"?',
    ]


def test_nothing_that_a_terminal_would_obey_is_shown(shown):
    """An expression from a file may hold anything."""
    text = shown("'\x1b[2J' +\t$")

    assert "\x1b[2J" not in text
    assert "\t" not in text


TOKENS = (
    *("device", ".driver", "'a'", '"', "'", "[", "]", "(", ")", "{", "}", "?", ":", ",", "`", "-", "!"),
    *("=", "==", "&", "|", "\\q"),
    *(" and ", "not ", "in ", "if ", "exists(x, ", "x", "has(", "cel.bind(", "duration('x')", "'a'.matches('[')", "r'"),
    *("1", "1.0", "\n", "\r\n", "\u00e9", "\u5b57", "\x1b", "\udcff", "\ud800\udc00", "// c", '"""'),
)  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=9).map("".join))
def test_there_is_something_to_say_of_any_text(text):
    """In lines that a stream takes and a terminal shows."""
    found = [ANY_CODE.sub("", line) for line in lines_about(text)]

    assert all(part.isprintable() for line in found for part in line.split("\n"))
