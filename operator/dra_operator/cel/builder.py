"""Builder: from reductions of the parser to the syntax tree, while the text is read.

Lark calls the method named after a rule when it has read all of it, so no parse tree is ever made. The
grammar accepts a little more than the language; what is too much is refused here: reserved words as names,
mixed unary operators, literals out of range. Chains of `&&` and `||` become balanced trees and macros are
expanded, as in cel-go, because costs and the order of evaluation depend on both.
"""

# ruff: noqa: D102 - a method of the builder is named after its rule, and the rule says what it is

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from lark import Token

from dra_operator.cel import literals
from dra_operator.cel.errors import compile_error
from dra_operator.cel.macros import expand
from dra_operator.cel.nodes import (
    Call,
    Entry,
    Expr,
    Field,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    Struct,
    next_id,
)

_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_KEYWORDS: Final = frozenset(("false", "in", "null", "true"))
_READERS: Final[dict[str, Callable[[str, int], Any]]] = {
    "INT_LIT": literals.integer,
    "UINT_LIT": literals.unsigned,
    "FLOAT_LIT": literals.double,
    "STRING_LIT": literals.string,
    "BYTES_LIT": literals.binary,
    "BOOL_LIT": lambda text, _position: text == "true",
    "NULL_LIT": lambda _text, _position: None,
}


class _Chain:
    """Terms of one logical operator, not yet a tree."""

    __slots__ = ("function", "operators", "terms")

    def __init__(self, function: str, first: Expr) -> None:
        self.function = function
        self.terms = [first]
        self.operators: list[int] = []


def _position(token: Token) -> int:
    return token.start_pos or 0


def _finished(part: Any) -> Expr:
    return _balanced(part, 0, len(part.operators) - 1) if isinstance(part, _Chain) else part


def _balanced(chain: _Chain, low: int, high: int) -> Expr:
    middle = (low + high + 1) // 2
    left = chain.terms[middle] if middle == low else _balanced(chain, low, middle - 1)
    right = chain.terms[middle + 1] if middle == high else _balanced(chain, middle + 1, high)
    return Call(next_id(), chain.operators[middle], chain.function, (left, right))


def _name(token: Token) -> str:
    """Return the name of a field or method: any word but the keywords, or a quoted one."""
    if token.type == "QUOTED_IDENT":
        return str(token.value[1:-1])
    if token.value in _KEYWORDS:
        raise compile_error(
            f"Syntax error: mismatched input '{token.value}' expecting IDENTIFIER", _position(token)
        )
    return str(token.value)


def _variable(token: Token) -> str:
    if token.value in _RESERVED:
        raise compile_error(f"reserved identifier: {token.value}", _position(token))
    return str(token.value)


def _arguments(parts: list[Any]) -> tuple[Expr, ...]:
    """Return the arguments between the last two parentheses."""
    return parts[-2] if isinstance(parts[-2], tuple) else ()


def _unsigned(expr: Expr, *, value: bool) -> Expr:
    """Return `expr` with its leftmost number freed of its sign: of the mark alone, or of the minus as well."""
    match expr:
        case Literal(signed=True):
            return replace(expr, signed=False, value=_negated(expr) if value else expr.value)
        case Select():
            operand = _unsigned(expr.operand, value=value)
            return expr if operand is expr.operand else replace(expr, operand=operand)
        case Call(target=target) if target is not None:
            changed = _unsigned(target, value=value)
            return expr if changed is target else replace(expr, target=changed)
        case Call(function="_[_]" | "_[?_]" | "_?._", args=(first, second)):
            changed = _unsigned(first, value=value)
            return expr if changed is first else replace(expr, args=(changed, second))
        case _:
            return expr


def _negated(number: Literal) -> Any:
    """Return a number without its minus; raises CelError for the one int that is too large then."""
    if number.value == -(2**63) and isinstance(number.value, int):
        raise compile_error("invalid int literal", number.position + 1)
    return -number.value


def _has_signed_number(expr: Expr) -> bool:
    return _unsigned(expr, value=False) is not expr


class _Unary:
    """Unary operators in front of a member, all of one kind, counted: an even number of them means none."""

    __slots__ = ("count", "member", "operator", "position")

    def __init__(self, operator: Token, member: Expr) -> None:
        self.operator = operator.value
        self.position = _position(operator)
        self.member = member
        self.count = 1


def _whole(part: Any) -> Expr:
    """Return a member with its unary operators applied."""
    if not isinstance(part, _Unary):
        return part  # type: ignore[no-any-return]
    count, member = part.count, part.member
    if part.operator == "-" and _has_signed_number(member):
        # `--1` is two operators before 1, not one before -1: a sign belongs to the number only when it stands alone.
        count, member = count + 1, _unsigned(member, value=True)
    return member if count % 2 == 0 else Call(next_id(), part.position, f"{part.operator}_", (member,))


class Builder:
    """The reductions; each method is named after its rule and gets what the rule's parts became, tokens included."""

    def expr(self, parts: list[Any]) -> Expr:
        if len(parts) == 1:
            return _finished(parts[0])
        condition, question, chosen, _colon, other = parts
        args = (_finished(condition), _finished(chosen), other)
        return Call(next_id(), _position(question), "_?_:_", args)

    def conditionalor(self, parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else _chained("_||_", parts)

    def conditionaland(self, parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else _chained("_&&_", parts)

    def relation(self, parts: list[Any]) -> Expr:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        (left, operator), right = parts
        function = "@in" if operator.value == "in" else f"_{operator.value}_"
        return Call(next_id(), _position(operator), function, (left, right))

    addition = relation

    def multiplication(self, parts: list[Any]) -> Expr:
        return self.relation([*parts[:-1], _whole(parts[-1])])

    def _operand(self, parts: list[Any]) -> Any:
        return parts

    relation_lt = relation_le = relation_gt = relation_ge = relation_eq = relation_ne = relation_in = _operand
    addition_add = addition_sub = multiplication_mul = multiplication_div = multiplication_mod = _operand

    def unary(self, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        operator, operand = parts
        if not isinstance(operand, _Unary):
            return _Unary(operator, operand)
        if operand.operator != operator.value:
            raise compile_error(f"Syntax error: extraneous input '{operand.operator}'", operand.position)
        operand.count += 1
        operand.position = _position(operator)
        return operand

    def _only(self, parts: list[Any]) -> Any:
        return parts[0]

    unary_not = unary_neg = member = primary = _only

    def member_dot(self, parts: list[Any]) -> Expr:
        operand, dot, *_, name = parts
        if len(parts) == 3:
            return Select(next_id(), _position(dot), operand, _name(name))
        field = Literal(next_id(), _position(name), _name(name))
        return Call(next_id(), _position(dot), "_?._", (operand, field))

    def member_dot_arg(self, parts: list[Any]) -> Expr:
        target, _dot, name, opening, *_ = parts
        return _call(_position(opening), _name(name), target, _arguments(parts))

    def member_index(self, parts: list[Any]) -> Expr:
        operand, opening = parts[:2]
        function = "_[_]" if len(parts) == 4 else "_[?_]"
        return Call(next_id(), _position(opening), function, (operand, parts[-2]))

    def member_object(self, parts: list[Any]) -> Expr:
        member, opening, *rest = parts
        fields = rest[0] if isinstance(rest[0], tuple) else ()
        return Struct(next_id(), _position(opening), _message_name(member, _position(opening)), fields)

    def dot_ident_arg(self, parts: list[Any]) -> Expr:
        _dot, name, opening, *_ = parts
        return _call(_position(opening), "." + _variable(name), None, _arguments(parts))

    def ident_arg(self, parts: list[Any]) -> Expr:
        name, opening, *_ = parts
        return _call(_position(opening), _variable(name), None, _arguments(parts))

    def dot_ident(self, parts: list[Any]) -> Expr:
        _dot, name = parts
        return Ident(next_id(), _position(name), "." + _variable(name))

    def ident(self, parts: list[Any]) -> Expr:
        return Ident(next_id(), _position(parts[0]), _variable(parts[0]))

    def paren_expr(self, parts: list[Any]) -> Expr:
        return _unsigned(parts[1], value=False)

    def list_lit(self, parts: list[Any]) -> Expr:
        elements: list[tuple[Expr, bool]] = parts[1] if isinstance(parts[1], list) else []
        optional = frozenset(index for index, (_, optional) in enumerate(elements) if optional)
        values = tuple(element for element, _ in elements)
        return ListExpr(next_id(), _position(parts[0]), values, optional)

    def map_lit(self, parts: list[Any]) -> Expr:
        entries = parts[1] if isinstance(parts[1], tuple) else ()
        return MapExpr(next_id(), _position(parts[0]), entries)

    def exprlist(self, parts: list[Any]) -> tuple[Expr, ...]:
        return tuple(parts[::2])

    def listinit(self, parts: list[Any]) -> list[tuple[Expr, bool]]:
        if len(parts) == 1:
            return [parts[0]]
        parts[0].append(parts[2])
        return parts[0]  # type: ignore[no-any-return]

    def optexpr(self, parts: list[Any]) -> tuple[Expr, bool]:
        return parts[-1], len(parts) == 2

    def fieldinits(self, parts: list[Any]) -> tuple[Any, ...]:
        return (parts[0],) if len(parts) == 1 else (*parts[0], parts[2])

    mapinits = fieldinits

    def fieldinit(self, parts: list[Any]) -> Field:
        *_, name, colon, value = parts
        return Field(next_id(), _position(colon), _name(name), value, optional=len(parts) == 4)

    def mapinit(self, parts: list[Any]) -> Entry:
        *_, key, colon, value = parts
        return Entry(next_id(), _position(colon), key, value, optional=len(parts) == 4)

    def literal(self, parts: list[Any]) -> Expr:
        token = parts[0]
        position = _position(token)
        value = _READERS[token.type](token.value, position)
        return Literal(next_id(), position, value, signed=token.value[0] == "-")


def _chained(function: str, parts: list[Any]) -> _Chain:
    left, operator, right = parts
    chain = (
        left if isinstance(left, _Chain) and left.function == function else _Chain(function, _finished(left))
    )
    chain.terms.append(_finished(right))
    chain.operators.append(_position(operator))
    return chain


def _call(position: int, function: str, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    expanded = expand(position, function, target, args)
    return Call(next_id(), position, function, args, target) if expanded is None else expanded


def _message_name(member: Expr, position: int) -> str:
    if isinstance(member, Ident):
        return member.name
    if isinstance(member, Select) and not member.test_only:
        return f"{_message_name(member.operand, position)}.{member.field}"
    raise compile_error("Syntax error: mismatched input '{' expecting <EOF>", position)
