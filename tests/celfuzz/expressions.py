"""Expressions at random, of several kinds: typed ones, mutations of known ones, hostile ones, garbage.

The typed ones are those that conformance asks Kubernetes about, with values at the ends of what there is; they compile
more often than not. The others are there for all that comes before, and for the limits.
"""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

from celfuzz import hostile
from conformance.generate.chance import Chance
from conformance.generate.expressions import Expressions as Typed

EXTREMES = {
    "int": ("63", "10"),
    "uint": ("0u", "0xFFu"),
    "double": ("1e308", "-0.0", "1e-320", "9007199254740993.0", "(0.0/0.0)", "(1.0/0.0)", "1e400"),
    "string": (
        "'h100'", "'80Gi'", "'fe80::1'", "'1h'", "'2020-01-01T00:00:00Z'", "'true'", "'5'", "'\\U0001F600'", "'a,b'",
        "'%s %d %.3f %x'", "'(a+)+$'", "'[a-z]*'", "'Europe/Berlin'", "'-00:01'", "'dns1123Label'", "'model'", "'\\x00'",
        '"""q"""', "'0'", "'-1'", "'1e9'", "'9999-12-31T23:59:59Z'", "'NaN'",
    ),
    "bytes": ("b'\\u00e9'", "b'\\377'"),
    "list_int": ("[]", "device.attributes['dra.example.com'].li"),
    "list_dyn": ("[]", "[optional.none()]", "device.attributes['dra.example.com'].ls"),
    "map": ("{}", "{1: 'a', 2: 'b'}", "device.attributes['x']"),
    "duration": ("duration('-1ns')", "duration('2562047h')"),
    "timestamp": ("timestamp('2020-02-29T23:59:59.999999999Z')", "timestamp('0001-01-01T00:00:00Z')"),
    "quantity": (
        "quantity('9223372036854775808')", "quantity('1n')", "quantity('1e99')", "quantity('-1.5')",
        "device.capacity[device.driver].cores",
    ),
    "semver": ("semver('1.2.3-rc.1+b')", "device.attributes[device.driver].version"),
    "ip": ("ip('fe80::1')",),
    "url": ("url('/x')",),
    "dyn": (
        "null", "type(1)", "net.IP", "google.protobuf.Duration", "optional.none()", "optional.of(1)", "[1][?0]",
        "format.dns1123Label()", "format.uri()", "device.attributes", "device.capacity", "device.attributes[?'x']",
        "device.attributes[device.driver].model", "device.attributes['x'].?links", "device.attributes['other.example.com'].`i`",
        "device.attributes['dra.example.com'][?'healthy'].orValue(1)",
    ),
}  # fmt: skip
"""Values of each type at the ends of what there is, beside those that conformance asks about."""
TOKENS = (
    *["(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "!", "in", ";", "`", "'", '"', "\\", "//", "#", "@", "$", "&", "|", "="],
    ".?", "[?", "'''", "r'", 'b"', "0x", "1.", ".5", "1e", "1u", "\n", "\t", " ", "\x00", "\ufeff", "\u00e9", "\ud800", "true",
    "false", "null", "device", "driver", "attributes", "capacity", "x", "y", "has(", "size(", "dyn(", "type(", "cel.bind(",
    ".all(", ".exists(", ".map(", ".filter(", ".exists_one(", ".transformMap(", ".transformList(", ".transformMapEntry(",
    ".sortBy(", ".optMap(", ".optFlatMap(", "optional.of(", "optional.none()", ".orValue(", ".or(", ".format([", ".matches(",
    ".join(", "as", "import", "package", "for", "__class__", "__import__", "_", "__", "self", "lambda", "google.protobuf.",
    "google.protobuf.Int64Value{value: 1}", "kubernetes.DRADevice{}", ".a", "9" * 30, "-", "!",
)  # fmt: skip
CORPUS = (
    "device.driver == 'dra.example.com'",
    "device.attributes['dra.example.com'].model == 'h100'",
    "device.attributes['dra.example.com'].version.compareTo(semver('1.0.0')) >= 0",
    "device.capacity['dra.example.com'].memory.compareTo(quantity('10Gi')) >= 0",
    "device.attributes['dra.example.com'].model in ['a', 'h100'] && ['a', 'b'].exists(x, x == 'a')",
    "device.attributes['dra.example.com'].model.matches('^h[0-9]+$')",
    "has(device.attributes['dra.example.com'].index) && device.attributes['dra.example.com'].index > 2 || !device.allowMultipleAllocations",
    "device.attributes['dra.example.com'].links.exists(l, l.startsWith('a')) ? true : false",
    "cel.bind(a, device.attributes['dra.example.com'], a.healthy && a.index % 2 == 1)",
    "device.attributes[?'dra.example.com'].?model.orValue('none').size() == 4",
    "{'a': 1, 'b': [1, 2]}.transformMap(k, v, k + string(v)) == {}",
    "[3, 1, 2].sortBy(x, -x).map(x, x * 2).sum() > dyn(10u)",
    "'%s is %d %.2f'.format(['a', 1, 2.0]).split(' ').distinct().join(',').contains('is')",
    "timestamp('2020-01-01T00:00:00Z') + duration('1h') > timestamp(0) && timestamp(0).getHours('Europe/Berlin') == 1",
    "device.attributes['dra.example.com'].li.includes(3) || sets.intersects([1, 2], [2.0, 3u])",
    "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && url('https://a:1/b').getHost() == 'a:1'",
    "device.attributes.all(d, d.size() > 0) && device.attributes.exists(d, m, m.size() > 0)",
    "'abc'.findAll('[a-c]', 2).isSorted() && 'x'.replace('x', 'y', 1).upperAscii() == 'Y'",
    "optional.of(1).optMap(x, x + 1).hasValue() && [optional.of(1), optional.none()].unwrapOpt() == [1]",
    "quantity('1Gi').add(quantity('1')).sub(5).isInteger() && format.dns1123Label().validate('a').hasValue()",
)  # fmt: skip


def reference_expressions(folder: Path) -> tuple[str, ...]:
    """Return the expressions of the reference answers, or nothing where those are not."""
    found: list[str] = []
    for name in ("selectors.jsonl.gz", "values.jsonl.gz"):
        if (folder / name).is_file():
            with gzip.open(folder / name, "rt") as lines:
                found.extend(json.loads(line)["expression"] for line in lines)
    return tuple(found)


class Expressions:
    """Makes expressions out of a source of randomness and a corpus to mutate."""

    def __init__(self, source: random.Random, corpus: Sequence[str] = ()) -> None:
        self._source = source
        self._corpus = (*corpus, *CORPUS)
        self._typed = Typed(Chance(source.getrandbits(64)), device=True, more=EXTREMES)

    def expression(self) -> str:
        """Return one expression, of any kind."""
        source = self._source
        kind = source.random()
        if kind < 0.5:
            result = source.choices(("bool", "dyn", "int", "string", "list_int", "map"), (6, 2, 1, 1, 1, 1))[
                0
            ]
            return self._typed.draw(result, source.choice((1, 2, 3, 3, 4, 5)))
        if kind < 0.75:
            return self._mutated()
        if kind < 0.9:
            return hostile.expression(source, self)
        if kind < 0.97:
            return "".join(
                source.choice(TOKENS) + source.choice(("", " ")) for _ in range(source.randint(1, 30))
            )
        return "".join(chr(self._code_point()) for _ in range(source.randint(0, 60)))

    def _code_point(self) -> int:
        return self._source.choice(
            (self._source.randrange(128), self._source.randrange(0x300), self._source.randrange(0x110000))
        )

    def known(self) -> str:
        """Return an expression that others have thought of."""
        return self._source.choice(self._corpus)

    def _mutated(self) -> str:
        source = self._source
        text = self.known()
        for _ in range(source.randint(0, 4)):
            at, to = sorted((source.randint(0, len(text)), source.randint(0, len(text))))
            match source.randrange(7):
                case 0:
                    text = text[:at] + text[min(to, at + 8) :]
                case 1:
                    text = text[:at] + source.choice(TOKENS) + text[at:]
                case 2:
                    other = self.known()
                    text = text[:at] + other[source.randint(0, len(other)) :]
                case 3:
                    text = text[:to] + text[at:to] + text[to:]
                case 4:
                    leaf = self._typed.draw("dyn", source.randint(0, 2))
                    text = text[:at] + leaf + text[min(to, at + 8) :]
                case 5:
                    text = f"({text}) {source.choice(('&&', '||', '==', '!=', 'in', '+'))} ({self.known()})"
                case _:
                    number = source.choice(
                        ("0", "-1", "9223372036854775807", "1e309", "18446744073709551615u", "null")
                    )
                    text = text.replace("1", number, 1)
        return text
