"""Fixtures: what the API server refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.api.validation.refusals import find_refusals


@pytest.fixture
def refused() -> Callable[..., list[tuple[str, str]]]:
    """Return a function that returns path and message of each refusal of an object, which may get more metadata."""

    def of(body: dict[str, Any], **metadata: Any) -> list[tuple[str, str]]:
        whole = {**body, "metadata": {"name": "x", **body.get("metadata", {}), **metadata}}
        return [
            (item.path, item.message) for item in find_refusals(apply_defaults(read_object(whole)), whole)
        ]

    return of
