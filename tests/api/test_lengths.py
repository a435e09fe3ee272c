"""Lists and texts that are longer than the API server takes are found, with what to do about each."""

from typing import Any

import pytest

from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.refusals import find_refusals
from too_long import CASES, CONFIG, MATCH, claim, devices, slice_of


def found(body: dict[str, Any], **metadata: Any) -> list[tuple[str, str]]:
    """Return path and message of what is refused of an object."""
    whole = {"metadata": {"name": "x", **metadata}, **body}
    return [(item.path, item.message) for item in find_refusals(apply_defaults(read_object(whole)), whole)]


@pytest.mark.parametrize(("make", "most", "path"), CASES.values(), ids=CASES)
def test_one_more_than_the_api_server_takes_is_refused(make: Any, most: int, path: str) -> None:
    """With the path, the length, the most that there may be, and what to do."""
    ((where, message),) = found(make(most + 1))

    assert where == path
    assert message.startswith(f"{most + 1} ")
    assert f" are too many, {most} " in message
    assert message.partition(": ")[2]


@pytest.mark.parametrize(("make", "most", "path"), CASES.values(), ids=CASES)
def test_as_many_as_the_api_server_takes_are_right(make: Any, most: int, path: str) -> None:
    """Nothing is said of them."""
    assert found(make(most)) == [], path


def test_what_an_api_server_has_taken_is_not_too_long() -> None:
    """A newer one may take more."""
    assert found(slice_of(*devices(200)), uid="u") == []


@pytest.mark.parametrize("table", ["constraints", "config"])
def test_a_request_that_is_named_twice(table: str) -> None:
    """The API server takes a set."""
    item = {**(MATCH if table == "constraints" else CONFIG), "requests": ["r", "r"]}

    assert found(claim(**{table: [item]})) == [
        (f"spec.devices.{table}[0].requests[1]", '"r" is named twice: once is enough')
    ]
