"""Rules of style that a linter does not know; docs/contributing.md gives their reasons."""

import ast
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "operator" / "dra_operator"
MODULES = sorted(
    path for path in PACKAGE.parent.rglob("*.py") if not path.stem.endswith(("_pb2", "_pb2_grpc"))
)
"""Of both packages, without what is generated."""
FOLDERS = sorted({path.parent for path in MODULES})
MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_DOCSTRING = 6
TOO_GENERAL = {"of", "note", "look", "take", "tell", "told", "took"}
"""Names of functions that say nothing where they are called."""
NO_NAMES = {
    *(
        "aside", "asides", "desk", "doubts", "guests", "landing", "openings", "outlook", "putoff",
        "scales", "sieve",
    ),
    *("sight", "stock", "taken", "telling", "tidying", "turns", "unheard", "unsaid", "wants"),
}  # fmt: skip
"""Metaphors that stood for terms of Kubernetes or of constraint search; no module is called so."""
NO_CLASSES = {
    *(
        "Gathered",
        "Landing",
        "Leading",
        "Learnt",
        "Looked",
        "Taken",
        "Telling",
        "Thing",
    ),
    *("Told", "Touched", "Unsaid", "Waiting", "Watching"),
    *("Applied", "Asked", "Chosen", "Decided", "Relisted", "Stranded"),
}
"""Participles and things that stood for what a class holds."""


@cache
def tree(module):
    """Return the syntax tree of a module."""
    return ast.parse(module.read_text(encoding="utf-8"))


def name_of(path):
    """Return how a test about a module or folder is called."""
    return str(path.relative_to(PACKAGE.parent))


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_functions_are_short_and_say_what_they_do(module):
    """A function does one thing, in at most sixty lines, and its name is found by searching."""
    functions = [
        each for each in ast.walk(tree(module)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    long = [each.name for each in functions if each.end_lineno - each.lineno >= MOST_LINES_OF_A_FUNCTION]
    vague = [each.name for each in functions if each.name.lstrip("_") in TOO_GENERAL]
    assert (long, vague) == ([], [])


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_classes_and_modules_have_names_of_the_field(module):
    """They are found by whoever knows Kubernetes, kube-scheduler or constraint search."""
    classes = {each.name.lstrip("_") for each in ast.walk(tree(module)) if isinstance(each, ast.ClassDef)}

    assert classes & NO_CLASSES == set()
    assert module.stem not in NO_NAMES


@pytest.mark.parametrize("module", [path for path in MODULES if path.name != "__init__.py"], ids=name_of)
def test_docstring_of_a_module_is_short(module):
    """What for, the usual name of the algorithm, the source of the rule; reasons are in docs/."""
    assert len((ast.get_docstring(tree(module)) or "").splitlines()) <= MOST_LINES_OF_A_DOCSTRING


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_no_module_is_part_of_another_by_name(folder):
    """Two modules of a folder whose names begin alike are one idea that was cut."""
    stems = sorted(path.stem for path in MODULES if path.parent == folder)

    assert [(one, other) for one, other in pairwise(stems) if other.startswith(one)] == []
