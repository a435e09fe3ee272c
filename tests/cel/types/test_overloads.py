"""Overloads: plain and metered evaluation call the same, whatever the values turn out to be."""

from contextlib import suppress
from itertools import product

import pytest

from dra_operator.api.semver import parse_semver
from dra_operator.api.versions import VERSIONS
from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.named_formats import FORMATS
from dra_operator.cel.library.network import parse_cidr, parse_ip
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.library.urls import parse_url
from dra_operator.cel.program import compile_program
from dra_operator.cel.types.environment import Environment, functions
from dra_operator.cel.values import CelMap, Duration, Timestamp, TypeValue, Uint

VALUES = (
    None, True, 1, Uint(1), 1.0, "1", b"1", (1, 2), ("a", "b"), (), CelMap([(1, 1)]), CelMap([("a", "b")]),
    Duration(10**9), Timestamp(0, 0), TypeValue("int"), parse_quantity("1"), parse_semver("1.0.0"),
    parse_ip("10.0.0.1"), parse_cidr("10.0.0.0/8"), parse_url("https://a:1/b"), FORMATS["dns1123Label"],
)  # fmt: skip
"""A value of each type but the optional one, which no device holds."""
FEW = (
    True,
    1,
    1.0,
    "1",
    (1, 2),
    CelMap([(1, 1)]),
    Duration(10**9),
    parse_quantity("1"),
    parse_semver("1.0.0"),
)
"""Some of them, for pairs."""
STATIC = {
    "bool": ("true", "device.allowMultipleAllocations"), "int": ("1", "size(device.driver)"), "uint": ("1u",),
    "double": ("1.0",), "string": ("'1'", "device.driver"), "bytes": ("b'1'",), "null_type": ("null",),
    "google.protobuf.Duration": ("duration('1s')",), "google.protobuf.Timestamp": ("timestamp(0)",),
    "list": ("[1, 2]", "['a', 'b']", "[[1]]"), "map": ("{1: 1}", "{'a': 'b'}"), "type": ("int",),
    "optional_type": ("optional.of([1])",), "kubernetes.Quantity": ("quantity('1')", "device.capacity['d'].q"),
    "kubernetes.Semver": ("semver('1.0.0')",), "net.IP": ("ip('10.0.0.1')",), "net.CIDR": ("cidr('10.0.0.0/8')",),
    "kubernetes.URL": ("url('https://a:1/b')",), "kubernetes.NamedFormat": ("format.dns1123Label()",),
}  # fmt: skip
"""Expressions of each static type: a constant, and one that is known only with a device."""
DYNAMIC = ("dyn('1')", "dyn(1)", "dyn(true)", "dyn(1u)", "dyn([1])")
"""Constants whose static type is dyn: what they are is known all the same."""
FORMS = {
    "_[_]": "{}[{}]",
    "_[?_]": "{}[?{}]",
    "!_": "!{}",
    "-_": "-{}",
    "_?_:_": "{} ? {} : {}",
    "@in": "{} in {}",
}


def written(name, member, arguments):
    """Return a call as it is written."""
    form = FORMS.get(name)
    if form is not None:
        return form.format(*arguments)
    if name.startswith("_"):
        return f"{arguments[0]} {name.strip('_')} {arguments[1]}"
    target = f"{arguments[0]}." if member else ""
    return f"{target}{name}({', '.join(arguments[member:])})"


def calls(name):
    """Yield expressions that call a function, with arguments of a static type or of any, and how many are of any."""
    for overload in functions()[name]:
        places = []
        for index, kind in enumerate(overload.arguments):
            dynamic = f"device.attributes['d'].a{index}"
            constants = DYNAMIC if len(overload.arguments) < 3 else DYNAMIC[:2]
            places.append((dynamic, *STATIC.get(kind.name, ()), *constants))
        for arguments in product(*places):
            used = tuple(
                index for index, text in enumerate(arguments) if text.startswith("device.attributes")
            )
            yield written(name, overload.member, arguments), used


def outcome(program, device):
    """Return the answer or the error of a metered evaluation."""
    try:
        return repr(program.answer(device))
    except CelError as error:
        return error.message


def plainly(program, device):
    """Return the answer of a plain evaluation; None if it has none."""
    plain = program.plain()
    if plain is not None:
        with suppress(Exception):
            return repr(plain(device, None))
    return None


def given(count):
    """Return values for so many arguments that can be any."""
    return product(FEW, repeat=2) if count == 2 else zip(*[VALUES] * count, strict=True) if count else [()]


NAMES = [
    name
    for name, overloads in functions().items()
    if not name.startswith(("@s", "@n", "@m", "cel.@", "_?._", "_&&_", "_||_"))
    and not any(kind.name.startswith("kubernetes.authorization") for kind in overloads[0].arguments)
]


@pytest.mark.parametrize("name", NAMES)
def test_plain_evaluation_gives_the_metered_answer(name):
    """With each type in each place, known beforehand or not, whatever is answered plainly is answered alike."""
    asked = 0
    for text, used in dict(calls(name)).items():
        try:
            program = compile_program(text, Environment(VERSIONS[-1]))
        except CelError:
            continue
        for values in given(len(used)):
            attributes = {f"d/a{index}": value for index, value in zip(used, values, strict=True)}
            device = PreparedDevice("1", False, attributes, {"d/q": parse_quantity("1")}, None)
            answer = outcome(program, device)
            asked += 1
            assert plainly(program, device) in (answer, None), (text, values)
    assert asked
