"""Wording: what is wrong with an expression, in its own words."""

import pytest

from dra_operator.cel.advice import advise
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector
from dra_operator.cel.syntax.macros import _MACROS
from dra_operator.cel.types.environment import STORED, Environment

Q = "device.capacity['d'].memory"


def told(error: CelError, expression: str, environment: Environment = STORED) -> str:
    """Return what is wrong with an expression, with advice where there is any."""
    return "; ".join(filter(None, advise(error, expression, environment)))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.driver.matchs('x')", 'no such function "matchs"; did you mean "matches"?'),
        ("[1].exist(1)", 'no such function "exist"; did you mean "exists"?'),
        ("devices.driver == 'x'", 'no such name "devices"; did you mean "device"?'),
        ("driver == 'x'", 'no such name "driver"; did you mean device.driver?'),
        ("device.drivr == 'x'", 'device has no field "drivr"; did you mean "driver"?'),
        (
            "device.zzz == 'x'",
            'device has no field "zzz"; it has driver, attributes, capacity, allowMultipleAllocations',
        ),
        ("device.driver == 1", "== cannot be applied to string and int"),
        ("!device.driver", "! cannot be applied to string"),
        ("1 in 2", "in cannot be applied to int and int"),
        (
            f"{Q} >= {Q}",
            ">= cannot be applied to Quantity and Quantity; compare quantities by a.compareTo(b) >= 0",
        ),
        (
            "device.attributes['d.example'].v >= semver('1.2.3')",
            ">= cannot be applied to dyn and Semver; compare versions by a.compareTo(b) >= 0",
        ),
        (
            "device.attributes['d.example/model'] == 'x'",
            '== cannot be applied to map(string, dyn) and string; write device.attributes["d.example"].model',
        ),
        (
            "device.capacity['d.example/memory'].isGreaterThan(quantity('1'))",
            (
                "isGreaterThan() of map(string, kubernetes.Quantity) does not take Quantity; "
                'write device.capacity["d.example"].memory'
            ),
        ),
        (
            "device.attributes['model'] == 'x'",
            "== cannot be applied to map(string, dyn) and string; write device.attributes[domain].model",
        ),
        (
            "'x' == device.attributes.model",
            "== cannot be applied to string and map(string, dyn); write device.attributes[domain].model",
        ),
        (
            "device.capacity['memory'] >= quantity('1')",
            (
                ">= cannot be applied to map(string, kubernetes.Quantity) and Quantity; "
                "write device.capacity[domain].memory"
            ),
        ),
        (
            "device.capacity['memory'].compareTo(quantity('1')) >= 0",
            (
                "compareTo() of map(string, kubernetes.Quantity) does not take Quantity; "
                "write device.capacity[domain].memory"
            ),
        ),
        (
            "device.attributes['d'].version.isGreaterThan('1.2.3')",
            "isGreaterThan() of dyn does not take string; wrap the text in semver(...)",
        ),
        ("device.attributes['d.e'] == 'x'", "== cannot be applied to map(string, dyn) and string"),
        (
            f"{Q}.isGreaterThan(quantity(40Gi))",
            '"Gi" is not expected here; write a quantity as quantity("10Gi")',
        ),
        ("80.big == 1", "int has no fields"),
        (
            "has(device.attributes['d.example']['model'])",
            "has() asks for a field behind a dot; write has(device.attributes[domain].name)",
        ),
        (f"{Q} == '1'", '== cannot be applied to Quantity and string; write a quantity as quantity("10Gi")'),
        (
            f"{Q}.isGreaterThan('1')",
            "isGreaterThan() of Quantity does not take string; wrap the text in quantity(...)",
        ),
        ("isQuantity()", "isQuantity() needs arguments"),
        ("[1].indexOf() == 0", "indexOf() of list(int) needs arguments"),
        ("timestamp('2020-01-01T00:00:00Z').getHours(1) == 1", "getHours() of timestamp does not take int"),
        ("duration('1s').getHours(1) == 1", "getHours() of duration does not take int"),
        ("[1].includes()", "includes() of list(int) needs arguments"),
        ("1 + 1", "must be a bool, not int"),
        ("true &&", "the expression ends too early"),
        ("device.driver = 'x'", '"=" is not expected here; write =='),
        ("true;", '";" is not expected here; a selector is one expression, without a semicolon'),
        ("[1].exist(x, x == 1)", 'no such function "exist"; did you mean "exists"?'),
        ("[1].exists(x, lenght(x))", 'no such function "lenght"'),
        ("[1].exists(1)", "exists() is used wrongly; write list.exists(x, condition)"),
        ("exists([1], x, x == 1)", "exists() is used wrongly; write list.exists(x, condition)"),
        ("[1].all(x)", "all() is used wrongly; write list.all(x, condition)"),
        ("[1].all(x, y == 1)", 'no such name "y"'),
        ("len(device.driver) == 1", 'no such function "len"; did you mean "size"?'),
        ("device.driver.startswith('a')", 'no such function "startswith"; did you mean "startsWith"?'),
        (
            "device.driver.toLowerCase() == 'a'",
            'no such function "toLowerCase"; did you mean "lowerAscii"?',
        ),
        ("version('1.2.3') == semver('1.2.3')", 'no such function "version"; did you mean "semver"?'),
        ("True", 'no such name "True"; did you mean "true"?'),
        ("device.driver == None", 'no such name "None"; did you mean "null"?'),
        ("devce.driver == 'x'", 'no such name "devce"; did you mean "device"?'),
        ("'a' in 'abc'", "in cannot be applied to string and string; write text.contains(part)"),
        ("true is true", '"is" is not expected here; write =='),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_expression(expression, text):
    """With what was probably meant, or what to write instead."""
    with pytest.raises(CelError) as caught:
        compile_selector(expression)

    assert told(caught.value, expression, STORED) == text


@pytest.mark.parametrize("name", sorted({name for name, _, _ in _MACROS} - {"bind", "has"}))
def test_every_macro_is_known_by_its_name(name):
    """Where it is not written as one, it is told how; it is no function that is not there."""
    with pytest.raises(CelError) as caught:
        compile_selector(f"[1].{name}(1)")

    text = told(caught.value, f"[1].{name}(1)", STORED)
    assert text.startswith(f"{name}() is used wrongly; write ")


def test_a_value_of_any_type_is_not_said_to_lack_a_function():
    """Without the gate for lists that is the type of an attribute."""
    environment = Environment(kubernetes="1.36", expressions="new", list_type_attributes=False)
    expression = "device.attributes['d'].model.startsWith(1)"
    with pytest.raises(CelError) as caught:
        compile_selector(expression, environment)

    assert told(caught.value, expression, environment) == "startsWith() of any does not take int"
