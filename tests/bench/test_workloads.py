"""The workloads of bench/."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from workloads import SHAPES, workload

from conformance.replay import decide_one_by_one
from conformance.scenarios import load
from dra_operator.allocator.decision import Allocated

SMALL = [f"{shape}-{2 if shape.startswith('hard') else 12}" for shape in SHAPES]


@pytest.mark.parametrize("name", SMALL)
def test_a_workload_is_always_the_same(name: str) -> None:
    """It follows from its name and seed."""
    assert workload(name) == workload(name)


@pytest.mark.parametrize("name", SMALL)
def test_a_workload_can_be_replayed(name: str) -> None:
    """No claim of it ends with an error; the hard ones cannot be served, of the others most can."""
    decided = decide_one_by_one(load(workload(name)))
    served = sum(isinstance(decision, Allocated) for decision in decided.decisions)

    assert decided.decisions
    assert not any(hasattr(decision, "message") for decision in decided.decisions)
    assert served == 0 if name.startswith("hard") else served > len(decided.decisions) / 2


@pytest.mark.parametrize("name", SMALL)
def test_a_slice_has_no_more_devices_than_the_api_server_admits(name: str) -> None:
    """128, and half of that where counters are used."""
    for item in workload(name)["resourceSlices"]:
        published = item["spec"].get("devices", [])
        counted = any("consumesCounters" in device for device in published)
        assert len(published) <= (64 if counted else 128)


def test_no_two_claims_tolerate_the_same_where_nodes_are_of_teams() -> None:
    """The workload is about tolerations that claims have for themselves; nine of ten nodes are kept for somebody."""
    made = workload("tolerations-100")
    tolerated = {
        repr(item["spec"]["devices"]["requests"][0]["exactly"]["tolerations"]) for item in made["claims"]
    }
    tainted = [item for item in made["resourceSlices"] if "taints" in item["spec"]["devices"][0]]

    assert len(tolerated) == len(made["claims"]) == 60
    assert (len(tainted), len(made["deviceTaintRules"])) == (50, 40)


def test_hardly_any_two_claims_ask_for_the_same_amounts_where_policies_make_of_them_what_can_be_had() -> None:
    """The workload is about amounts that nobody has asked about before."""
    claims = workload("policies-1000")["claims"]
    asked = [
        repr(part["capacity"])
        for claim in claims
        for request in claim["spec"]["devices"]["requests"]
        for part in [request.get("exactly"), *request.get("firstAvailable", ())]
        if part
    ]

    assert len(claims) == 300
    assert len(set(asked)) > 0.98 * len(asked)


@pytest.mark.parametrize("name", ["cluster", "nothing-10", "cluster-0", "cluster-many"])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match="shapes are cluster"):
        workload(name)
