"""Every reference answer for CEL: selectors on devices, upstream's own table with costs, values with costs."""

import pytest

from conformance.cases import differences, outcome
from recordings import recorded, recording_of

# One answer depends on the order in which Go walked a map that day; its cost was recorded as if it did not.
DIFFERENCES = {"{'key1':1, 'key2':2}.all(k, k == 'key2')": ("actualCost",)}


@pytest.mark.parametrize(
    ("name", "count"), [("cel_selectors", 2700), ("cel_upstream_table", 112), ("cel_values", 2921)]
)
def test_every_answer_is_that_of_kubernetes(name, count):
    """Outcome, value, type, worst-case cost and actual cost are upstream's, in every row but those listed."""
    cases = list(recorded(name))

    different = {case["expression"]: found for case in cases if (found := differences(case, outcome(case)))}

    assert len(cases) == count
    assert {key: value for key, value in different.items() if DIFFERENCES.get(key) != value} == {}


@pytest.mark.parametrize("version", ["1.37", "1.38"])
def test_generated_expressions_are_answered_as_by_kubernetes(version):
    """So are those of our own generator, where docs/differences.md names no reason for another answer."""
    cases = [case for case in recorded(recording_of("cel", version)) if "difference" not in case]

    different = [(case["expression"], found) for case in cases if (found := differences(case, outcome(case)))]

    assert len(cases) > 2000
    assert different == []
