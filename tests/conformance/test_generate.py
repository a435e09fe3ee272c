"""Generating: wide, and the same again from the same seed."""

import json
from collections import Counter

import pytest

from conformance.generate import make_case, make_scenario

SCENARIOS = 400


@pytest.mark.parametrize("make", [make_scenario, make_case])
def test_same_seed_and_number_give_the_same(make):
    """A question can be made again from what its name says, whatever was made before."""
    first = [make(3, number) for number in range(5)]

    assert make(3, 4) == first[4]
    assert make(4, 4) != first[4]


@pytest.mark.parametrize(
    "word",
    [
        "adminAccess",
        "allNodes",
        "allocatedState",
        "allowMultipleAllocations",
        "bindingConditions",
        "bindsToNode",
        "compatibilityGroups",
        "config",
        "consumedCapacity",
        "consumesCounters",
        "derivedAttributes",
        "deviceSelector",
        "distinctAttribute",
        "features",
        "firstAvailable",
        "ints",
        "matchAttribute",
        "noDefaults",
        "nodeSelector",
        "perDeviceNodeSelection",
        "requestPolicy",
        "selectors",
        "shareID",
        "sharedCounters",
        "skipNodeOperations",
        "step",
        "strings",
        "taints",
        "tolerations",
        "validValues",
    ],
)
def test_every_field_occurs(word, written):
    """Each part of the API that can change an answer is in some of the scenarios."""
    assert written[f'"{word}"'] >= 3


@pytest.fixture(scope="module")
def written() -> Counter[str]:
    """Return in how many scenarios each word occurs."""
    counts: Counter[str] = Counter()
    for number in range(SCENARIOS):
        text = json.dumps(make_scenario(1, number))
        counts.update({f'"{word}"' for word in text.split('"')[1::2]})
    return counts
