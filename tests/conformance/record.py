"""Recording: questions of the generator with Kubernetes' answers, for whoever has no Go.

Questions that nobody decides, and those that upstream answers differently when asked again, are left out.
"""

from collections.abc import Iterator
from typing import Any

from conformance.judge import Judgement, Verdict, costs
from conformance.program import Upstream
from conformance.run import Kind, question_of
from dra_operator.api.versions import RELEASED

Wire = dict[str, Any]


def rows(
    kind: Kind, upstream: Upstream, *, seed: int, numbers: range, kubernetes: str = RELEASED
) -> Iterator[Wire]:
    """Ask the questions of those numbers; yield each with its answer under `expected`.

    Where ours is another on purpose, `difference` names the entry of docs/differences.md. Raises ValueError at a
    question that is answered otherwise for no such reason.
    """
    for number in numbers:
        question = question_of(kind, seed, number, kubernetes)
        judgement = kind.judge(question, upstream.ask(question), upstream.ask)
        if row := _row(question, judgement):
            yield row


def _row(question: Wire, judgement: Judgement) -> Wire | None:
    answered = {key: value for key, value in judgement.upstream.items() if key != "name"}
    row = {key: value for key, value in question.items() if key != "maxCost"} | {"expected": answered}
    if "expression" in question:
        row |= costs(question, answered)
    match judgement.verdict:
        case Verdict.EQUAL:
            return row
        case Verdict.EXPLAINED:
            return {**row, "difference": judgement.why}
        case Verdict.DIFFERENT:
            raise ValueError(f"{question['name']} is answered otherwise than by upstream")
        case _:
            return None
