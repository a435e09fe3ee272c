"""A workload, measured on both sides by turns, and where their answers differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.scenarios import is_equal
from versus.sides import Side

_FLOOR, _FLOOR_OF_SOME = 10, 3
"""How many times faster than Go ours is at least, from 1,000 nodes on; smaller clusters have no floor."""
_SOME = frozenset(("policies", "models", "mixed", "fabric", "cpus"))

_BRIEF, _TIMES = 0.05, 5
"""While no side has spent so many seconds, there are so many times as many rounds: a few claims vary widely."""


@dataclass(frozen=True, slots=True)
class Row:
    """A workload, measured; `other` is None if only ours was.

    `different` says where the answers are, `given_up` on how many claims the other gave up, `undecided` on how many
    ours did. `parted` claims were compared until one gave up where the other took devices; None if that was not so,
    or at the last claim.
    """

    name: str
    nodes: int
    ours: Side
    other: Side | None
    different: Sequence[str]
    given_up: int
    undecided: int
    parted: int | None = None

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is, by the means."""
        return None if self.other is None else self.other.median("mean") / self.ours.median("mean")

    @property
    def ratio_with_compiling(self) -> float | None:
        """The same with compiling counted in."""
        return None if self.other is None else self.other.median("total") / self.ours.median("total")

    @property
    def floor(self) -> int | None:
        """How many times faster ours is at least; None if it may be as fast as it is."""
        if self.nodes < 1000:
            return None
        return _FLOOR_OF_SOME if self.name.partition(" ")[0].rpartition("-")[0] in _SOME else _FLOOR


def measure(name: str, file: Path, sides: Sequence[Side], *, rounds: int, seconds: float) -> Row:
    """Measure a workload, the sides by turns; a brief one in more rounds than others."""
    for number in range(rounds * _TIMES):
        if number >= rounds and any(side.spent >= _BRIEF for side in sides):
            break
        # Who comes first finds the caches of the machine cold.
        for side in sides if number % 2 else reversed(sides):
            if not side.rounds or side.spent < seconds:
                side.again(file)
    with file.open() as lines:
        nodes = len(json.load(lines)["nodes"])
    ours, other = sides[0], sides[1] if len(sides) > 1 else None
    if other is None:
        return Row(name, nodes, ours, None, different=(), given_up=0, undecided=0)
    return compared(name, nodes, ours, other)


def compared(name: str, nodes: int, ours: Side, other: Side) -> Row:
    """Compare the answers of the two sides, claim by claim."""
    different: list[str] = []
    given_up = undecided = 0
    pairs = list(zip(ours.rounds[0].answers, other.rounds[0].answers, strict=True))
    for number, (mine, theirs) in enumerate(pairs, 1):
        if mine.get("errorKind") == "aborted":
            undecided += 1
        elif theirs.get("errorKind") == "aborted":
            given_up += 1
        elif not is_equal(_outcome(mine), _outcome(theirs)):
            different.append(f"{name}, {mine['claim']}: ours {_outcome(mine)}, the other {_outcome(theirs)}")
        gave_up = "aborted" in (mine.get("errorKind"), theirs.get("errorKind"))
        if gave_up and (mine["result"] or theirs["result"]) and number < len(pairs):
            return Row(name, nodes, ours, other, different, given_up, undecided, parted=number - 1)
    return Row(name, nodes, ours, other, different, given_up, undecided)


def _outcome(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        return {"error": answer["error"], "errorKind": answer["errorKind"]}
    if answer["result"] is None:
        return {"unsatisfiable": True}
    return {"node": answer["node"], "results": [answer["result"]]}
