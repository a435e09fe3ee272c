"""`dra-operator cel`: what it prints and returns."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.cel import CelError, Environment, compile_program
from dra_operator.cli.cel import app, plain, refusal, show, verdict

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


def test_eval_says_of_wrong_types_what_they_are(run, tmp_path):
    """As the reason of a claim does: which operator it is about is not known any more."""
    file = tmp_path / "slices.yaml"
    file.write_text(SLICE)

    result = run("eval", "--slices", file, "device.attributes['d'].model >= 100")

    assert result.stdout.startswith('error    d/p/a  no such overload; here model is string "h100"\n')


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


def test_eval_reads_lists_without_a_kind(run, tmp_path):
    """The items, and the list, may leave out what they are."""
    body = {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "a"}]},
    }
    file = tmp_path / "slices.json"
    file.write_text(json.dumps({"items": [body, {"kind": "ConfigMap"}]}))

    assert run("eval", "--slices", file, "true").stdout == "match    d/p/a\n"


def test_eval_says_that_there_is_no_slice(run, tmp_path):
    """Or one would take it for a selector that takes nothing."""
    file = tmp_path / "slices.yaml"
    file.write_text("kind: ConfigMap\n---\nreplicas: 1\n")

    result = run("eval", "--slices", file, "true")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"note: {file}: no ResourceSlice in it\n0 match, 0 no match, 0 error\n"


def test_an_argument_that_is_not_utf_8_is_refused(run):
    """As a file is; a shell can hand on any bytes."""
    for command in (["check"], ["eval", "--slices", "nowhere"]):
        result = run(*command, '"é\udcff" + 1')

        assert result.exit_code == 2
        assert result.stderr == "error: the expression: byte 3 is not UTF-8\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"'\xff' == 'a'", "byte 1 is not UTF-8"),
    ],
)
def test_check_says_why_a_file_cannot_be_read(run, tmp_path, content, message):
    """The name once, then why."""
    file = tmp_path / "selector.cel"
    if content is not None:
        file.write_bytes(content)

    result = run("check", "-f", file)

    assert (result.exit_code, result.stderr) == (2, f"error: {file}: {message}\n")


def test_a_mark_of_the_encoding_is_no_part_of_an_expression(run, tmp_path):
    """Some editors put one first."""
    file = tmp_path / "selector.cel"
    file.write_bytes(b"\xef\xbb\xbftrue")

    assert run("check", "-f", file).exit_code == 0


def test_an_expression_that_begins_with_a_minus_needs_help(run):
    """Or else it is an option."""
    result = run("check", "-1 == 1")

    assert result.exit_code == 2
    assert "-- '-1 == 1'" in result.stderr
    assert run("check", "--", "-1 == 1").exit_code == 0
    assert "-- '" not in run("check", "--neww", "true").stderr


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
ANY_CODE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def found():
    """Return a function from an expression to what there is to say of it."""

    def of(text):
        try:
            return verdict(text, compile_program(text), Environment())
        except CelError as error:
            return refusal(text, error, Environment())

    return of


@pytest.fixture
def shown(found, monkeypatch, capsys):
    """Return a function from an expression to what a terminal of 100 columns gets, escape codes included."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")

    def of(text):
        show(found(text))
        return capsys.readouterr().out

    return of


@pytest.fixture
def at_terminal():
    """Return a function that runs the command at a pseudo-terminal and returns what that gets."""

    def run(*arguments, **environment):
        keep = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        main, end = pty.openpty()
        code = "from dra_operator.cli import main; main()"
        try:
            subprocess.run(
                [sys.executable, "-c", code, "cel", "check", *arguments],
                stdout=end,
                env=keep | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
                check=False,
            )
            return os.read(main, 10_000).decode()
        finally:
            os.close(main)
            os.close(end)

    return run


@pytest.mark.parametrize("columns", ["0", "1"])
def test_a_terminal_without_a_width_gets_everything(at_terminal, columns):
    """Some programs that run others give none, or a useless one."""
    lines = ANY_CODE.sub("", at_terminal("true", COLUMNS=columns)).split("\r\n")

    assert lines[0] == "type   bool"


def test_a_text_that_is_no_quantity_is_a_problem(found):
    """It compiles, and the API server takes it; on every device that comes so far it fails."""
    told = found('device.capacity["d"].m.isLessThan(quantity("40GB")) || semver("1.0.0").major() > 1')
    (line,) = plain(told)[3:]

    assert line.startswith(
        'it fails wherever this is evaluated: quantity("40GB") is no quantity; write one as'
    )


def test_a_terminal_gets_colours_and_the_share_of_the_limit(shown):
    """Cheap is green, what it reads is named."""
    text = shown("device.driver == 'a'")

    assert COLOUR.search(text)
    assert ANY_CODE.sub("", text).splitlines() == [
        "type   bool",
        "cost   3 at most, 0.0% of 1,000,000",
        "reads  driver",
    ]


@pytest.mark.parametrize(
    ("text", "colour", "told"),
    [
        ("device.driver == 'a'", "32", "0.0%"),
        ("lists.range(500000) == []", "33", "50.0%"),
        ("lists.range(2000000) == []", "31", "200.0%"),
        ("device.attributes['d'].a.exists(x, x.matches('a+'))", "31", "times"),
    ],
)
def test_the_cost_is_green_yellow_or_red(shown, text, colour, told):
    """By its share of what the API server admits."""
    line = shown(text).splitlines()[1]

    assert f"{colour}m" in line
    assert told in ANY_CODE.sub("", line)


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


def test_wide_characters_do_not_move_the_caret(shown):
    """It is placed by columns of the terminal."""
    lines = ANY_CODE.sub("", shown("'\u5b57' + device.drivr")).splitlines()

    assert lines[2].index("^") == len(" | '??' + device")


def test_nothing_that_a_terminal_would_obey_is_shown(shown):
    """An expression from a file may hold anything."""
    text = shown("'\x1b[2J' +\t$")

    assert "\x1b[2J" not in text
    assert "\t" not in text


def test_the_command_is_in_colour_at_a_terminal(at_terminal):
    """It finds out by itself."""
    text = at_terminal("device.driver == 'a'")

    assert COLOUR.search(text)
    assert "of 1,000,000" in text


def test_no_color_is_respected(at_terminal):
    """No colours, but the same words."""
    text = at_terminal("device.driver == 'a'", NO_COLOR="1")

    assert not COLOUR.search(text)
    assert "0.0% of 1,000,000" in ANY_CODE.sub("", text)


def test_plain_lines_have_neither_colour_nor_share(found):
    """They are what scripts read."""
    assert plain(found("device.driver == 'a'")) == ["type   bool", "cost   3 at most", "reads  driver"]


def test_a_terminal_gets_the_part_of_a_wide_line_that_is_wrong(shown):
    """Each line fits, and the caret stands below the place."""
    lines = ANY_CODE.sub("", shown(f"'{'a' * 500}' == device.drivr || '{'b' * 500}' == ''")).splitlines()

    assert max(map(len, lines)) <= 100
    assert lines[1][lines[2].index("^") :].startswith(".drivr")


@pytest.mark.parametrize("text", ['"\udcff" + 1', "'\ud800' == device.drivr", "'\udcff' == device.driver"])
def test_what_is_no_unicode_can_be_shown(found, shown, text):
    """A surrogate would end in an error of the stream."""
    assert shown(text)
    assert "\n".join(plain(found(text))).encode()


def test_plain_lines_hold_nothing_that_a_terminal_would_obey(found):
    """They may be read there all the same."""
    for text in ("'\x1b[2J' +\t$", "device.attributes['\x1b[2J'].a == 1", "true '\x1b'"):
        assert "\x1b" not in "\n".join(plain(found(text)))


def test_a_long_expression_that_is_wrong_is_both(found, shown):
    """Whoever mends the one should not be told of the other afterwards."""
    text = f"device.drivr == '{'a' * 11000}'"
    long = "11,018 bytes are more than the 10,240 that the API server admits"

    assert plain(found(text))[1:] == ['did you mean "driver"?', long]
    assert ANY_CODE.sub("", shown(text)).splitlines()[-2:] == ['did you mean "driver"?', long]


TOKENS = (
    *("device", ".driver", "'a'", '"', "'", "[", "]", "(", ")", "{", "}", "?", ":", ",", "`", "-", "!"),
    *("=", "==", "&", "|", "\\q"),
    *(" and ", "not ", "in ", "if ", "exists(x, ", "x", "has(", "cel.bind(", "duration('x')", "'a'.matches('[')", "r'"),
    *("1", "1.0", "\n", "\r\n", "\u00e9", "\u5b57", "\x1b", "\udcff", "\ud800\udc00", "// c", '"""'),
)  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=9).map("".join))
def test_there_is_something_to_say_of_any_text(text):
    """In lines that a stream takes and a terminal shows."""
    try:
        found = verdict(text, compile_program(text), Environment())
    except CelError as error:
        found = refusal(text, error, Environment())

    assert all(part.isprintable() for line in plain(found) for part in line.split("\n"))
