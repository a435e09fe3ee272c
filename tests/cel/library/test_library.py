"""The library as a whole: complete, and safe whatever it is called with."""

import itertools
import time
from contextlib import suppress

import pytest

from dra_operator.api.semver import parse_semver
from dra_operator.cel.errors import CelError
from dra_operator.cel.library import named_formats, network, quantities, times, urls
from dra_operator.cel.library.core import SINGLETONS
from dra_operator.cel.types.environment import STORED
from dra_operator.cel.values import NONE, CelMap, Duration, Optional_, Timestamp, TypeValue, Uint
from recordings import recorded

MOST_SECONDS = 1.0  # 0.1 on a quiet machine

_deep = ()
for _ in range(60):
    _deep = (_deep,)
TEXTS = [
    "",
    "\u00e9\U0001f600x",
    "a" * 50_000,
    "(" * 3000,
    "((a?){100}){9}",
    "x" * 5000,
    "-1e-999999999",
    "1e100000",
    "9" * 4000 + "h",
    "2020-01-01T00:00:00Z",
    "%s%.999f%e",
    "1.2.3-" + "a." * 400 + "b",
    "1:" * 2000,
    "10.0.0.1/8",
    "http://[::%25" + "%25" * 999 + "]/?" + "&=;" * 999,
    "a." * 2000 + "!",
    "America/New_York",
    "x\x00y",
]
LISTS = [
    (),
    (1, "a", None),
    tuple(range(2000)),
    tuple([1.0, 2] * 900),
    ("a" * 50_000,) * 30,
    tuple(CelMap([(i, i)]) for i in range(500)),
    (float("nan"), 1.0),
    _deep,
]
VALUES = {
    "string": TEXTS,
    "int": [0, -1, 5, 2**63 - 1, -(2**63), 1_000_000],
    "uint": [Uint(0), Uint(2**64 - 1)],
    "double": [0.0, -0.0, 1e308, float("inf"), float("nan")],
    "bool": [True, False],
    "bytes": [b"", b"\xff", b"a" * 50_000],
    "list": LISTS,
    "map": [CelMap(), CelMap([((), 1)])],
    "google.protobuf.Duration": [Duration(2**63 - 1), Duration(-(2**63))],
    "google.protobuf.Timestamp": [
        Timestamp(times.MIN_SECONDS * 10**9, 3600),
        Timestamp(times.MAX_SECONDS * 10**9 + 999_999_999),
    ],
    "kubernetes.Quantity": [quantities.parse_quantity(text) for text in ("1e100000", "-1.5Ki", "100Ei", "0")],
    "kubernetes.Semver": [parse_semver("18446744073709551615.0.0-a.1+b")],
    "net.IP": [network.parse_ip("::1"), network.parse_ip("255.255.255.255")],
    "net.CIDR": [network.parse_cidr("::/0"), network.parse_cidr("10.1.2.3/9")],
    "kubernetes.URL": [urls.parse_url("http://u:p@[::1]:80/a?b=c&b=%zz"), urls.parse_url("/x")],
    "kubernetes.NamedFormat": list(named_formats.FORMATS.values()),
    "optional_type": [NONE, Optional_(1)],
}
ANYTHING = [values[0] for values in VALUES.values()] + [None, NONE, TypeValue("int"), _deep]


PLANNED = {"_&&_", "_||_", "_?_:_", "_==_", "_!=_", "_[_]", "_[?_]", "_?._", "or", "orValue"}
"""What the planner has steps of its own for."""


@pytest.fixture(scope="module")
def functions():
    """Return the functions of the environment, each with its overloads as text."""
    return next(row["functions"] for row in recorded("cel_functions") if row["kubernetes"] == "1.37")


@pytest.fixture(scope="module")
def declared(functions):
    """Return the declared overloads that the library implements."""
    overloads = [overload for name in functions for overload in STORED.functions.get(name, ())]
    return [overload for overload in overloads if overload.code is not None]


def test_every_function_is_declared(functions, declared):
    """Kubernetes knows each function that has code."""
    known = {line.split(":")[0] for lines in functions.values() for line in lines}

    assert {overload.id for overload in declared} <= known


def test_every_function_has_one_code():
    """What the planner or one binding for all overloads takes care of has none in the library, and all else has."""
    for name, group in STORED.functions.items():
        elsewhere = name in SINGLETONS or name in PLANNED
        assert {each.code is None for each in group} == {elsewhere}, name


def test_every_function_answers_soon_or_raises_a_cel_error(declared):
    """Whatever the arguments of the right types are, nothing else comes out, and within a moment."""
    calls = 0
    for overload in declared:
        pools = [VALUES.get(kind.name, ANYTHING) for kind in overload.arguments]
        if len(pools) > 2:
            pools = [pool[:8] for pool in pools]
        for arguments in itertools.product(*pools):
            calls += 1
            start = time.process_time()
            with suppress(CelError):
                overload.code(*arguments)
            assert time.process_time() - start < MOST_SECONDS, overload.id
    assert calls > 5000
