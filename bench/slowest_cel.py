"""Looks for the expressions that take our CEL longest: every function in loops that end at the limits.

    python bench/slowest_cel.py                     # every overload, a dozen uses of each
    python bench/slowest_cel.py --uses 100 --only matches,format

A limit on cost does not limit the time: what upstream counts as 1 can take long. So each overload is called in the
loops that call it most often, with arguments that are short, long, or different each time; those that take the most CPU
time until there is an answer or an error are listed. No evaluation may take longer than 2.5 s: it ends at the first
look at the clock after 2 s. The exit code is 1 if one does. On a busy machine,
CPU time grows too: times are normalized to a machine that runs a known loop in 4 ms, which is measured next to each
evaluation.
"""

import argparse
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import Program, compile_program
from dra_operator.cel.types.environment import Overload, functions

LONGEST = 2.5
KNOWN_LOOP = 0.004
"""What the loop of `pace` takes, five times."""
TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
BINDINGS = {
    # Built by doubling, which costs little.
    "t": ("'0123456789'", *["{0} + {0}"] * 13),
    "u": ("'a1.-:/ %'", *["{0} + {0}"] * 7),
    "l": ("lists.range(40000)",),
    "m": ("lists.range(500).map(i, 'a' + string(i))",),
    "n": ("[[1]]", *["{0} + {0}"] * 12),
    "o": ("[dyn(1), 'a', 1.5, true]", *["{0} + {0}"] * 10),
    "p": ("lists.range(3000).transformMap(i, v, v)",),
    "q": ("[optional.of(1)]", *["{0} + {0}"] * 13),
}
"""Large values, by the names that arguments use."""
ARGUMENTS = {
    "bool": (
        "true", "x > 3",
    ),
    "int": (
        "x", "0", "1", "size(t)", "20000",
    ),
    "uint": (
        "uint(x)", "1u",
    ),
    "double": (
        "double(x)", "1.5e300", "double(x) / 7.0",
    ),
    "string": (
        "t", "u", "string(x)", "'a'", "''", "string(x) + 'h'", "'1.2.' + string(x)", "'10.0.0.' + string(x % 255)",
        "'10.0.' + string(x % 255) + '.0/24'", "'fe80::' + string(x % 9999)", "'https://a:1/b?c=' + string(x)",
        "'2020-01-01T00:00:0' + string(x % 10) + 'Z'", "string(x) + 'Gi'", "'%d %s'", "'%.9f'", "'^([0-9]|b)*$'",
        "'(a|b|[0-9])*c'", "'x' + string(x)", "string(x) + '.' + string(x)", "'1h1m1s1ms'", "'Europe/Berlin'",
        "string(x * 7919) + 'e-3'", "'2020-01-01'", "'0.' + u", "'\\u00e9' + t", "'a/' + u",
    ),
    "bytes": (
        "bytes(t)", "b'a'", "bytes(string(x))",
    ),
    "null_type": (
        "null",
    ),
    "google.protobuf.Duration": (
        "duration('1h')", "duration(string(x) + 's')",
    ),
    "google.protobuf.Timestamp": (
        "timestamp(0)", "timestamp(x)", "timestamp('9999-12-31T23:59:59Z')",
    ),
    "list": (
        "l", "m", "n", "o", "q", "[x]", "[x, x + 1, x + 2]", "[t, u]", "[l]", "[[x], [x]]", "[]", "[dyn(x), 'a']",
        "[dyn(l), dyn(m)]",
    ),
    "map": (
        "p", "{x: x}", "{'a': l}", "device.attributes",
    ),
    "type": (
        "int", "type(x)",
    ),
    "optional_type": (
        "optional.of(x)", "optional.none()", "optional.of(l)",
    ),
    "kubernetes.Quantity": (
        "quantity(string(x) + 'Gi')", "quantity('1e90')", "quantity('1')",
    ),
    "kubernetes.Semver": (
        "semver('1.2.' + string(x))", "semver('1.2.3-a.b.c.d.e.f')",
    ),
    "net.IP": (
        "ip('10.0.0.1')", "ip('fe80::1')",
    ),
    "net.CIDR": (
        "cidr('10.0.0.0/8')", "cidr('fe80::/16')",
    ),
    "kubernetes.URL": (
        "url('https://a:1/b?c=d')", "url('https://a:1/b?' + u)",
    ),
    "kubernetes.NamedFormat": (
        "format.dns1123Label()", "format.uri()", "format.datetime()", "format.qualifiedName()", "format.byte()",
        "format.uuid()",
    ),
}  # fmt: skip
ARGUMENTS[""] = tuple(text for texts in ARGUMENTS.values() for text in texts)
FORMS = {
    "_[_]": "{}[{}]",
    "_[?_]": "{}[?{}]",
    "!_": "!{}",
    "-_": "-{}",
    "_?_:_": "({} ? {} : {})",
    "@in": "({} in {})",
}
USES = ("optional.of({}).hasValue()", "type({}) != type", "[dyn({})] != [1]", "({} == dyn(1) || true)")


def nested(depth: int, before: str, after: str, over: str = TEN) -> str:
    """Return a fold within a fold, and so on; `{}` stands for what is inside."""
    loop = "{}"
    for name in "xedcba"[:depth]:
        loop = f"{over}.{before.replace('NAME', name)}{loop}{after}"
    return loop


LOOPS = {
    "long all": "lists.range(50000).all(x, {})",
    "a few": nested(2, "all(NAME, ", ")"),
    "some": nested(3, "all(NAME, ", ")"),
    "many": nested(4, "all(NAME, ", ")"),
    "nested all": nested(6, "all(NAME, ", ")"),
    "nested exists_one": nested(5, "exists_one(NAME, ", ")"),
    "nested map": nested(5, "map(NAME, ", ")") + ".size() > 0",
    "nested filter": nested(4, "filter(NAME, ", ").size() > 0"),
    "nested sortBy": nested(4, "sortBy(NAME, ", ").size()").replace("{}", "{} ? 1 : 0") + " > 0",
    "transformList": nested(2, "transformList(NAME, i, ", ")", "lists.range(230)") + ".size() > 0",
    "transformMap": nested(2, "transformMap(NAME, i, ", ")", "lists.range(230)") + ".size() > 0",
    "transformMapEntry": "lists.range(20000).transformMapEntry(x, e, {x: {}}).size() > 0",
    "bound": "lists.range(20000).all(x, cel.bind(y, {}, y && y))",
    "failing": "lists.range(50000).all(x, ({} && [][x] == 1) || true)",
}


class TooLong(BaseException):
    """An evaluation that was ended."""


def _too_long(_number: int, _frame: Any) -> None:
    raise TooLong


def written(name: str, overload: Overload, arguments: list[str]) -> str:
    """Return a call as it is written."""
    form = FORMS.get(name)
    if form is not None:
        return form.format(*arguments)
    if name.startswith("_"):
        return f"({arguments[0]} {name.strip('_')} {arguments[1]})"
    target = f"{arguments[0]}." if overload.member else ""
    return f"{target}{name}({', '.join(arguments[overload.member :])})"


def bound(text: str) -> str:
    """Return an expression within the bindings of the large values that it names."""
    for name, (first, *steps) in BINDINGS.items():
        if f"{name})" in text or any(
            f"{before}{name}{after}" in text for before in "([ ." for after in ",.]) "
        ):
            names = [f"{name}{index}" for index in range(len(steps))] + [name]
            text = text + ")" * len(names)
            for index in range(len(steps), 0, -1):
                text = f"cel.bind({names[index]}, {steps[index - 1].format(names[index - 1])}, {text}"
            text = f"cel.bind({names[0]}, {first}, {text}"
    return text


def expressions(source: random.Random, uses: int, only: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield uses of every overload, with its name."""
    for name, overloads in functions().items():
        if name.startswith(("@s", "@n", "@m", "cel.@", "_?._")) or (only and name not in only):
            continue
        for overload in overloads:
            for _ in range(uses):
                arguments = [
                    source.choice(ARGUMENTS.get(kind.name, ARGUMENTS[""])) for kind in overload.arguments
                ]
                call = written(name, overload, arguments)
                loop = source.choice(tuple(LOOPS))
                text = LOOPS[loop].replace("{}", source.choice(USES).replace("{}", call))
                yield f"{overload.id} {loop}", bound(text)


def taken(run: Callable[[], Any], most: float) -> tuple[float, str]:
    """Return the CPU seconds of a call, at most `most`, and what became of it."""
    started = time.thread_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, most)
        answer = str(run())
    except CelError as error:
        answer = error.message
    except TooLong:
        answer = "never ended"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.thread_time() - started, answer


def pace() -> float:
    """Return how many times slower than a quiet machine this one is at the moment."""
    started = time.thread_time()
    total = 0
    for number in range(20_000):
        total += number * 3 % 7
    return (time.thread_time() - started) / (KNOWN_LOOP / 5)


def measured(run: Callable[[], Any]) -> tuple[float, str]:
    """Return the seconds of an evaluation on a quiet machine, and what became of it."""
    before = pace()
    took, answer = taken(run, 20)
    return took / min(before, pace()), answer


def evaluation(program: Program, device: PreparedDevice) -> Callable[[], Any]:
    """Return the evaluation as it happens: plain if the expression is cheap, else metered."""
    plain = program.plain()
    return lambda: program.answer(device) if plain is None else plain(device, None)


def main() -> int:
    """Search, print the slowest, and return 1 if one is too slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uses", type=int, default=12, help="how many uses of each overload")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of functions, separated by commas")
    parser.add_argument("--show", type=int, default=20, help="how many to print")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    device = PreparedDevice("dra.example.com", False, {"dra.example.com/i": 3}, {}, None)
    found: list[tuple[float, str, str, str]] = []
    only = frozenset(filter(None, options.only.split(",")))
    source = random.Random(options.seed)  # noqa: S311 - a search that can be repeated
    for label, text in expressions(source, options.uses, only):
        try:
            program = compile_program(text)
        except CelError:
            continue
        took, answer = measured(evaluation(program, device))
        if took > LONGEST:
            # Once more, since other load on the machine affects the time.
            took, answer = min((took, answer), measured(evaluation(program, device)))
        if took > LONGEST:
            print(f"{took * 1000:.0f} ms  {label}", file=sys.stderr, flush=True)
        found.append((took, label, answer, text))
    found.sort(reverse=True)
    for took, label, answer, text in found[: options.show]:
        print(f"{took * 1000:6.0f} ms  {label}: {answer[:60]}\n           {text}")
    slow = sum(took > LONGEST for took, *_ in found)
    print(f"{len(found)} expressions; {slow} take longer than {LONGEST * 1000:.0f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
