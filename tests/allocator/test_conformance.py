"""The answers of Kubernetes' own allocator, scenario by scenario.

The reference answers live beside the repository (docs/dra-semantics says where they come from). Each file is one test
a shard, so that a failure names few scenarios and the rest still run.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from dra_operator.allocator import SearchMode
from dra_operator.cli.compare import difference, is_equal
from dra_operator.cli.replay import outcome
from dra_operator.cli.scenarios import load

SHARDS = 8


@pytest.fixture
def reference(shared: Path) -> Path:
    """The folder of allocator scenarios."""
    return shared / "data" / "allocator"


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the scenarios of a file."""
    with gzip.open(path) as lines:
        for line in lines:
            yield orjson.loads(line)


def differences(
    path: Path, shard: int, shards: int, searching: SearchMode
) -> tuple[int, list[str], list[str]]:
    """Decide a shard of a file; return how many scenarios it has, those that differ, and those that may."""
    seen, different, on_purpose = 0, [], []
    for number, row in enumerate(rows(path)):
        if number % shards != shard:
            continue
        seen += 1
        scenario = load(row)
        scenario.allocator.searching = searching
        if not is_equal(outcome(scenario.allocator.allocate(scenario.claims)), row["expected"]):
            (on_purpose if difference(row) else different).append(row["name"])
    return seen, different, on_purpose


@pytest.mark.parametrize("searching", SearchMode)
def test_upstreams_table(reference: Path, searching: SearchMode) -> None:
    """All 223 cases of the table test of Kubernetes' allocator are decided as there."""
    assert differences(reference / "upstream_table.jsonl.gz", 0, 1, searching) == (223, [], [])


@pytest.mark.parametrize("searching", SearchMode)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_scenarios(reference: Path, shard: int, searching: SearchMode) -> None:
    """All 1,400 random scenarios are decided as by Kubernetes 1.37.2."""
    seen, different, on_purpose = differences(reference / "random.jsonl.gz", shard, SHARDS, searching)

    assert (seen, different, on_purpose) == (1400 // SHARDS, [], [])
