"""The answers of Kubernetes' own allocator, scenario by scenario.

Each recording is one test a shard, so that a failure names few scenarios and the rest still run.
"""

from itertools import islice

import pytest

from conformance.replay import outcome
from conformance.scenarios import difference, is_equal, load
from dra_operator.allocator.search.chain import SearchMode
from recordings import recorded, recording_of

SHARDS = 8


def differences(
    name: str, shard: int, shards: int, searching: SearchMode
) -> tuple[int, list[str], list[str]]:
    """Decide a shard of a recording; return how many scenarios it has, those that differ, and those that may."""
    seen, different, on_purpose = 0, [], []
    for row in islice(recorded(name), shard, None, shards):
        seen += 1
        scenario = load(row)
        scenario.allocator.searching = searching
        if not is_equal(outcome(scenario.allocator.allocate(scenario.claims)), row["expected"]):
            (on_purpose if difference(row) else different).append(row["name"])
    return seen, different, on_purpose


@pytest.mark.parametrize("searching", SearchMode)
def test_upstreams_table(searching: SearchMode) -> None:
    """All 223 cases of the table test of Kubernetes' allocator are decided as there."""
    assert differences("allocator_upstream_table", 0, 1, searching) == (223, [], [])


@pytest.mark.parametrize("searching", SearchMode)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_scenarios(shard: int, searching: SearchMode) -> None:
    """All 1,400 random scenarios are decided as by Kubernetes 1.37.2."""
    assert differences("allocator_random", shard, SHARDS, searching) == (1400 // SHARDS, [], [])


@pytest.mark.parametrize("searching", SearchMode)
@pytest.mark.parametrize(
    ("name", "least"),
    [
        (recording_of("allocate", "1.37"), 600),
        (recording_of("allocate", "1.38"), 600),
        ("allocator_changed_1_38", 100),
    ],
)
def test_generated_scenarios(name: str, least: int, searching: SearchMode) -> None:
    """Scenarios are decided as by the code of their version of Kubernetes, but where differences.md says otherwise.

    They are those of our own generator, and those of all recordings of 1.37.2 that 1.38 answers in another way.
    """
    rows = list(recorded(name))
    explained = [row["name"] for row in rows if "difference" in row]

    seen, different, on_purpose = differences(name, 0, 1, searching)

    assert seen == len(rows) > least
    assert [name for name in different if name not in explained] == []
    assert set(on_purpose) <= set(explained)
