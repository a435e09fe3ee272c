"""Templates: what is compiled by one gives the answers of what is compiled by itself."""

import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celfuzz import Expressions
from celfuzz.expressions import CORPUS, reference_expressions
from celfuzz.judge import interpreted
from dra_operator.cel import STORED, CelError, Environment, PreparedDevice, Selector, program
from dra_operator.cel.program import selector_by
from dra_operator.cel.templates import Templates

REFERENCE = Path(__file__).parents[2] / "../shared/data/cel"
DRA = 'device.attributes["dra.example.com"]'
MEMORY = 'device.capacity["dra.example.com"].memory'
LITERAL = re.compile(r""""[^"\\]*"|'[^'\\]*'|\b[0-9]+\b""")
SHAPES = (
    "device.driver == {}",
    "{} != device.driver",
    f"{DRA}.model == {{}}",
    f"{DRA}.model == {{}} && {DRA}.index > {{}}",
    f"{DRA}.index <= {{}} || !({DRA}.nope == {{}})",
    f"{DRA}.model.startsWith({{}}) || {DRA}.model.contains({{}}) || {DRA}.model.endsWith({{}})",
    f"{MEMORY}.compareTo(quantity({{}})) >= 0",
    f"{MEMORY}.isLessThan(quantity({{}})) && {DRA}.healthy",
    f"{DRA}.version.isGreaterThan(semver({{}}))",
    f"{DRA}.version.compareTo(semver({{}})) < 0",
    f"{DRA}.model in [{{}}, {{}}] && {DRA}.model != {{}}",
    f"{DRA}.links.exists(link, link == {{}}) || {DRA}.index == {{}}",
    f"{DRA}.?nope.orValue({{}}) == {{}}",
    f"({DRA}.healthy ? {DRA}.index : {{}}) < {{}}",
    f"{DRA}.model == {{}} + {{}}",
    "device.attributes[{}].model == {}",
    "{} == {}",
)
PATHS = (
    "device.attributes[{}].{} == {}",
    "device.attributes[{}].{} == {} && device.attributes[{}].{} != {}",
    "device.attributes[{}].{} == {} || device.capacity[{}].{}.compareTo(quantity({})) >= 0",
    "has(device.attributes[{}].{}) && device.driver == {}",
    "has(device.capacity[{}].{}) || {} != device.driver",
    "device.attributes[{}].{}.contains({})",
    "device.attributes[{}].{}.size() > {}",
    "device.attributes[{}].{}.nope == {}",
    "device.attributes[{}].{}[0] == {}",
    "device.attributes[{}].?{}.orValue(1) == {}",
    "device.attributes[{}][?'model'].{} == {}",
    "device.attributes[{}] .{} < {}",
    "device.driver[{}].{} == {}",
)
"""Texts with a domain, a name and a value, or several times all three."""
DOMAINS = st.sampled_from(
    (
        '"dra.example.com"', "'dra.example.com'", '"other.example.com"', '"a/b"', '"/"', '""', '"in"', "3",
        '"\\x64"',
    )
)  # fmt: skip
NAMES = st.sampled_from(
    (
        "model", "index", "memory", "version", "links", "nope", "in", "true", "null", "as", "_", "a_b",
        "b", "has", "`a-b`", '"b"',
    )
)  # fmt: skip
PLAIN = st.text(st.characters(codec="ascii"), max_size=6)
VALUES = st.one_of(
    st.sampled_from(
        (
            '"h100"',
            "'h100'",
            '"80Gi"',
            '"1.2.3"',
            "3",
            "80",
            '"dra.example.com"',
            '""',
            '"""h"""',
            "-3",
            "3u",
            "3.0",
        )
    ),
    st.sampled_from(
        ('r"h100"', 'b"h100"', '"1e3"', '"1e99999999"', '"1.2"', '"-1Gi"', "007", "0x3", '"a\\"b"', "true")
    ),
    PLAIN.map(lambda text: f'"{text}"'),
    PLAIN.map(lambda text: f"'{text}'"),
    st.integers(-10, 10**20).map(str),
    st.from_regex(r'"[0-9]{1,17}(\.[0-9]{0,16})?(Ki|Mi|Ei|G|m|n|E)?"', fullmatch=True),
    st.from_regex(r'"[0-9]{1,2}\.[0-9]\.[0-9](-rc\.1)?"', fullmatch=True),
)


@pytest.fixture(scope="session")
def agree(make_device, device) -> Callable[[str, str], None]:
    """Return a function that fails unless a text is to be had after another one as it is by itself."""
    devices = (
        device,
        make_device(
            attributes={"model": {"string": "h"}, "index": {"int": 80}, "version": {"version": "2.0.0"}}
        ),
        make_device(attributes={"model": {"int": 3}, "index": {"string": "80"}, "version": {"string": "x"}}),
    )

    def check(first: str, text: str) -> None:
        templates = Templates()
        _compiled(first, templates)
        after, alone = _compiled(text, templates), _compiled(text, Templates())
        if isinstance(alone, str) or isinstance(after, str):
            assert after == alone
            return
        assert (after.reads, after.may_take_long) == (alone.reads, alone.may_take_long)
        if alone.may_take_long:
            # Neither has code: the interpreter answers for both.
            return
        for each in devices:
            told = _told(partial(interpreted, alone.program), each)
            assert (_told(after.match, each), _told(alone.match, each)) == (told, told)

    return check


def _compiled(text: str, templates: Templates) -> Selector | str:
    """Return a selector, or the error that it ends with as a text."""
    try:
        return selector_by(templates, text, STORED)
    except CelError as error:
        return repr((error.kind, error.message, error.position))


def _told(answer: Callable[[PreparedDevice], bool], device: PreparedDevice) -> bool | str:
    try:
        return answer(device)
    except CelError as error:
        return error.message


@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_a_text_after_another_one_of_its_shape_is_as_by_itself(agree, data, shape):
    """Whatever literals two texts of one shape have, the second one answers and fails as if it were alone."""
    first, second = ([data.draw(VALUES) for _ in range(shape.count("{}"))] for _ in range(2))

    agree(shape.format(*first), shape.format(*second))


@given(data=st.data(), shape=st.sampled_from(PATHS))
def test_a_text_that_compares_something_else_in_the_same_way_is_as_by_itself(agree, data, shape):
    """Whatever attributes and capacities two texts of one shape read, the second one answers and reads as if alone."""
    parts = st.tuples(DOMAINS, NAMES, VALUES)
    first, second = (
        [part for _ in range(shape.count("{}") // 3) for part in data.draw(parts)] for _ in range(2)
    )

    agree(shape.format(*first), shape.format(*second))


def test_known_expressions_with_other_literals_are_as_by_themselves(agree):
    """Expressions of all kinds, and the reference answers' where they are, may be followed by others of their shape."""
    chance = random.Random(6)  # noqa: S311
    source = Expressions(chance)
    known = [*CORPUS, *reference_expressions(REFERENCE)]
    texts = chance.sample(known, min(300, len(known))) + [source.expression() for _ in range(200)]
    for text in texts:
        found = LITERAL.findall(text)
        other = LITERAL.sub(lambda match: chance.choice([match[0], *found, '"h100"', "3"]), text)  # noqa: B023
        agree(text, other)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f'{DRA}.model == "a"', f'{DRA}.model == "h100"'),
        (f'{DRA}.model == "a" && {DRA}.index == 1', f"{DRA}.model == 'h100' && {DRA}.index == 3"),
        (f'{MEMORY}.compareTo(quantity("1")) >= 0', f'{MEMORY}.compareTo(quantity("80Gi")) >= 0'),
        (f'{MEMORY}.compareTo(quantity("1Gi")) >= 0', f'{MEMORY}.compareTo(quantity("79.5Gi")) >= 0'),
        (f'{MEMORY}.isGreaterThan(quantity("1Gi"))', f'{MEMORY}.isGreaterThan(quantity("1500m"))'),
        (f'{MEMORY}.isLessThan(quantity("1Gi"))', f'{MEMORY}.isLessThan(quantity("2Ei"))'),
        (f'{DRA}.version.isLessThan(semver("1.0.0"))', f'{DRA}.version.isLessThan(semver("1.2.4-rc.1"))'),
        (f'{DRA}.model.contains("x")', f'{DRA}.model.contains("100")'),
        (f'{DRA}.nope == "a"', f'{DRA}.model == "h100"'),
        ('device.attributes["b.example.com"].size == 2', f"{DRA}.index == 3"),
        (
            'device.attributes["a"].b == 1 && device.capacity["a"].c.isLessThan(quantity("2"))',
            f'{DRA}.index == 3 && {MEMORY}.isLessThan(quantity("1Ti"))',
        ),
    ],
)
def test_what_differs_only_in_values_and_names_is_not_parsed_again(device, monkeypatch, first, second):
    """The second text is answered right by code that nobody compiled for it."""
    templates = Templates()
    selector_by(templates, first, STORED)
    monkeypatch.setattr(program, "parse", None)

    assert selector_by(templates, second, STORED).match(device) is True


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f'{DRA}.model == "a"', f'{DRA}.model == """"""'),
        (f'{DRA}.model == """"""', f'{DRA}.model == "a"""""'),
        (f'{DRA}.model == """a"""', f'{DRA}.model == "x""a"""'),
        (f'{DRA}.model == "a"', f'{DRA}.model == "\\x68100"'),
        (f'{DRA}.model == r"a"', f'{DRA}.model == r"h100"'),
        (f"{DRA}.index == 1", f"{DRA}.index == -3"),
        (f"{DRA}.index == -1", f"{DRA}.index == -3"),
        (f"{DRA}.index == 1", f"{DRA}.index == 3.0"),
        (f"{DRA}.index == 1", f"{DRA}.index == 99999999999999999999"),
        (f"{DRA}.index == 1", f'{DRA}.index == "3"'),
        (f'{MEMORY}.isLessThan(quantity("1"))', f'{MEMORY}.isLessThan(quantity("x"))'),
        (f'{MEMORY}.isLessThan(quantity("1"))', f'{MEMORY}.isLessThan(quantity("1e99999999"))'),
        (f'{MEMORY}.isLessThan(quantity("1"))', f'{MEMORY}.isLessThan(quantity("1e9999"))'),
        (f'{DRA}.model == "a"', f"{DRA}.model == 3"),
        (f"{DRA}.index == 0x1", f"{DRA}.index == 0x3"),
        (f"{DRA}.index == 1u", f"{DRA}.index == 3u"),
        (f'{MEMORY}.compareTo(quantity("1")) >= 0', f'{MEMORY}.compareTo(quantity("1")) >= 1'),
        (f'{DRA}.version.isLessThan(semver("1.0.0"))', f'{DRA}.version.isLessThan(semver("1"))'),
        ('device.attributes["a"].model == "h100"', 'device.attributes["dra.example.com"].model == "h100"'),
        (f'{DRA}.model in ["a"]', f'{DRA}.model in ["h100"]'),
        (f"{DRA}.index == {DRA}.index", f"{DRA}.index == {DRA}.nope"),
        (f'{DRA}.model == "h100" && {DRA}.index == 3', f'{DRA}.model == "h100" && {DRA}.nope == 3'),
        (f"{DRA}.index == 3", f"{DRA}.in == 3"),
        (f"{DRA}.healthy == true", f"{DRA}.true == true"),
        (f"{DRA}.index == 3", f"{DRA}.'index' == 3"),
        (f"{DRA}.index == 3", "device.attributes['dra.example.com/x'].index == 3"),
        (f"{DRA}.model.size() == 4", f"{DRA}.model.length() == 4"),
        (f'has({DRA}.nope) && {DRA}.b != "a"', f'has({DRA}.model) && {DRA}.model != "b"'),
        (f"{DRA}.model == {DRA}.a", f"{DRA}.model == {DRA}.b"),
        (f'{DRA}.model == "a" // "b"', f'{DRA}.model == "h100" // "b"'),
    ],
)
def test_what_only_looks_alike_is_as_by_itself(agree, first, second):
    """Where a literal is no plain value, or belongs to the code, it is not filled in."""
    agree(first, second)


def test_a_literal_is_found_behind_halves_of_surrogate_pairs(agree):
    """Two halves are one character to the parser: what stands in a comment is not taken for what is compared."""
    between = "\ndevice.driver == "
    pairs = "\ud83d\ude00" * len(f'"dra.example.com"{between}')
    text = f'// {pairs}"dra.example.com"{between}"other.example.com"'

    agree(text, text)


def test_what_one_environment_admits_is_no_template_for_another() -> None:
    """A text that an older version refuses is refused there, also if a newer one has compiled its like."""
    templates = Templates()
    selector_by(templates, 'device.attributes["dra.example.com"].`a-b` == "x"', STORED)

    with pytest.raises(CelError, match="unsupported syntax"):
        selector_by(
            templates,
            'device.attributes["dra.example.com"].`a-b` == "y"',
            Environment(kubernetes="1.36", expressions="new"),
        )


def test_a_text_too_long_to_be_cheap_is_not_filled_in():
    """A value so long that the cost has to be estimated is compiled by itself."""
    templates = Templates()
    selector_by(templates, f'{DRA}.model.contains("a")', STORED)
    long = f'{DRA}.model.contains("{3000 * "a"}")'

    assert (
        selector_by(templates, long, STORED).may_take_long
        is selector_by(Templates(), long, STORED).may_take_long
        is True
    )


def test_only_so_many_templates_are_kept(device):
    """Of many shapes the oldest are forgotten, and compiled again when they are asked for."""
    templates = Templates(maximum=4)
    for number in range(20):
        selector_by(templates, f'{DRA}.a{number} == "x"', STORED)
        selector_by(templates, f'device.attributes["d{number}.example.com"].model == "x"', STORED)

    assert len(templates._fixed) <= 4
    assert len(templates._templates) <= 4
    assert selector_by(templates, f'{DRA}.model == "h100"', STORED).match(device) is True
