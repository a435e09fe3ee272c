"""Environments: what each version and purpose allows."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_selector
from dra_operator.cel.types.environment import Environment, read_row
from recordings import recorded

# cel-go keeps these for programs compiled long ago; the checker does not know them.
RUNTIME_ONLY = {"__not_strictly_false__", "_in_", "in"}


def signatures(environment: Environment) -> dict[str, list[str]]:
    """Return the declarations of an environment in the form of the reference files."""
    declared = {}
    for name, overloads in environment.functions.items():
        lines = []
        for overload in overloads:
            texts = [str(kind) for kind in overload.arguments]
            target = f"{texts.pop(0)}." if overload.member else ""
            lines.append(f"{overload.id}: {target}{name}({', '.join(texts)}) -> {overload.result}")
        declared[name] = lines
    return declared


@pytest.mark.parametrize("version", ["1.36", "1.37", "1.38"])
def test_the_declarations_are_those_of_kubernetes(version):
    """Every overload of the reference environment is declared, in its order, and no other."""
    expected = next(row["functions"] for row in recorded("cel_functions") if row["kubernetes"] == version)

    assert signatures(Environment(version)) == {
        key: expected[key] for key in expected if key not in RUNTIME_ONLY
    }


def test_a_declaration_reads_target_and_arguments():
    """A line of a declaration gives types, style and type parameters."""
    _, overload = read_row("f x: list(<A>).(map(<A>, int), string) -> <A>", None)

    assert [str(kind) for kind in overload.arguments] == ["list(<A>)", "map(<A>, int)", "string"]
    assert (overload.member, overload.parameters, str(overload.result)) == (True, ("A",), "<A>")


@pytest.mark.parametrize(
    ("environment", "expression", "accepted"),
    [
        (Environment("1.37", "new", consumable_capacity=False), "device.allowMultipleAllocations", False),
        (Environment("1.37", consumable_capacity=False), "device.allowMultipleAllocations", True),
        (
            Environment("1.37", "new", list_type_attributes=False),
            "device.attributes['d'].a.includes(1)",
            False,
        ),
        (Environment("1.37", "new"), "device.attributes['d'].a.includes(1)", True),
        (Environment("1.36"), "duration(size('a')) == duration('1s')", True),
        (Environment("1.37"), "duration(size('a')) == duration('1s')", False),
        (Environment("1.37"), "reverse('abc') == 'cba'", False),
        (Environment("1.37"), "math.greatest(1, 2) == 2", False),
    ],
)
def test_gates_and_versions_decide_what_compiles(environment, expression, accepted):
    """A thing that a version or a gate does not have is an error of the expression."""
    if accepted:
        assert compile_selector(expression, environment)
    else:
        with pytest.raises(CelError):
            compile_selector(expression, environment)
