"""Lists and texts that are longer than the API server takes are found, with what to do about each."""

from typing import Any

import pytest

from too_long import CASES, CONFIG, MATCH, claim, devices, slice_of


@pytest.mark.parametrize(("make", "most", "path"), CASES.values(), ids=CASES)
def test_one_more_than_the_api_server_takes_is_refused(refused: Any, make: Any, most: int, path: str) -> None:
    """With the path, the length, the most that there may be, and what to do."""
    ((where, message),) = refused(make(most + 1))

    assert where == path
    assert message.startswith(f"{most + 1} ")
    assert f" are too many, {most} " in message
    assert message.partition(": ")[2]


def test_what_an_api_server_has_taken_is_not_too_long(refused: Any) -> None:
    """A newer one may take more."""
    assert refused(slice_of(*devices(200)), uid="u") == []


@pytest.mark.parametrize("table", ["constraints", "config"])
def test_a_request_that_is_named_twice(refused: Any, table: str) -> None:
    """The API server takes a set."""
    item = {**(MATCH if table == "constraints" else CONFIG), "requests": ["r", "r"]}

    assert refused(claim(**{table: [item]})) == [
        (f"spec.devices.{table}[0].requests[1]", '"r" is named twice: once is enough')
    ]
