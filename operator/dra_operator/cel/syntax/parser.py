"""Parser: from text to the syntax tree, with every refusal as a CelError at its place.

Lark reads cel-python's `cel.lark`, corrected in memory where it is not the language of Kubernetes; each place must be
found, so a release that changes the file fails a test and not an allocation. Its tables are kept in the user's cache
folder: computing them takes longer than compiling a hundred expressions.
Source: cel-go `parser/parser.go`, for the limits and the wording, `parser/gen/CEL.g4`.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dra_operator.cel.errors import compile_error
from dra_operator.cel.syntax import nodes
from dra_operator.cel.syntax.macros import expand
from dra_operator.cel.syntax.nodes import Expr
from dra_operator.cel.types.environment import Environment
from dra_operator.cel.values import Uint, legal_text

if TYPE_CHECKING:
    from lark import Lark, Token


# --- Builder: from reductions of the parser to the syntax tree, while the text is read; no parse tree is made.
# For each rule of the grammar, and each kind of literal, there is a function here. What the grammar accepts beyond
# the language is refused. Chains of `&&` and `||` become balanced trees and macros are expanded, as in cel-go,
# because costs and the order of evaluation depend on both. Source: cel-go `parser/parser.go`, `parser/unescape.go`
# (strings).


_IGNORED_AFTER_SIGN: Final = r"(?<=^-)(?:[\t\n\f\r ]|//[^\n]*\n)+"
_ESCAPED: Final = r"(?s)\\(?:[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)"
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip


def integer(text: str, position: int) -> int:
    """Return the value of an int literal with or without its sign; raises CelError beyond 64 bits."""
    value = _number(text)
    if not -(2**63) <= value < 2**63:
        raise compile_error("invalid int literal", position)
    return value


def unsigned(text: str, position: int) -> Uint:
    """Return the value of a uint literal; raises CelError beyond 64 bits."""
    value = _number(text[:-1])
    if value >= 2**64:
        raise compile_error("invalid uint literal", position)
    return Uint(value)


def _number(text: str) -> int:
    text = _without_ignored(text)
    return int(text, 16) if "0x" in text else int(text) if len(text) <= 30 else _long_decimal(text)


def _without_ignored(text: str) -> str:
    """Return a number without what may stand between it and its sign."""
    return re.sub(_IGNORED_AFTER_SIGN, "", text) if text[0] == "-" else text


def _long_decimal(text: str) -> int:
    """Zeros in front may be many; anything else of that length is out of range, whatever its digits."""
    digits = text.lstrip("-").lstrip("0") or "0"
    value = int(digits) if len(digits) <= 30 else 2**64
    return -value if text.startswith("-") else value


def double(text: str, position: int) -> float:
    """Return the value of a double literal; raises CelError if it is too large for one."""
    value = float(_without_ignored(text))
    if value in (float("inf"), float("-inf")):
        raise compile_error("invalid double literal", position)
    return value


def string(text: str, position: int) -> str:
    """Return what a quoted string says; raises CelError for an escape that is no character."""
    body, raw = _unquoted(text)
    if raw or "\\" not in body:
        return body

    def character(match: re.Match[str]) -> str:
        escape = match.group()[1:]
        simple = _SIMPLE.get(escape)
        if simple is not None:
            return simple
        code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise compile_error("invalid unicode code point", position)
        return chr(code)

    return re.sub(_ESCAPED, character, body)


def binary(text: str, position: int) -> bytes:
    """Return what a bytes literal says; characters are UTF-8, hexadecimal and octal escapes are bytes."""
    body, raw = _unquoted(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts, end = [], 0
    for match in re.finditer(_ESCAPED, body):
        parts.append(body[end : match.start()].encode())
        parts.append(_byte(match.group()[1:], position))
        end = match.end()
    return b"".join((*parts, body[end:].encode()))


def _byte(escape: str, position: int) -> bytes:
    simple = _SIMPLE.get(escape)
    if simple is not None:
        return simple.encode()
    if escape[0] in "uU":
        raise compile_error("unable to unescape string", position)
    return bytes((int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16),))


def _unquoted(text: str) -> tuple[str, bool]:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


Reduction: TypeAlias = Callable[[list[Any]], Any]
"""Makes one record of the parts of a rule, which are records and tokens."""

_RESERVED: Final = frozenset(
    (
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "package", "namespace", "null", "return", "true", "var", "void", "while",
    )
)  # fmt: skip
_KEYWORDS: Final = frozenset(("false", "in", "null", "true"))


class _Chain:
    """Terms of one logical operator, not yet a tree, since what follows may belong to it."""

    __slots__ = ("function", "operators", "terms")

    def __init__(self, function: str, first: nodes.Expr) -> None:
        self.function = function
        self.terms = [first]
        self.operators: list[int] = []


class _Unary:
    """Unary operators in front of a member, all of one kind, counted: an even number of them means none.

    What follows the member may belong to it.
    """

    __slots__ = ("count", "member", "operator", "position")

    def __init__(self, operator: "Token", member: nodes.Expr) -> None:
        self.operator, self.position = str(operator), _position(operator)
        self.member = member
        self.count = 1


def _position(token: "Token") -> int:
    assert token.start_pos is not None
    return token.start_pos


def _finished(part: Any) -> nodes.Expr:
    return _balanced(part, 0, len(part.operators) - 1) if type(part) is _Chain else part


def _balanced(chain: _Chain, low: int, high: int) -> nodes.Expr:
    middle = (low + high + 1) // 2
    left = chain.terms[middle] if middle == low else _balanced(chain, low, middle - 1)
    right = chain.terms[middle + 1] if middle == high else _balanced(chain, middle + 1, high)
    return nodes.Call(nodes.next_id(), chain.operators[middle], chain.function, (left, right))


def _name(token: "Token") -> str:
    """Return the name of a field or method: any word but the keywords, or a quoted one."""
    if token[0] == "`":
        return token[1:-1]
    if token in _KEYWORDS:
        raise compile_error(f"Syntax error: mismatched input '{token}' expecting IDENTIFIER", token.start_pos)
    return str(token)


def _variable(token: "Token") -> str:
    if token in _RESERVED:
        raise compile_error(f"reserved identifier: {token}", token.start_pos)
    return str(token)


def _arguments(parts: list[Any]) -> tuple[nodes.Expr, ...]:
    """Return the arguments between the last two parentheses."""
    given = parts[-2]
    return given if isinstance(given, tuple) else ()


def _unsigned(expr: nodes.Expr, *, value: bool) -> nodes.Expr:
    """Return `expr` with its leftmost number freed of its sign: of the mark alone, or of the minus as well."""
    match expr:
        case nodes.Literal(signed=True):
            return replace(expr, signed=False, value=_negated(expr) if value else expr.value)
        case nodes.Select():
            operand = _unsigned(expr.operand, value=value)
            return expr if operand is expr.operand else replace(expr, operand=operand)
        case nodes.Call(target=target) if target is not None:
            changed = _unsigned(target, value=value)
            return expr if changed is target else replace(expr, target=changed)
        case nodes.Call(function="_[_]" | "_[?_]" | "_?._", args=(first, second)):
            changed = _unsigned(first, value=value)
            return expr if changed is first else replace(expr, args=(changed, second))
        case _:
            return expr


def _negated(number: nodes.Literal) -> Any:
    """Return a number without its minus; raises CelError for the one int that is too large then."""
    if number.value == -(2**63) and isinstance(number.value, int):
        raise compile_error("invalid int literal", number.position + 1)
    return -number.value


def _whole(part: Any) -> Any:
    """Return a member with its unary operators applied."""
    if type(part) is not _Unary:
        return part
    count, member = part.count, part.member
    if part.operator == "-" and _unsigned(member, value=False) is not member:
        # `--1` is two operators before 1, not one before -1: a sign belongs to the number only when it stands alone.
        count, member = count + 1, _unsigned(member, value=True)
    return (
        member
        if count % 2 == 0
        else nodes.Call(nodes.next_id(), part.position, f"{part.operator}_", (member,))
    )


def _call(
    position: int, function: str, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]
) -> nodes.Expr:
    expanded = expand(position, function, target, args)
    return nodes.Call(nodes.next_id(), position, function, args, target) if expanded is None else expanded


def _message_name(member: nodes.Expr, position: int) -> str:
    if isinstance(member, nodes.Ident):
        return member.name
    if isinstance(member, nodes.Select) and not member.test_only:
        return f"{_message_name(member.operand, position)}.{member.field}"
    raise compile_error("Syntax error: mismatched input '{' expecting <EOF>", position)


# --- operators ------------------------------------------------------------------------------------------------------


def _conditional(parts: list[Any]) -> nodes.Expr:
    condition, mark, chosen, _colon, other = parts
    terms = (_finished(condition), _finished(chosen), other)
    return nodes.Call(nodes.next_id(), _position(mark), "_?_:_", terms)


def _logical(function: str) -> Reduction:
    def chained(parts: list[Any]) -> _Chain:
        left, operator, right = parts
        chain: _Chain = (
            left if type(left) is _Chain and left.function == function else _Chain(function, _finished(left))
        )
        chain.terms.append(_finished(right))
        chain.operators.append(_position(operator))
        return chain

    return chained


def _operation(parts: list[Any]) -> nodes.Expr:
    (left, operator), right = parts
    function = "@in" if operator == "in" else f"_{operator}_"
    return nodes.Call(nodes.next_id(), _position(operator), function, (left, _whole(right)))


def _unary(parts: list[Any]) -> _Unary:
    operator, operand = parts
    if type(operand) is not _Unary:
        return _Unary(operator, operand)
    if operand.operator != operator:
        raise compile_error(f"Syntax error: extraneous input '{operand.operator}'", operand.position)
    operand.count += 1
    operand.position = _position(operator)
    return operand


# --- members --------------------------------------------------------------------------------------------------------


def _member_dot(parts: list[Any]) -> nodes.Expr:
    operand, dot, *_, name = parts
    if len(parts) == 3:
        return nodes.Select(nodes.next_id(), _position(dot), operand, _name(name))
    field = nodes.Literal(nodes.next_id(), _position(name), _name(name))
    return nodes.Call(nodes.next_id(), _position(dot), "_?._", (operand, field))


def _member_dot_arg(parts: list[Any]) -> nodes.Expr:
    target, _dot, name, bracket, *_ = parts
    return _call(_position(bracket), _name(name), target, _arguments(parts))


def _member_index(parts: list[Any]) -> nodes.Expr:
    operand, bracket = parts[:2]
    function = "_[_]" if len(parts) == 4 else "_[?_]"
    return nodes.Call(nodes.next_id(), _position(bracket), function, (operand, parts[-2]))


def _member_object(parts: list[Any]) -> nodes.Expr:
    member, brace, *rest = parts
    position = _position(brace)
    fields = tuple(rest[0]) if isinstance(rest[0], list) else ()
    return nodes.Struct(nodes.next_id(), position, _message_name(member, position), fields)


def _dot_ident_arg(parts: list[Any]) -> nodes.Expr:
    _dot, name, bracket, *_ = parts
    return _call(_position(bracket), "." + _variable(name), None, _arguments(parts))


def _ident_arg(parts: list[Any]) -> nodes.Expr:
    name, bracket, *_ = parts
    return _call(_position(bracket), _variable(name), None, _arguments(parts))


def _dot_ident(parts: list[Any]) -> nodes.Expr:
    _dot, name = parts
    return nodes.Ident(nodes.next_id(), _position(name), "." + _variable(name))


def _ident(parts: list[Any]) -> nodes.Expr:
    token = parts[0]
    return nodes.Ident(nodes.next_id(), _position(token), _variable(token))


# --- lists, maps and literals ---------------------------------------------------------------------------------------


def _list_lit(parts: list[Any]) -> nodes.Expr:
    elements: list[tuple[nodes.Expr, bool]] = parts[1] if isinstance(parts[1], list) else []
    optional = frozenset(index for index, (_, optional) in enumerate(elements) if optional)
    values = tuple([element for element, _ in elements])
    return nodes.ListExpr(nodes.next_id(), _position(parts[0]), values, optional)


def _map_lit(parts: list[Any]) -> nodes.Expr:
    entries = tuple(parts[1]) if isinstance(parts[1], list) else ()
    return nodes.MapExpr(nodes.next_id(), _position(parts[0]), entries)


def _gathered(parts: list[Any]) -> list[Any]:
    if len(parts) == 1:
        return parts
    parts[0].append(parts[2])
    return parts[0]  # type: ignore[no-any-return]


def _fieldinit(parts: list[Any]) -> nodes.Field:
    *_, name, colon, value = parts
    return nodes.Field(nodes.next_id(), _position(colon), _name(name), value, optional=len(parts) == 4)


def _mapinit(parts: list[Any]) -> nodes.Entry:
    *_, key, colon, value = parts
    return nodes.Entry(nodes.next_id(), _position(colon), key, value, optional=len(parts) == 4)


def _literal(parts: list[Any]) -> nodes.Literal:
    token = parts[0]
    position = _position(token)
    value = _LITERALS[token.type](str(token), position)
    return nodes.Literal(nodes.next_id(), position, value, token[0] == "-")


_LITERALS: Final[dict[str, Callable[[str, int], Any]]] = {
    "INT_LIT": integer,
    "UINT_LIT": unsigned,
    "FLOAT_LIT": double,
    "STRING_LIT": string,
    "BYTES_LIT": binary,
    "BOOL_LIT": lambda text, _position: text == "true",
    "NULL_LIT": lambda _text, _position: None,
}


def _unless_alone(reduce: Reduction, end: Callable[[Any], Any] | None = None) -> Reduction:
    """Return what passes the only part of a rule on, made an expression by `end`, and reduces more than one."""
    if end is None:
        return lambda parts: parts[0] if len(parts) == 1 else reduce(parts)
    return lambda parts: end(parts[0]) if len(parts) == 1 else reduce(parts)


REDUCTIONS: Final[dict[str, Reduction]] = {
    "expr": _unless_alone(_conditional, _finished),
    "conditionalor": _unless_alone(_logical("_||_")),
    "conditionaland": _unless_alone(_logical("_&&_")),
    "relation": _unless_alone(_operation),
    "addition": _unless_alone(_operation),
    "multiplication": _unless_alone(_operation, _whole),
    "unary": _unless_alone(_unary),
    **dict.fromkeys(("unary_not", "unary_neg", "member", "primary"), lambda parts: parts[0]),
    "member_dot": _member_dot,
    "member_dot_arg": _member_dot_arg,
    "member_index": _member_index,
    "member_object": _member_object,
    "dot_ident_arg": _dot_ident_arg,
    "ident_arg": _ident_arg,
    "dot_ident": _dot_ident,
    "ident": _ident,
    "paren_expr": lambda parts: _unsigned(parts[1], value=False),
    "list_lit": _list_lit,
    "map_lit": _map_lit,
    "exprlist": lambda parts: tuple(parts[::2]),
    "listinit": _gathered,
    "fieldinits": _gathered,
    "mapinits": _gathered,
    "optexpr": lambda parts: (parts[-1], len(parts) == 2),
    "fieldinit": _fieldinit,
    "mapinit": _mapinit,
    "literal": _literal,
    **dict.fromkeys(
        (
            "relation_lt", "relation_le", "relation_gt", "relation_ge", "relation_eq", "relation_ne", "relation_in",
            "addition_add", "addition_sub", "multiplication_mul", "multiplication_div", "multiplication_mod",
        ),
        lambda parts: parts,
    ),
}  # fmt: skip
"""What is made of each rule of the grammar."""


# --- The parser.


_ESCAPE = (
    r"""\\[abfnrtv"'\\?`]|\\[0-3][0-7][0-7]|\\[xX][0-9a-fA-F]{2}"""
    r"""|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}"""
)
# Lark takes a backslash before a double quote away, so in these patterns none stands there.
STRING = "|".join(
    (
        r'''[rR]"""(?:[^"]|"(?!""))*"""''',
        r"""[rR]'''(?:[^']|'(?!''))*'''""",
        rf'''"""(?:{_ESCAPE}|[^"\\]|"(?!""))*"""''',
        rf"""'''(?:{_ESCAPE}|[^\\']|'(?!''))*'''""",
        r'''[rR]"[^"\n\r]*"''',
        r"""[rR]'[^'\n\r]*'""",
        rf'''"(?:{_ESCAPE}|[^"\\\n\r])*"''',
        rf"""'(?:{_ESCAPE}|[^\\'\n\r])*'""",
    )
)
_SIGN = r"(?:-(?:[\t\n\f\r ]|\/\/[^\n]*\n)*)?"
_WORD_ENDS = r"(?![_a-zA-Z0-9])"
_PATCHES: tuple[tuple[str, str], ...] = (
    # Optional selection and indexing, back-quoted fields, a trailing comma in messages.
    ('member_dot     : member "." IDENT\n', 'member_dot     : member "." ["?"] (IDENT | QUOTED_IDENT)\n'),
    ('member_index   : member "[" expr "]"\n', 'member_index   : member "[" ["?"] expr "]"\n'),
    (
        'member_object  : member "{" [fieldinits] "}"\n',
        'member_object  : member "{" [fieldinits] [","] "}"\n',
    ),
    # Optional elements and trailing commas; left recursive, or the last comma would be a conflict.
    ('list_lit       : "[" [exprlist] "]"\n', 'list_lit       : "[" [listinit] [","] "]"\n'),
    ('map_lit        : "{" [mapinits] "}"\n', 'map_lit        : "{" [mapinits] [","] "}"\n'),
    (
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)*\n',
        (
            'listinit       : optexpr | listinit "," optexpr\n'
            'optexpr        : ["?"] expr\n'
            'fieldinits     : fieldinit | fieldinits "," fieldinit\n'
            'fieldinit      : ["?"] (IDENT | QUOTED_IDENT) ":" expr\n'
        ),
    ),
    (
        'mapinits       : expr ":" expr ("," expr ":" expr)*\n',
        'mapinits       : mapinit | mapinits "," mapinit\nmapinit        : ["?"] expr ":" expr\n',
    ),
    # Numbers: the sign may stand apart, a fraction needs digits, and each kind is one token.
    (
        "INT_LIT        : /-?/ /0x/ HEXDIGIT+ | /-?/ DIGIT+\n",
        f"INT_LIT.1 : /{_SIGN}(?:0x[0-9a-fA-F]+|[0-9]+)/\n",
    ),
    ("UINT_LIT       : INT_LIT /[uU]/\n", "UINT_LIT.2 : /(?:0x[0-9a-fA-F]+|[0-9]+)[uU]/\n"),
    (
        'FLOAT_LIT      : /-?/ DIGIT+ "." DIGIT* EXPONENT? | /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT\n',
        rf"FLOAT_LIT.3 : /{_SIGN}(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/" + "\n",
    ),
    # Words end where the letters end: `trueish` and `inner` are names.
    ('BOOL_LIT       : "true" | "false"\n', f"BOOL_LIT.4 : /(?:true|false){_WORD_ENDS}/\n"),
    ('NULL_LIT       : "null"\n', f"NULL_LIT.4 : /null{_WORD_ENDS}/\n"),
    ('relation_in    : relation "in"\n', f"relation_in    : relation IN\nIN.4 : /in{_WORD_ENDS}/\n"),
    (
        "IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/\n",
        "IDENT          : /[_a-zA-Z][_a-zA-Z0-9]*/\n" + r"QUOTED_IDENT : /`[a-zA-Z0-9_.\/ \-]+`/" + "\n",
    ),
    # Strings: raw ones have no escapes, others only those of the language, and bytes are either kind.
    (
        "literal        : UINT_LIT | FLOAT_LIT | INT_LIT | MLSTRING_LIT | STRING_LIT | BYTES_LIT\n",
        "literal        : UINT_LIT | FLOAT_LIT | INT_LIT | STRING_LIT | BYTES_LIT\n",
    ),
)
_STRING_BLOCK = ("STRING_LIT     :", "// Moved into STRING_LIT and MLSTRING_LIT")
_STRING_TOKENS = f"STRING_LIT.5 : /(?:{STRING})/\nBYTES_LIT.5 : /[bB](?:{STRING})/\n\n"


class GrammarChangedError(Exception):
    """cel-python's grammar no longer has a text that this module replaces."""


def patched(grammar: str) -> str:
    """Return cel-python's grammar as the language of Kubernetes.

    Raises GrammarChangedError if a place to patch is missing or there twice.
    """
    for old, new in _PATCHES:
        if grammar.count(old) != 1:
            raise GrammarChangedError(f"cel.lark no longer contains exactly one {old.strip()!r}")
        grammar = grammar.replace(old, new)
    start, end = (grammar.find(mark) for mark in _STRING_BLOCK)
    if not 0 <= start < end:
        raise GrammarChangedError("cel.lark no longer has its string literals where they were")
    return grammar[:start] + _STRING_TOKENS + grammar[end:]


def grammar() -> str:
    """Return the grammar that expressions are read by."""
    found = find_spec("celpy")
    assert found is not None
    assert found.submodule_search_locations is not None
    # Looked up, not imported: of cel-python we need this file only, and importing it takes longer than all we do here.
    (folder,) = found.submodule_search_locations
    return patched(Path(folder, "cel.lark").read_text(encoding="utf-8"))


MAX_BYTES: Final = 10 * 1024
"""The longest expression the API server admits (`CELSelectorExpressionMaxLength`)."""
MAX_DEPTH: Final = 250
"""How deep brackets may nest."""


def parse(text: str, environment: Environment) -> Expr:
    """Return the syntax tree of an expression, macros expanded; raises CelError with a code-point position."""
    text = legal_text(text)
    if sum(map(text.count, "([{")) >= MAX_DEPTH:
        _check_depth(text)
    expr = _read(text)
    if not environment.rules.quoted_fields and "`" in text:
        for token in _parser().lex(text):
            if token.type == "QUOTED_IDENT":
                raise compile_error("unsupported syntax: '`'", token.start_pos)
    return expr


def _read(text: str) -> Expr:
    # Imported with the parser: devices are counted also where no expression is ever read.
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415

    try:
        return _parser().parse(text)  # type: ignore[return-value]
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise compile_error("Syntax error: mismatched input '<EOF>'", len(text)) from None
        raise compile_error(f"Syntax error: mismatched input '{error.token}'", error.pos_in_stream) from None
    except UnexpectedCharacters as error:
        place = error.pos_in_stream
        assert place is not None
        raise compile_error(f"Syntax error: token recognition error at: '{text[place]}'", place) from None


@cache
def _parser() -> "Lark":
    from lark import Lark  # noqa: PLC0415

    return Lark(
        grammar(), parser="lalr", lexer="contextual", start="expr", keep_all_tokens=True, maybe_placeholders=False,
        transformer=SimpleNamespace(**REDUCTIONS), cache=_cache() or False,
    )  # fmt: skip


def _cache() -> str | None:
    """Return the file for Lark's tables, None if there can be none.

    It is the user's own: what Lark finds there it executes, and the folder for temporary files is everybody's.
    """
    with suppress(OSError, RuntimeError):
        folder = Path.home() / ".cache" / "dra-operator"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder / "cel.lark")
    return None


def _check_depth(text: str) -> None:
    depth = 0
    for found in re.finditer(rf"{STRING}|//[^\n]*|([(\[{{])|([)\]}}])", text):
        depth += bool(found[1]) - bool(found[2])
        if depth >= MAX_DEPTH:
            raise compile_error(f"expression recursion limit exceeded: {MAX_DEPTH}", found.start())
