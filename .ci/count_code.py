"""Counts the code lines, modules and classes of a checkout, and the words of its pages: `.ci/count_code.py [FOLDER]`.

A code line has something on it beside a comment or a docstring. Docstrings are those of modules, classes and functions;
a string that describes the attribute above it counts, as does every line of a string over several lines. A word has a
letter or a digit, so bars of tables are none; pages that are made from the code say so at their top and do not count.
"""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import Final, NamedTuple

ROOTS: Final = ("operator", "tests", "operator/dra_bridge")
"""A root within another one is counted by itself alone."""
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_CODE: Final = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
)


class Size(NamedTuple):
    """Numbers of code lines, modules and classes."""

    lines: int
    modules: int
    classes: int


def count(folder: Path, root: str) -> Size:
    """Return the size of all modules under a root, without those of other roots and without what is generated."""
    others = [folder / other for other in ROOTS if other.startswith(f"{root}/")]
    sizes = [
        _count_text(path.read_text(encoding="utf-8"))
        for path in (folder / root).rglob("*.py")
        if not path.stem.endswith(("_pb2", "_pb2_grpc"))
        and not any(other in path.parents for other in others)
    ]
    return Size(sum(lines for lines, _ in sizes), len(sizes), sum(classes for _, classes in sizes))


def _count_text(text: str) -> tuple[int, int]:
    """Return the numbers of code lines and classes of a module."""
    nodes = [*ast.walk(ast.parse(text))]
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines), sum(isinstance(node, ast.ClassDef) for node in nodes)


def count_words(folder: Path) -> int:
    """Return the number of words of README and docs/ that were written by hand."""
    texts = [
        path.read_text(encoding="utf-8") for path in (*folder.glob("README.md"), *folder.glob("docs/**/*.md"))
    ]
    by_hand = [text for text in texts if not re.search(r"\A#.*\n\n(?:Made|Generated) by `", text)]
    return sum(bool(re.search(r"\w", word)) for text in by_hand for word in text.split())


def main() -> int:
    """Print the size of each root, and the words."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1]
    for root in ROOTS:
        lines, modules, classes = count(folder, root)
        print(f"{root}/: {lines:,} code lines, {modules} modules, {classes} classes")
    print(f"README.md, docs/: {count_words(folder):,} words by hand")
    return 0


if __name__ == "__main__":
    sys.exit(main())
