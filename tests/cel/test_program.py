"""Programs: selectors on devices, evaluated plainly and metered."""

import gc
import weakref
from functools import partial

import pytest

from celfuzz.judge import metered
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_derived_attribute, compile_selector
from dra_operator.cel.program import selector as compiled
from dra_operator.cel.types.environment import STORED

DRA = "device.attributes['dra.example.com']"

SELECTORS = [
    ("device.driver == 'dra.example.com'", True),
    (f"{DRA}.model == 'h100'", True),
    (f"{DRA}.model != 'h100'", False),
    (f"{DRA}.index > 2 && {DRA}.index <= 3.5", True),
    (f"{DRA}.healthy", True),
    (f"!{DRA}.healthy || {DRA}.nope", "no such key: nope"),
    (f"{DRA}.nope || {DRA}.healthy", True),
    (f"{DRA}.nope && false", False),
    (f"has({DRA}.nope)", False),
    (f"'model' in {DRA}", True),
    (f"{DRA}.?nope.orValue(7) == 7", True),
    (f"{DRA}[?'index'].orValue(7) == 3", True),
    (f"{DRA}.version.compareTo(semver('1.2.0')) > 0", True),
    (f"{DRA}.version.isLessThan(semver('1.2.0'))", False),
    (f"{DRA}.model.isLessThan(semver('1.2.0'))", "no such overload"),
    (f"{DRA}.model.matches('^h[0-9]+$')", True),
    (f"{DRA}.model.startsWith('h')", True),
    (f"{DRA}.links.exists(l, l == 'b')", True),
    (f"{DRA}.links.all(l, l.nope == 'b')", "no such key: nope"),
    (f"{DRA}.links.exists(l, l == 'a' || l.nope)", True),
    (f"{DRA}.links.exists_one(i, l, i == 0)", True),
    (f"{DRA}.links.map(l, l + 'x') == ['ax', 'bx']", True),
    (f"{DRA}.model in ['a100', 'h100']", True),
    (f"{DRA}.index in [1, 2]", False),
    ("device.capacity['dra.example.com'].memory.compareTo(quantity('80Gi')) == 0", True),
    ("device.capacity['dra.example.com'].memory.isGreaterThan(quantity('81Gi'))", False),
    ("device.attributes['numa.example.com'].node == 1", True),
    ("device.attributes['unknown'].size() == 0", True),
    ("'unknown' in device.attributes", False),
    (f"cel.bind(dra, {DRA}, dra.model == 'h100' && dra.index == 3)", True),
    (f"cel.bind(m, {DRA}.model + 'x', m == 'h100x')", True),
    ("device.allowMultipleAllocations", False),
    (f"{DRA}.index", "could not be converted to bool"),
    (f"({DRA}.healthy ? {DRA}.model : 'x') == 'h100'", True),
    ("[?optional.of(1)] == [1]", True),
    ("{'a': 1}.transformMap(k, v, v + 1)['a'] == 2", True),
    (f"{DRA}.exists(k, k == 'model')", True),
]


@pytest.mark.parametrize(("text", "answer"), SELECTORS)
def test_a_selector_answers_as_upstream(device, text, answer):
    """Plain and metered evaluation give the same answer, a match or an error with upstream's words."""
    selector = compile_selector(text)

    for match in (selector.match, partial(metered, selector.program)):
        if isinstance(answer, bool):
            assert match(device) is answer
        else:
            with pytest.raises(CelError, match=answer) as caught:
                match(device)
            assert caught.value.kind == "runtime"


@pytest.mark.parametrize("text", [text for text, _ in SELECTORS])
def test_an_unreadable_attribute_fails_every_selector(make_device, text):
    """A device with an attribute of an unknown type is an error, whatever is asked."""
    broken = make_device(attributes={"future": {"float": 1.5}})

    with pytest.raises(CelError, match="attribute future: unsupported attribute value"):
        compile_selector(text).match(broken)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("device.driver == 'a'", {"driver"}),
        (f"{DRA}.a == 1 && has(device.capacity['x'].b)", {"attributes/dra.example.com/a", "capacity/x/b"}),
        (
            f"cel.bind(d, {DRA}, d.a == d.?b.orValue(1))",
            {"attributes/dra.example.com/a", "attributes/dra.example.com/b"},
        ),
        (f"'a' in {DRA}", {"attributes/dra.example.com/a"}),
        ("device.allowMultipleAllocations", {"allowMultipleAllocations"}),
        ("true", set()),
        (f"{DRA}.exists(k, true)", None),
        (f"{DRA}[device.driver] == 1", None),
        ("'a' in device.attributes", None),
        (f"cel.bind(d, {DRA}, d.exists(k, true))", None),
        ("device.attributes['a/b'].c", None),
    ],
)
def test_a_selector_says_what_it_reads(text, parts):
    """Constant paths are named, also through bindings; anything else is unknown."""
    assert compile_selector(text).reads == (None if parts is None else frozenset(parts))


@pytest.mark.parametrize("text", ["1", "'a'", "[true]", "device.attributes", "optional.of(true)", "int('x')"])
def test_a_selector_must_be_a_bool(text):
    """Another static type is an error of the expression, before anything in it is evaluated."""
    with pytest.raises(CelError, match="must evaluate to bool or the unknown type"):
        compile_selector(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"{DRA}.index + 1", AttributeValue("int", 4)),
        (f"{DRA}.version", AttributeValue("version", "1.2.3")),
        (f"{DRA}.links.map(l, l + 'x')", AttributeValue("strings", ("ax", "bx"))),
        ("[semver('1.0.0+b')]", AttributeValue("versions", ("1.0.0+b",))),
        ("device.driver.startsWith('dra')", AttributeValue("bool", value=True)),
    ],
)
def test_a_derived_attribute_is_a_value_like_a_published_one(device, text, value):
    """A scalar, a version or a list of them comes out as an attribute."""
    assert compile_derived_attribute(text).evaluate(device) == value


@pytest.mark.parametrize("text", ["1.5", "1u", "b'a'", "null", "{}", "quantity('1')", "[[1]]"])
def test_a_derived_attribute_has_the_type_of_an_attribute(text):
    """Other static types are errors of the expression."""
    with pytest.raises(CelError, match="must evaluate to a primitive scalar"):
        compile_derived_attribute(text)


@pytest.mark.parametrize("text", ["dyn(1.5)", "dyn([dyn(1), dyn('a')])", "dyn({})"])
def test_a_dyn_derived_attribute_is_looked_at_when_it_is_there(device, text):
    """A value that no attribute can have is an error of the evaluation."""
    with pytest.raises(CelError):
        compile_derived_attribute(text).evaluate(device)


@pytest.mark.parametrize(
    "text",
    [
        f"{DRA}.model == 'h100'",
        f"{DRA}.links.all(l, l != 'z')",
        f"{DRA}.links.all(l, {DRA}.links.all(m, l != 'z'))",
    ],
)
def test_a_selector_goes_with_its_last_user(device, text):
    """No circle of references keeps it for the collector, whichever way it is evaluated."""
    gc.disable()
    try:
        selector = compiled(text, STORED)
        for _ in range(20):
            assert selector.match(device)
        match = weakref.ref(selector.match)
        del selector
        assert match() is None
    finally:
        gc.enable()
