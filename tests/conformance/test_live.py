"""Ours beside Kubernetes' own code, live: the answers have to be the same.

The questions are the same in every run, so that a change is judged by what it changed; `make conformance` asks
new ones.
"""

import pytest

from conformance.program import running
from conformance.run import EXPRESSIONS, SCENARIOS, as_line, run

COUNT = 2000
SEED = 2026


@pytest.mark.timeout(900)  # The first run builds the program.
@pytest.mark.parametrize("kind", [SCENARIOS, EXPRESSIONS], ids=lambda kind: kind.name)
def test_we_answer_as_upstream_does(program, kind):
    """Of 2,000 questions none is answered otherwise than docs/differences.md says."""
    with running(program, kind.name) as upstream:
        found = run(kind, upstream, seed=SEED, numbers=range(COUNT), most_differences=3)

    report = "\n".join(map(as_line, found.differences))
    assert not found.differences, f"seed {SEED}: {found.summary()}\n{report}"
    assert found.verdicts["equal"] > 0.9 * COUNT, found.summary()
