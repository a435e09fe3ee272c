"""What the tests of the library share."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.library.overloads import OVERLOADS


@pytest.fixture
def call() -> Callable[..., Any]:
    """Return the function that calls an overload by its id."""
    return lambda overload, *arguments: OVERLOADS[overload](*arguments)


@pytest.fixture
def error(call: Callable[..., Any]) -> Callable[..., str]:
    """Return the function that calls an overload by its id and gives the text of its error."""

    def message(overload: str, *arguments: Any) -> str:
        with pytest.raises(CelError) as caught:
            call(overload, *arguments)
        assert caught.value.kind == "runtime"
        return caught.value.message

    return message
