"""`simulate` says `broken` instead of `held` of an allocation whose devices cannot be used any more."""

import pytest
import yaml

import factories
from simulation import CLASS, devices, holding, node, table

ADVICE = "; end what uses this claim, and delete it: a new claim gets other devices"
RULE = factories.taint_rule("drain", {"device": "a"}, key="bad", effect="NoExecute", version="v1beta2")


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        pytest.param(
            [node("node-1"), devices("b")],
            "device gpu.example.com/node-1/a is not in generation 1 of its pool, which is complete",
            id="the device is missing",
        ),
        pytest.param([node("node-2"), devices("a")], "node node-1 is gone", id="the node is gone"),
        pytest.param(
            [node("node-1"), devices("a"), RULE],
            "device gpu.example.com/node-1/a has the taint bad:NoExecute of DeviceTaintRule drain, which is not "
            "tolerated",
            id="a taint is not tolerated",
        ),
    ],
)
def test_a_broken_allocation_says_why(simulate, objects, why):
    """It keeps its devices, so what else is decided does not change; the exit code is that of a claim that waits."""
    result = simulate(CLASS, *objects, holding("a"))

    assert table(result) == [["default/holder", "broken", "node-1", f"{why}{ADVICE}"]]
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "1 broken")


def test_the_annotation_says_so_too(simulate):
    """As the operator would write it."""
    result = simulate(CLASS, node("node-1"), devices("b"), holding("a"), options=("-o", "yaml"))

    (item,) = yaml.safe_load(result.stdout)["items"]
    assert item["metadata"]["annotations"]["dra-operator.io/broken"].startswith(
        "device gpu.example.com/node-1/a "
    )
