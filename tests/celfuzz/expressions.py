"""Expressions at random, of several kinds: typed ones by the declarations, mutations of known ones, hostile ones, garbage.

A typed expression compiles more often than not, so that evaluation is reached; the others are there for all that comes
before, and for the limits.
"""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

from celfuzz import hostile
from dra_operator.cel.types.environment import Overload, functions
from dra_operator.cel.types.types import DYN, Kind, Type, optional_of

SHORT = ("x", "y", "z")
_LITERALS = {
    Kind.BOOL: ("true", "false"),
    Kind.INT: ("0", "1", "-1", "2", "3", "10", "63", "0x1F", "-9223372036854775808", "9223372036854775807"),
    Kind.UINT: ("0u", "1u", "2u", "18446744073709551615u", "0xFFu"),
    Kind.DOUBLE: ("0.0", "1.0", "-1.5", "1e308", "-0.0", "1e-320", "9007199254740993.0", "(0.0/0.0)", "(1.0/0.0)", "1e400"),
    Kind.STRING: (
        "''", "'a'", "'h100'", "'1.2.3'", "'80Gi'", "'10.0.0.1'", "'fe80::1'", "'10.0.0.0/8'", "'https://a:1/b?c=d'", "'1h'",
        "'2020-01-01T00:00:00Z'", "'true'", "'5'", "'\\u00e9'", "'\\U0001F600'", "'a,b'", "'%s %d %.3f %x'", "'(a+)+$'",
        "'[a-z]*'", "r'\\d+'", "'Europe/Berlin'", "'-00:01'", "'dns1123Label'", "'dra.example.com'", "'model'",
        "'\\x00'", "'''a\nb'''", '"""q"""', "'0'", "'-1'", "'1e9'", "'9999-12-31T23:59:59Z'", "'NaN'",
    ),
    Kind.BYTES: ("b''", "b'a'", "b'\\xff'", "b'\\u00e9'", "b'\\377'"),
    Kind.NULL: ("null",),
    Kind.DURATION: ("duration('1h')", "duration('-1ns')", "duration('0s')", "duration('2562047h')"),
    Kind.TIMESTAMP: ("timestamp('2020-02-29T23:59:59.999999999Z')", "timestamp(0)", "timestamp('0001-01-01T00:00:00Z')"),
    Kind.TYPE: ("int", "string", "type(1)", "list", "map", "null_type", "net.IP", "optional_type", "google.protobuf.Duration"),
}  # fmt: skip
_NAMED = {
    "kubernetes.Quantity": (
        "quantity('1Gi')", "quantity('0')", "quantity('-1.5')", "quantity('9223372036854775808')", "quantity('1n')",
        "quantity('1e99')", "device.capacity['dra.example.com'].memory", "device.capacity[device.driver].cores",
    ),
    "kubernetes.Semver": (
        "semver('1.0.0')", "semver('1.2.3-rc.1+b')", "semver('v1', true)", "device.attributes[device.driver].version",
    ),
    "net.IP": ("ip('10.0.0.1')", "ip('::1')", "ip('fe80::1')"),
    "net.CIDR": ("cidr('10.0.0.0/8')", "cidr('2001:db8::/32')"),
    "kubernetes.URL": ("url('https://a:1/b?c=d')", "url('/x')"),
    "kubernetes.NamedFormat": ("format.dns1123Label()", "format.uri()", "format.date()"),
}  # fmt: skip
_ATTRIBUTES = (
    "device.attributes['dra.example.com'].{0}", "device.attributes[device.driver].{0}", "device.attributes['x'].?{0}",
    "device.attributes['dra.example.com'][?'{0}'].orValue(1)", "device.attributes['dra.example.com']['{0}']",
    "device.attributes['other.example.com'].`{0}`", "has(device.attributes['dra.example.com'].{0})",
    "('{0}' in device.attributes['dra.example.com'])",
)  # fmt: skip
_NAMES = ("model", "index", "healthy", "version", "links", "s", "i", "b", "v", "ls", "li", "lb", "lv", "none")
_SCALARS = (
    Kind.BOOL,
    Kind.INT,
    Kind.UINT,
    Kind.DOUBLE,
    Kind.STRING,
    Kind.BYTES,
    Kind.DURATION,
    Kind.TIMESTAMP,
    Kind.NULL,
)
_BINARY = {
    "_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=",
    "_>_": ">", "_>=_": ">=", "@in": "in", "_&&_": "&&", "_||_": "||",
}  # fmt: skip
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
        self._by_result: dict[str, list[tuple[str, Overload]]] = {}
        for name, overloads in functions().items():
            if (
                name.startswith(("_?_:_", "_[_]", "_[?_]", "_?._", "@", "!_", "-_", "cel.@"))
                and name != "@in"
            ):
                continue
            for overload in overloads:
                self._by_result.setdefault(overload.result.name, []).append((name, overload))

    def expression(self) -> str:
        """Return one expression, of any kind."""
        source = self._source
        kind = source.random()
        if kind < 0.5:
            return self._typed(source.choices(("bool", "dyn", "int", "string", "any"), (6, 1, 1, 1, 1))[0])
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

    # --- by the declarations ------------------------------------------------------------------------------------

    def _typed(self, result: str) -> str:
        kinds = {
            "bool": Type(Kind.BOOL, "bool"),
            "int": Type(Kind.INT, "int"),
            "string": Type(Kind.STRING, "string"),
        }
        return self.of(kinds.get(result, DYN), self._source.choice((1, 2, 3, 3, 4, 5)), ())

    def of(self, kind: Type, depth: int, names: tuple[str, ...]) -> str:
        """Return an expression that is (mostly) of this type; `names` are the variables that may be used."""
        source = self._source
        chance = source.random()
        if chance < 0.03 or (kind.kind in (Kind.DYN, Kind.ANY, Kind.PARAMETER) and chance < 0.9):
            kind = Type(source.choice(_SCALARS), "")
            kind = Type(kind.kind, kind.kind.name.lower())
            if chance < 0.3:
                return self._attribute(names)
            if chance < 0.4:
                kind = Type(Kind.LIST, "list", (DYN,))
            elif chance < 0.45:
                kind = Type(Kind.MAP, "map", (DYN, DYN))
        if depth <= 0 or chance < 0.15:
            return self._leaf(kind, names)
        if chance < 0.3:
            return self._composite(kind, depth, names)
        if kind.kind is Kind.LIST and chance < 0.5:
            return self._list(kind, depth, names)
        if kind.kind is Kind.MAP and chance < 0.6:
            return self._map(kind, depth, names)
        overloads = self._by_result.get(kind.name)
        if not overloads:
            return self._leaf(kind, names)
        return self._call(*source.choice(overloads), depth, names)

    def _leaf(self, kind: Type, names: tuple[str, ...]) -> str:
        source = self._source
        if names and source.random() < 0.5:
            return source.choice(names)
        if kind.name in _NAMED:
            return source.choice(_NAMED[kind.name])
        if kind.kind in _LITERALS:
            return self._attribute(names) if source.random() < 0.3 else source.choice(_LITERALS[kind.kind])
        if kind.kind is Kind.LIST:
            return source.choice(("[]", "[1, 2, 3]", "['a', 'b']", "lists.range(3)", self._attribute(names)))
        if kind.kind is Kind.MAP:
            return source.choice(
                ("{}", "{'a': 1}", "{1: 'a', 2: 'b'}", "device.attributes", "device.capacity")
            )
        if kind.name == "optional_type":
            return source.choice(("optional.none()", "optional.of(1)", "device.attributes[?'x']", "[1][?0]"))
        return self._attribute(names)

    def _attribute(self, names: tuple[str, ...]) -> str:
        source = self._source
        if names and source.random() < 0.4:
            name = source.choice(names)
            return source.choice((name, f"{name}.a", f"{name}[0]", f"{name}.?a", f"{name}[{name}]"))
        return source.choice(_ATTRIBUTES).format(source.choice(_NAMES))

    def _composite(self, kind: Type, depth: int, names: tuple[str, ...]) -> str:
        """Return what may be of any type: a choice, a binding, an index, an optional's value, a dyn."""
        source = self._source
        variable = source.choice(SHORT)
        inner = (*names, variable)
        match source.randrange(8):
            case 0:
                condition = self.of(Type(Kind.BOOL, "bool"), depth - 1, names)
                return (
                    f"({condition} ? {self.of(kind, depth - 1, names)} : {self.of(kind, depth - 1, names)})"
                )
            case 1:
                return f"cel.bind({variable}, {self.of(DYN, depth - 1, names)}, {self.of(kind, depth - 1, inner)})"
            case 2:
                return (
                    f"[{self.of(kind, depth - 1, names)}][{self.of(Type(Kind.INT, 'int'), depth - 1, names)}]"
                )
            case 3:
                optional = self.of(optional_of(kind), depth - 1, names)
                return f"{optional}.orValue({self.of(kind, depth - 1, names)})"
            case 4:
                return f"dyn({self.of(kind, depth - 1, names)})"
            case 5:
                return f"{self.of(Type(Kind.MAP, 'map', (DYN, kind)), depth - 1, names)}[{self.of(DYN, depth - 1, names)}]"
            case 6:
                return f"[?{self.of(optional_of(kind), depth - 1, names)}][0]"
            case _:
                return (
                    f"-({self.of(kind, depth - 1, names)})"
                    if kind.kind is not Kind.BOOL
                    else self._quantifier(depth, names)
                )

    def _quantifier(self, depth: int, names: tuple[str, ...]) -> str:
        source = self._source
        over = self.of(Type(source.choice((Kind.LIST, Kind.MAP)), "list", (DYN, DYN)), depth - 1, names)
        first, second = source.sample(SHORT, 2)
        boolean = Type(Kind.BOOL, "bool")
        if source.random() < 0.6:
            name = source.choice(("all", "exists", "exists_one"))
            return f"{over}.{name}({first}, {self.of(boolean, depth - 1, (*names, first))})"
        name = source.choice(("all", "exists", "exists_one", "existsOne"))
        return f"{over}.{name}({first}, {second}, {self.of(boolean, depth - 1, (*names, first, second))})"

    def _list(self, kind: Type, depth: int, names: tuple[str, ...]) -> str:
        source = self._source
        element = kind.parameters[0] if kind.parameters else DYN
        if source.random() < 0.5:
            items = [self.of(element, depth - 1, names) for _ in range(source.randint(0, 3))]
            return f"[{', '.join(items)}]"
        over = self.of(Type(Kind.LIST, "list", (DYN,)), depth - 1, names)
        first, second = source.sample(SHORT, 2)
        inner, both = (*names, first), (*names, first, second)
        boolean = Type(Kind.BOOL, "bool")
        match source.randrange(5):
            case 0:
                return f"{over}.map({first}, {self.of(element, depth - 1, inner)})"
            case 1:
                return f"{over}.map({first}, {self.of(boolean, depth - 1, inner)}, {self.of(element, depth - 1, inner)})"
            case 2:
                return f"{over}.filter({first}, {self.of(boolean, depth - 1, inner)})"
            case 3:
                return f"{over}.sortBy({first}, {self.of(Type(Kind.INT, 'int'), depth - 1, inner)})"
            case _:
                test = f"{self.of(boolean, depth - 1, both)}, " if source.random() < 0.5 else ""
                return f"{over}.transformList({first}, {second}, {test}{self.of(element, depth - 1, both)})"

    def _map(self, kind: Type, depth: int, names: tuple[str, ...]) -> str:
        source = self._source
        key, value = kind.parameters if len(kind.parameters) == 2 else (DYN, DYN)
        if source.random() < 0.6:
            entries = [
                f"{source.choice(('', '', '', '?'))}{self.of(key, depth - 1, names)}: {self.of(value, depth - 1, names)}"
                for _ in range(source.randint(0, 3))
            ]
            return f"{{{', '.join(entries)}}}"
        over = self.of(Type(source.choice((Kind.LIST, Kind.MAP)), "map", (DYN, DYN)), depth - 1, names)
        first, second = source.sample(SHORT, 2)
        both = (*names, first, second)
        test = f"{self.of(Type(Kind.BOOL, 'bool'), depth - 1, both)}, " if source.random() < 0.5 else ""
        if source.random() < 0.5:
            return f"{over}.transformMap({first}, {second}, {test}{self.of(value, depth - 1, both)})"
        entry = f"{{{self.of(key, depth - 1, both)}: {self.of(value, depth - 1, both)}}}"
        return f"{over}.transformMapEntry({first}, {second}, {test}{entry})"

    def _call(self, name: str, overload: Overload, depth: int, names: tuple[str, ...]) -> str:
        arguments = [self.of(kind, depth - 1, names) for kind in overload.arguments]
        if name in _BINARY and len(arguments) == 2:
            return f"({arguments[0]} {_BINARY[name]} {arguments[1]})"
        if overload.member:
            target = arguments[0] if self._source.random() < 0.9 else f"dyn({arguments[0]})"
            return f"{target}.{name}({', '.join(arguments[1:])})"
        return f"{name}({', '.join(arguments)})"

    # --- by mutation --------------------------------------------------------------------------------------------

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
                    leaf = self.of(DYN, source.randint(0, 2), ())
                    text = text[:at] + leaf + text[min(to, at + 8) :]
                case 5:
                    text = f"({text}) {source.choice(('&&', '||', '==', '!=', 'in', '+'))} ({self.known()})"
                case _:
                    number = source.choice(
                        ("0", "-1", "9223372036854775807", "1e309", "18446744073709551615u", "null")
                    )
                    text = text.replace("1", number, 1)
        return text
