"""Assembly: an expression of Python becomes a function, guarded against broken devices and against failing."""

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Compiled: TypeAlias = Callable[[Any], Any]


def assembled(value: ast.expr, names: Mapping[str, Any]) -> Compiled:
    """Return a function from a device `d` to a value.

    `names` are all that the expression may use; `otherwise` among them answers where the expression fails.
    """
    device = ast.arg("d")
    subject = ast.Name("d", ast.Load())
    otherwise = ast.Call(ast.Name("otherwise", ast.Load()), [subject], [])
    broken = ast.Attribute(subject, "broken", ast.Load())
    body: list[ast.stmt] = [
        ast.If(ast.Compare(broken, [ast.IsNot()], [ast.Constant(None)]), [ast.Raise(broken)], []),
        ast.Try(
            body=[ast.Return(value)],
            handlers=[ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Return(otherwise)])],
            orelse=[],
            finalbody=[],
        ),
    ]
    arguments = ast.arguments([], [device], None, [], [], None, [])
    function = ast.FunctionDef("evaluate", arguments, body, [], None)
    module = ast.Module([function], [])
    _place(module)
    scope = {"__builtins__": {}, **names}
    exec(compile(module, "<selector>", "exec"), scope)  # noqa: S102 - the tree above is all there is in it
    evaluate: Compiled = scope["evaluate"]
    return evaluate


def _place(tree: ast.AST) -> None:
    """Give every node a place, which Python asks for; `ast.fix_missing_locations` does it in twice the time."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _PLACED):
            node.lineno, node.col_offset = 1, 0
        for part in map(node.__dict__.get, node._fields):
            if isinstance(part, ast.AST):
                waiting.append(part)
            elif type(part) is list:
                waiting.extend(part)


_PLACED: Final = (ast.expr, ast.stmt, ast.arg, ast.excepthandler)
