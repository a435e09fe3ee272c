"""Every reference answer for CEL: selectors on devices, upstream's own table with costs, values with costs."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dra_operator.cel.cases import differences, outcome

# One answer depends on the order in which Go walked a map that day; its cost was recorded as if it did not.
DIFFERENCES = {"{'key1':1, 'key2':2}.all(k, k == 'key2')": ("actualCost",)}


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the cases of a file."""
    if file.suffix == ".json":
        return json.loads(file.read_text())["cases"]
    with gzip.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("file", "count"),
    [("selectors.jsonl.gz", 2700), ("upstream_table.json", 112), ("values.jsonl.gz", 2921)],
)
def test_every_answer_is_that_of_kubernetes(shared, file, count):
    """Outcome, value, type, worst-case cost and actual cost are upstream's, in every row but those listed."""
    cases = rows(shared / "data" / "cel" / file)

    different = {case["expression"]: found for case in cases if (found := differences(case, outcome(case)))}

    assert len(cases) == count
    assert {key: value for key, value in different.items() if DIFFERENCES.get(key) != value} == {}
