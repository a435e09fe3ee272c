"""Runs: many questions in a row, counted, each difference shrunk and printed."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.generate import make_case, make_scenario, respelled, with_default_gates
from conformance.judge import Ask, Judgement, Verdict, judge_case, judge_scenario
from conformance.program import Upstream
from conformance.shrink import shrink
from dra_operator.api.versions import RELEASED

Wire = dict[str, Any]
Judge = Callable[[Wire, Wire, Ask], Judgement]

_SAY_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of questions: how one is made from seed and number, and how its answers are judged."""

    name: str
    make: Callable[[int, int], Wire]
    judge: Judge


SCENARIOS = Kind("allocate", make_scenario, judge_scenario)
EXPRESSIONS = Kind("cel", make_case, judge_case)


@dataclass(slots=True)
class Outcome:
    """What a run came to: how often each verdict, and the differences, shrunk."""

    verdicts: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    differences: list[Wire] = field(default_factory=list)

    def summary(self) -> str:
        """Return the counts as one line."""
        verdicts = ", ".join(f"{count} {name}" for name, count in sorted(self.verdicts.items()))
        answers = ", ".join(f"{count} {name}" for name, count in self.answers.most_common())
        return f"{verdicts} (upstream: {answers})"


def run(
    kind: Kind,
    upstream: Upstream,
    *,
    seed: int,
    numbers: range,
    kubernetes: str = RELEASED,
    default_gates: bool = False,
    most_differences: int = 10,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Ask the questions of those numbers; stop early at so many differences."""
    outcome = Outcome()
    questions = (_changed(question_of(kind, seed, number, kubernetes), default_gates) for number in numbers)
    for asked, (question, answer) in enumerate(_ask_all(upstream, questions), 1):
        judgement = kind.judge(question, answer, upstream.ask)
        outcome.verdicts[judgement.verdict.value + (f" ({judgement.why})" if judgement.why else "")] += 1
        outcome.answers[judgement.kind[1]] += 1
        if judgement.verdict is Verdict.DIFFERENT:
            outcome.differences.append(_smallest(kind, question, judgement, upstream.ask))
            say(f"difference in {question['name']}")
            if len(outcome.differences) >= most_differences:
                say(f"stopped after {asked} questions at {most_differences} differences")
                break
        if asked % _SAY_EVERY == 0:
            say(f"{kind.name} {asked}: {outcome.summary()}")
    return outcome


def _changed(question: Wire, default_gates: bool) -> Wire:  # noqa: FBT001 - as it was asked for
    return with_default_gates(question) if default_gates else question


def question_of(kind: Kind, seed: int, number: int, kubernetes: str) -> Wire:
    """Return a question to a version of Kubernetes; it says which, unless it is the released one."""
    question = kind.make(seed, number)
    if kubernetes == RELEASED:
        return question
    return {**(respelled(question) if kind is SCENARIOS else question), "kubernetes": kubernetes}


def _ask_all(upstream: Upstream, questions: Iterator[Wire]) -> Iterator[tuple[Wire, Wire]]:
    for question in questions:
        yield question, upstream.ask(question)


def _smallest(kind: Kind, question: Wire, judgement: Judgement, ask: Ask) -> Wire:
    """Return a difference as small as it gets, with both answers, in a form that the commands read."""

    def shows(candidate: Wire) -> bool:
        found = kind.judge(candidate, ask(candidate), ask)
        return found.verdict is Verdict.DIFFERENT and found.kind == judgement.kind

    small = shrink(question, shows)
    found = kind.judge(small, ask(small), ask)
    return {**small, "expected": found.upstream, "ours": found.ours}


def as_line(difference: Wire) -> str:
    """Return a difference as one line of JSON."""
    return json.dumps(difference, ensure_ascii=False)
