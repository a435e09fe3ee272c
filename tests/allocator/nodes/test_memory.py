"""What was learnt about nodes is kept until something comes back there, or too much else is asked."""

from dataclasses import dataclass

import pytest

from dra_operator.allocator.nodes.memory import Learnt, Memory
from dra_operator.ledger import Log


@dataclass(slots=True)
class Seen(Learnt):
    """All that was in the log since the first question."""

    nodes: int = 0

    def catch_up(self, log: Log) -> None:
        """Add what came."""
        self.nodes += log.since(self.position) or 0


@pytest.fixture
def memory() -> Memory[Seen]:
    """Room for what was learnt from four questions."""
    return Memory(Log(), Seen, maximum=4)


def test_what_came_back_is_read_once(memory: Memory[Seen]) -> None:
    """By each question from where it was asked last; what came before it was first asked is of no interest."""
    memory.log.append(0b1)
    memory.of("a")
    memory.log.append(0b10)
    memory.of("b")
    memory.log.append(0b100)

    assert [memory.of(question).nodes for question in "aab"] == [0b110, 0b110, 0b100]


def test_questions_not_asked_for_longest_are_forgotten(memory: Memory[Seen]) -> None:
    """One that everybody asks stays, whatever others come and go."""
    common = memory.of("common")
    for number in range(20):
        memory.of(number)

        assert memory.of("common") is common
        assert len(memory._known) <= 4
