"""The function that an expression of Python becomes."""

from types import SimpleNamespace

import pytest

from dra_operator.cel.compiler.codegen import guarded_function
from dra_operator.cel.compiler.trees import load, part_of

ANSWER = part_of(load("d"), "driver")


def test_a_failing_expression_is_handed_on():
    """What the expression cannot answer, the other function does."""
    function = guarded_function(ANSWER, {"Exception": Exception, "otherwise": lambda _device: "other"})

    assert function(SimpleNamespace(broken=None, driver="a")) == "a"
    assert function(SimpleNamespace(broken=None)) == "other"


def test_a_broken_device_is_an_error_before_anything_is_evaluated():
    """The error that the device carries is raised, and nobody is asked."""
    function = guarded_function(ANSWER, {"Exception": Exception, "otherwise": lambda _device: "other"})

    with pytest.raises(ValueError, match="broken"):
        function(SimpleNamespace(broken=ValueError("broken"), driver="a"))
