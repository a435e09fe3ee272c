"""Ours beside Kubernetes' own code, live: the answers have to be the same.

The questions are the same in every run, so that a change is judged by what it changed; `make conformance` asks
new ones.
"""

import pytest

from conformance.program import running
from conformance.run import EXPRESSIONS, SCENARIOS, as_line, run
from dra_operator.allocator.self_check import ANSWERS, SCENARIO

COUNT = 600
SEED = 2026


@pytest.mark.timeout(900)  # The first run builds the program.
@pytest.mark.parametrize("kind", [SCENARIOS, EXPRESSIONS], ids=lambda kind: kind.name)
def test_we_answer_as_upstream_does(program, kind):
    """Of 600 questions none is answered otherwise than docs/differences.md says."""
    with running(program, kind.name) as upstream:
        found = run(kind, upstream, seed=SEED, numbers=range(COUNT), most_differences=3)

    report = "\n".join(map(as_line, found.differences))
    assert not found.differences, f"seed {SEED}: {found.summary()}\n{report}"
    assert found.verdicts["equal"] > 0.9 * COUNT, found.summary()


def test_upstream_answers_the_rehearsal_as_it_is_written_down(program):
    """What the operator compares itself with when it starts is what Kubernetes' own allocator says."""
    with running(program, "sequential") as upstream:
        answer = upstream.ask(SCENARIO)

    found = {claim["claim"]: _as_line(claim) for claim in answer["claims"]}
    assert found == ANSWERS


def _as_line(claim):
    """Return an answer of upstream's in the words of the rehearsal."""
    if "error" in claim:
        return claim["errorKind"]
    if claim["result"] is None:
        return "nothing"
    devices = [
        " ".join([item["device"], *(" ".join(amount) for amount in item.get("consumedCapacity", {}).items())])
        for item in claim["result"]["devices"]["results"]
    ]
    return f"{claim['node']}: {', '.join(devices)}"
