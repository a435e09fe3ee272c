"""What the tests of the library share."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.types.environment import functions


@pytest.fixture
def call() -> Callable[..., Any]:
    """Return the function that calls an overload by its id."""
    codes = {overload.id: overload.code for group in functions().values() for overload in group}
    return lambda overload, *arguments: codes[overload](*arguments)


@pytest.fixture
def error(call: Callable[..., Any]) -> Callable[..., str]:
    """Return the function that calls an overload by its id and gives the text of its error."""

    def message(overload: str, *arguments: Any) -> str:
        with pytest.raises(CelError) as caught:
            call(overload, *arguments)
        assert caught.value.kind == "runtime"
        return caught.value.message

    return message
