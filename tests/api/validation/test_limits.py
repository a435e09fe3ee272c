"""Lists and texts that are longer than the API server takes are found, with what to do about each."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dra_operator.api.types import DerivedAttribute, DeviceConfiguration
from dra_operator.api.validation.limits import MOST_ITEMS
from dra_operator.api.wire import wire_fields
from dra_operator.testing import validation
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


def test_limits_are_those_that_the_structs_declare() -> None:
    """The API server in memory reads them from `rules.json`; what no struct declares is a constant in Go."""
    declared = json.loads(Path(validation.__file__).with_name("rules.json").read_text(encoding="utf-8"))
    structs = {DeviceConfiguration: "DeviceClaimConfiguration", DerivedAttribute: "DeviceDerivedAttribute"}
    for (kind, field), (most, _) in MOST_ITEMS.items():
        names = dict(zip([each.name for each in fields(kind)], wire_fields(kind), strict=True))
        rules = declared.get(f"resource/v1.{structs.get(kind, kind.__name__)}", {}).get(names[field], [])
        for rule in rules:
            if rule.startswith("maxItems="):
                assert rule == f"maxItems={most}", (kind, field)
