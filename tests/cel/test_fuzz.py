"""What fuzzing found, and a moment of fuzzing: an answer or a CelError, soon, the same plainly and metered.

`bench/fuzz_cel.py` does the same for hours.
"""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celfuzz import Case, Expressions, judge, random_device, random_driver

FINDINGS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "celfuzz/findings.jsonl").read_text().splitlines()
    if line
]
LONGEST = 1.0
"""Seconds, for all but evaluations; the fuzzer itself allows a tenth of that, on a machine that does nothing else."""


@pytest.mark.parametrize("row", FINDINGS, ids=[row["finding"][:70] for row in FINDINGS])
def test_what_was_found_once_is_right_now(row):
    """Each case that fuzzing found wrong is answered as it should be."""
    finding = judge(
        Case(row["expression"], row["driver"], row["device"], row["environment"]), longest=LONGEST
    )

    assert finding is None


@settings(max_examples=150)
@given(st.integers(0, 2**64))
def test_any_expression_on_any_device_ends_well(seed):
    """Expressions by the declarations, mutations, hostile ones and garbage do what the fuzzer asks of them."""
    source = random.Random(seed)
    case = Case(Expressions(source).expression(), random_driver(source), random_device(source))

    assert judge(case, longest=LONGEST) is None
