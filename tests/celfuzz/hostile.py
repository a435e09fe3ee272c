"""Hostile expressions: what somebody would write who wants the operator to stand still.

Short texts that stand for large values (doubling, nested folds), patterns and numbers that take long to read, nesting as deep
as 10 KiB allow.
"""

import random
from typing import Protocol

LONGEST = 10 * 1024


class Known(Protocol):
    """Something that knows expressions."""

    def known(self) -> str:
        """Return one."""
        ...


_DOUBLINGS = (
    "[{0}, {0}]", "{0} + {0}", "{{'a': {0}, 'b': {0}}}", "[{0}, {0}, {0}, {0}]", "optional.of([{0}, {0}])",
    "[{0}].map(i, [{0}, i])", "{{'a': [{0}, {0}]}}", "[{0}, {0}].flatten(9)", "[string({0}), string({0})]", "{{{0}: {0}}}",
    "'%s%s'.format([{0}, {0}])", "[{0}, {0}].join('')", "{0}.map(i, {0})", "dyn([{0}, {0}])", "lists.range(2).map(i, {0})",
    "[0, 1].transformMap(i, v, {0})", "{0}.replace('', 'ab')", "quantity('1e90').add({0})", "{0} * {0}",
)  # fmt: skip
_SEEDS = (
    "1", "'a'", "'ab'", "[]", "[1]", "{}", "b'a'", "'\\u00e9'", "1.5", "quantity('9e18')", "device",
    "device.attributes",
)  # fmt: skip
_USES = (
    "{0} == {0}", "{0} != {1}", "{0} in [{1}]", "[{0}] == [{1}]", "string({0}) == ''", "'%s'.format([{0}]) == ''",
    "size({0}) > 0", "sets.equivalent([{0}], [{1}])", "sets.contains([{0}, 1], [{1}])", "[{0}, {1}, {0}].distinct().size() > 1",
    "[{0}].indexOf({1}) == 0", "{0}.flatten(200).size() > 0", "optional.of({0}) == optional.of({1})", "{0}.join(',') == ''",
    "{0}.exists(e, e == {1})", "{0}.all(e, {1}.all(f, f == e))", "{{{0}: 1}} == {{{1}: 1}}", "type({0}) == list", "{0} < {1}",
    "{0}.matches('a*b')", "{0}.find('(a|b)*c') == ''", "{0}.findAll('').size() > 0", "{0}.contains({1})", "{0}.split('').size() > 0",
    "{0}.indexOf({1}) > 0", "{0}.lastIndexOf({1} + 'x') > 0", "{0}.isSorted()", "{0}.sum() > 0", "{0}.sortBy(e, e) == {1}",
    "optional.ofNonZeroValue({0}).hasValue()", "{0}.includes({1})", "dyn({0}).includes({1})", "{0}.replace('a', {1}) == ''",
    "{0}.reverse() == {1}", "bytes({0}) == b''", "{0}.upperAscii().lowerAscii() == {1}", "strings.quote({0}) == ''",
    "{0}.transformList(i, v, v) == {1}", "{0}.transformMapEntry(i, v, {{v: {1}}}) == {{}}", "{0}.min() == {1}", "device == {0}",
    "'%d %x %e'.format([{0}, {1}, {0}]) == ''", "{0}.compareTo({1}) == 0", "{0}.asInteger() > 0", "{0}.trim() == {1}",
    "duration({0}) == duration({1})", "int({0}) == 1", "double({0}) > 1.0", "timestamp({0}) > timestamp(0)", "semver({0}).major() > 0",
    "isQuantity({0})", "quantity({0}).isInteger()", "isURL({0})", "isIP({0})", "isCIDR({0})", "format.uri().validate({0}).hasValue()",
    "format.date().validate({0}).hasValue()", "format.dns1123Subdomain().validate({0}).hasValue()", "format.byte().validate({0}) == optional.none()",
)  # fmt: skip
_PATTERNS = (
    "(a+)+$", "(a|a)*b", "(.*)*", "((a{0,100}){0,100}){0,100}", "a{1000}", "(x+x+)+y", "[\\\\p{L}]{500}", "(?i)\\u212a", ".{1,1000}",
    "(((((((((a*)*)*)*)*)*)*)*)*)*", "a**", "(?P<n>a)(?P<n>b)", "\\\\C", "[a-", "(?<!a)b", "\\\\1", "(?:a?){50}a{50}", "^(([a-z])+.)+[A-Z]$",
    "\\\\pN{1000}", "(a{0,1000}){0,1}", "[^\\\\x00-\\\\x{10FFFF}]", "\\\\b\\\\B*", "(?s).*(?s).*(?s).*=.*",
)  # fmt: skip
_LITERALS = (
    "9" * 400, "0x" + "F" * 300, "1e999999999", "1.{zeros}1e-400", "'{long}'", "b'{long}'", "'''{long}'''", "quantity('1e{nines}')",
    "quantity('{nines}')", "quantity('0.{zeros}1')", "semver('{nines}.0.0')", "semver('1.0.0-{long}')", "duration('{nines}h')",
    "duration('1.{zeros}1s')", "timestamp('{nines}-01-01T00:00:00Z')", "double('{nines}')", "double('1e{nines}')", "int('{nines}')",
    "ip('{long}')", "url('{long}')", "'%.{nines}f'.format([1.0])", "'%{nines}s'.format(['a'])", "lists.range({million})",
    "lists.range(1000).map(x, lists.range(1000))", "'{long}'.matches('{pattern}')", "'{long}'.find('{pattern}')",
    "'{long}'.findAll('{pattern}')", "'a'.matches('{long}')", "'{long}'.split('')", "'{long}'.replace('a', '{long}')",
    "[{many}]", "{{{entries}}}", "[{many}] == [{many}]", "{first}.substring(0, 9223372036854775807)", "'a'.charAt({nines})",
    "format.named('{long}')", "timestamp(0).getHours('{long}')", "'{long}' + '{long}'", "bytes('{long}')", "string(b'{long}')",
    "duration('{units}')", "quantity('{zeros}e-{nines}')", "bool('{long}')", "'{long}'.lastIndexOf('{long}b')", "cidr('{long}/8')",
)  # fmt: skip
_NESTINGS = (
    ("(", "1", ")"), ("[", "1", "]"), ("{{'a': ", "1", "}}"), ("!", "true", ""), ("-", "1", ""), ("dyn(", "1", ")"),
    ("1 + (", "1", ")"), ("true && (", "true", ")"), ("[1].all(a, ", "true", ")"), ("cel.bind(a, 1, ", "a", ")"),
    ("has(", "device.driver", ")"), ("optional.of(", "1", ")"), ("true ? ", "true", " : false"), ("[1].map(a, ", "a", ")"),
    ("", "device", ".a"), ("", "device", "['a']"), ("", "[1]", ".map(x, x)"), ("", "1", " + 1"), ("", "true", " && true"),
    ("", "true", " || false"), ("", "'a'", " + 'a'"), ("", "optional.of(1)", ".or(optional.none())"), ("", "device", ".?a"),
    ("size([", "1", "])"), ("string(", "1", ")"), ("[[1]].exists(x, x == ", "[1]", ")"), ("", "[1]", " + [1]"), ("", "1", " == 1"),
    ("[0, 1].all(a, ", "true", ")"), ("lists.range(9).map(x, ", "x", ")"), ("{{1: 2}}.transformMap(k, v, ", "1", ")"),
    ("cel.bind(a, [1, 2], ", "a", ")"), ("[1, 2].exists(x, y, x == y || ", "false", ")"), ("type(", "1", ")"), ("", "device", "[device]"),
    ("optional.of(1).optMap(a, ", "a", ")"), ("[1, 2, 3].sortBy(a, ", "a", ")"), ("false || [1].exists_one(a, ", "false", ")"),
)  # fmt: skip


def expression(source: random.Random, expressions: Known) -> str:
    """Return one hostile expression."""
    match source.randrange(6):
        case 0 | 1:
            text = _doubled(source)
        case 2:
            text = _nested(source)
        case 3:
            text = _folds(source)
        case 4:
            text = _repeated(source, expressions.known())
        case _:
            text = _literal(source)
    return text[:LONGEST]


def _doubled(source: random.Random) -> str:
    """Return bindings that double a value many times, and something that looks at all of it."""
    count = source.choice((3, 8, 15, 20, 25, 30, 60, 100))
    seed = source.choice(_SEEDS)
    step = source.choice(_DOUBLINGS)
    steps = [step if source.random() < 0.9 else source.choice(_DOUBLINGS) for _ in range(count)]
    names = [f"v{index}" for index in range(count + 1)]
    use = source.choice(_USES).format(
        source.choice((names[-1], names[-2])), source.choice((names[-1], names[-1], seed))
    )
    text = f"cel.bind({names[0]}, {seed}, "
    for index, part in enumerate(steps):
        text += f"cel.bind({names[index + 1]}, {part.format(names[index])}, "
    if source.random() < 0.5:
        text = text.replace(", v", ", dyn(v", 0)
        use = use.replace(names[-1], f"dyn({names[-1]})")
    return text + use + ")" * (count + 1)


def _nested(source: random.Random) -> str:
    before, middle, after = (part.replace("{{", "{").replace("}}", "}") for part in source.choice(_NESTINGS))
    count = source.choice((10, 50, 100, 200, 249, 251, 1000, 5000))
    count = min(count, LONGEST // max(1, len(before) + len(after)))
    text = before * count + middle + after * count
    return text if source.random() < 0.5 else f"{text} == {text[: LONGEST // 2]}"


def _folds(source: random.Random) -> str:
    """Return folds within folds, over lists that are longer than they look."""
    depth = source.randint(2, 7)
    width = source.choice((2, 10, 48, 100, 1000, 100_000))
    over = source.choice(
        (
            f"lists.range({width})",
            f"[{', '.join(['1'] * min(width, 300))}]",
            "device.attributes",
            "'a'.split('')",
        )
    )
    text = source.choice(
        ("true", "v0 == v1", "v0 + v1 > 0", "[v0, v1] in [[v1, v0]]", "string(v0).matches('1*$')", "false")
    )
    for index in range(depth):
        name = source.choice(("all", "exists", "map", "filter", "exists_one", "sortBy"))
        ending = "" if name in ("all", "exists", "exists_one") else ".size() > 0"
        text = f"{over}.{name}(v{index}, {text}){ending}"
    return text


def _repeated(source: random.Random, known: str) -> str:
    operator = source.choice((" && ", " || ", " == ", " + ", ", ", " in "))
    count = max(1, min(source.choice((5, 30, 100, 300)), LONGEST // (len(known) + 6)))
    return operator.join([f"({known})"] * count)


def _literal(source: random.Random) -> str:
    text = source.choice(_LITERALS)
    length = source.choice((10, 100, 1000, 5000, 9000))
    parts = {
        "long": source.choice(("a", "ab", "9", "1.", "\\u00e9", ":", "/", "%s", "-", "%25", "=")) * (length // 2),
        "nines": "9" * source.choice((1, 2, 5, 9, 19, 40, length // 3)),
        "zeros": "0" * length,
        "million": source.choice(("1000", "100000", "1000000", "9223372036854775807")),
        "pattern": source.choice(_PATTERNS),
        "many": ", ".join(["1"] * (length // 4)),
        "entries": ", ".join(f"{index}: {index}" for index in range(length // 9)),
        "first": source.choice(("'a'", "'\\u00e9'")),
        "units": "1h1m1s1ms" * (length // 9),
    }  # fmt: skip
    for name, value in parts.items():
        text = text.replace("{" + name + "}", value)
    text = text.replace("{{", "{").replace("}}", "}")
    return (
        text
        if source.random() < 0.4
        else source.choice(("{0} == {0}", "dyn({0}) == 1", "string({0}) == ''", "size({0}) > 1")).replace(
            "{0}", text
        )
    )
