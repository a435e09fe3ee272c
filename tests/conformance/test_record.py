"""What is recorded of the answers of Kubernetes."""

import pytest

from conformance.judge import Judgement, Verdict
from conformance.record import rows
from conformance.run import Kind


class Upstream:
    """Answers every question alike."""

    def ask(self, question):
        """Return the answer."""
        return {"name": question["name"], "unsatisfiable": True}


def record(verdict, why=""):
    """Record two questions that are judged so."""
    kind = Kind(
        "allocate",
        lambda _, number: {"name": f"q{number}"},
        lambda _, answer, ask: Judgement(verdict, {}, ask(answer), why),
    )
    return list(rows(kind, Upstream(), seed=1, numbers=range(2)))


def test_a_row_is_the_question_with_the_answer():
    """The name is not repeated, and a difference on purpose has the name of its entry."""
    assert record(Verdict.EQUAL)[1] == {"name": "q1", "expected": {"unsatisfiable": True}}
    assert record(Verdict.EXPLAINED, "slice-order")[0]["difference"] == "slice-order"


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.VARIES])
def test_what_has_no_one_answer_is_left_out(verdict):
    """Neither what a side gave up on, nor what upstream answers differently when asked again."""
    assert record(verdict) == []


def test_a_difference_is_not_recorded():
    """It is a fault to mend first."""
    with pytest.raises(ValueError, match="q0 is answered otherwise than by upstream"):
        record(Verdict.DIFFERENT)
