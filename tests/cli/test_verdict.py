"""What `cel check` shows at a terminal, and what it prints elsewhere."""

import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel import CelError, Environment, compile_program
from dra_operator.cli.cel import plain, refusal, show, verdict

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
