"""The workloads of bench/."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from workloads import SHAPES, names, workload, write

from conformance.replay import decide_one_by_one
from conformance.scenarios import load
from dra_operator.allocator.decision import Allocated

SMALL = [f"{shape}-{2 if shape.startswith('hard') else 12}" for shape in SHAPES]


def devices(scenario: Any) -> int:
    """Return how many devices a scenario has."""
    return sum(len(item["spec"].get("devices", ())) for item in scenario["resourceSlices"])


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


def test_another_seed_is_another_workload() -> None:
    """Chance decides what is in use and what is asked for."""
    assert workload("cluster-30") != workload("cluster-30", seed=2)


@pytest.mark.parametrize(
    ("name", "nodes", "published"), [("cluster-7", 7, 56), ("mig-3", 3, 456), ("network-300", 30, 300)]
)
def test_the_size_is_in_the_name(name: str, nodes: int, published: int) -> None:
    """Any size can be had."""
    made = workload(name)

    assert (len(made["nodes"]), devices(made)) == (nodes, published)


def test_every_selector_is_another_where_claims_have_their_own() -> None:
    """The workload is about selectors that no two claims share."""
    claims = workload("selector-100")["claims"]
    expressions = {repr(claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"]) for claim in claims}

    assert len(expressions) == len(claims) == 60


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


def test_the_listed_names_are_workloads() -> None:
    """Each is a shape and a size."""
    assert {name.rpartition("-")[0] for name in names()} == set(SHAPES)


def test_a_file_is_written_once(tmp_path: Path) -> None:
    """It is there afterwards, and is not made again."""
    first = write("hard-late-02", tmp_path)
    first.write_text("kept")

    assert write("hard-late-02", tmp_path).read_text() == "kept"


def test_who_reads_the_names_may_stop_early() -> None:
    """A pipe that is closed, as by `head`, is no error."""
    reader, writer = os.pipe()
    os.close(reader)
    command, folder = [sys.executable, "-m", "workloads", "--list"], Path(__file__).parents[2] / "bench"
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, cwd=folder, check=False)
    os.close(writer)

    assert done.stderr == b""
